//! Programs the machine already has: found on PATH, asked for their version.

use std::{
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::process::Command;

use crate::{plan::Fact, version::Version};

/// How long a program may take to print its version.
const REPORT_LIMIT: Duration = Duration::from_secs(10);

/// How often, and after which pause, a program is started again that somebody still had open for writing.
const BUSY_RETRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Looks for a program called `name` that reports `version`, outside of `cache`.
pub(crate) async fn find(
    search_path: &[PathBuf],
    cache: &Path,
    name: &str,
    report: &[String],
    version: Version,
) -> Fact<PathBuf> {
    let mut others = Vec::new();
    for candidate in executables(search_path, name) {
        // A link into our own cache would make a file vouch for itself.
        let Ok(real) = candidate.canonicalize() else {
            continue;
        };
        if real.starts_with(cache) {
            continue;
        }
        match reports(&candidate, report, version).await {
            Ok(()) => return Fact::Present(candidate),
            Err(reason) => others.push(format!("{}: {reason}", candidate.display())),
        }
    }
    if others.is_empty() {
        Fact::Absent(format!("{name} is not on PATH"))
    } else {
        Fact::Absent(others.join(", "))
    }
}

/// The first executable of this name.
pub(crate) fn first(search_path: &[PathBuf], name: &str) -> Option<PathBuf> {
    executables(search_path, name).next()
}

fn executables(search_path: &[PathBuf], name: &str) -> impl Iterator<Item = PathBuf> {
    search_path
        .iter()
        .map(move |folder| folder.join(name))
        .filter(|file| {
            file.metadata()
                .is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
        })
}

/// Whether the program starts and reports `version`; if not, why.
pub(crate) async fn reports(
    program: &Path,
    arguments: &[String],
    version: Version,
) -> Result<(), String> {
    let run = run(program, arguments);
    let output = match tokio::time::timeout(REPORT_LIMIT, run).await {
        Err(_) => {
            return Err(format!(
                "did not report its version within {REPORT_LIMIT:?}"
            ));
        }
        Ok(Err(error)) => return Err(format!("cannot be started: {error}")),
        Ok(Ok(output)) => output,
    };
    let text = [output.stdout, output.stderr].concat();
    if version.is_named_in(&String::from_utf8_lossy(&text)) {
        Ok(())
    } else {
        Err(format!("does not report {version}"))
    }
}

async fn run(program: &Path, arguments: &[String]) -> io::Result<std::process::Output> {
    let mut retries = BUSY_RETRIES;
    loop {
        let result = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await;
        match result {
            // A process forked by another thread holds our file open until its exec; there is no event to wait for.
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && retries > 0 => {
                retries -= 1;
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            result => return result,
        }
    }
}
