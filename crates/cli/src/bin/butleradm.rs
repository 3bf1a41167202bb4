//! `butleradm`: for people who run the platform.

use std::process::ExitCode;

fn main() -> ExitCode {
    butler_cli::butleradm::main()
}
