//! Running a command with something on its standard input.

use std::{
    io::{self, Write as _},
    process::{Command, Output, Stdio},
};

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command, input: &str) -> io::Result<Output> {
    let spawned = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let named = |error: io::Error| {
        let program = command.get_program().to_string_lossy().into_owned();
        io::Error::new(error.kind(), format!("{program}: {error}"))
    };
    let mut child = spawned.map_err(named)?;
    let stdin = child.stdin.take();
    std::thread::scope(|scope| {
        // On a thread, because a command may answer before it has read everything.
        scope.spawn(move || {
            // One that ends without reading says why on its standard error.
            let _ = stdin.map(|mut stdin| stdin.write_all(input.as_bytes()));
        });
        child.wait_with_output()
    })
}
