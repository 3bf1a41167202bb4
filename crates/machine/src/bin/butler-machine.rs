//! The first process of machines, and what starts and removes them, as a program of its own for tests and for hosts
//! that want it small. `butler machine` is the same.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    butler_machine::runtime::main(&arguments)
}
