//! Machines: namespaces of this host with a root, a container runtime and a kubelet of their own.
//!
//! A machine is found by its cgroup and not by a list of processes somewhere, so whoever is restarted finds all of
//! them as they are. Its first process ([`init`]) is this program again; when that one ends, in whatever way, the
//! kernel ends everything else of the machine. [`Machines`] is the way in. The network is given: a namespace that has
//! an address. It must not know Kubernetes' API or what a Cluster is.
//!
//! Root in a machine is root of the host behind namespaces: machines keep clusters apart that trust the platform's
//! owner, and are no wall against somebody who wants out.

mod cgroup;
mod configuration;
mod folder;
pub mod init;
mod launch;
mod machines;
mod mounts;
mod process;
pub mod protocol;
mod spec;
pub mod systemctl;

pub use cgroup::Cgroups;
pub use configuration::eviction_thresholds;
pub use folder::{Folder, Held};
pub use launch::launch;
pub use machines::{Machines, Observed, Supervisor};
pub use spec::{InvalidId, MachineId, MachineSpec, Mirror, Programs};

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// What the program does that is started again and again: `launch FOLDER`, `init FOLDER`, `remove FOLDER`, and
/// `systemctl ...` inside of machines. For a process of its own with one thread.
pub fn main(arguments: &[String]) -> ExitCode {
    let result = match arguments {
        [verb, rest @ ..] if verb == "systemctl" => return ExitCode::from(systemctl::run(rest)),
        [verb, folder] if verb == "launch" => launch(Path::new(folder)),
        [verb, folder] if verb == "init" => {
            init::run(Path::new(folder)).map(|never| match never {})
        }
        [verb, folder] if verb == "remove" => remove(Path::new(folder)),
        _ => {
            eprintln!("usage: launch FOLDER | remove FOLDER");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", butler_runtime::error::chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// Removes the machine of a folder, wherever it is.
fn remove(folder: &Path) -> Result<(), Error> {
    let missing = || Error::file("find a machine in", folder)(io::ErrorKind::NotFound.into());
    let id = folder
        .file_name()
        .and_then(|name| name.to_str()?.parse().ok())
        .ok_or_else(missing)?;
    let parent = folder.parent().unwrap_or(folder);
    let supervisor = Supervisor {
        program: "/proc/self/exe".into(),
        arguments: launch::own_arguments(),
    };
    Machines::new(parent, supervisor)?.remove(&id)
}

/// Why something could not be done to a machine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be used.
    #[error("could not {action} {path:?}")]
    File {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The kernel refused something about namespaces.
    #[error(
        "could not {action}; machines need root and a kernel with namespaces, cgroups, veth and overlayfs"
    )]
    Kernel {
        /// What was tried.
        action: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The machine's first process ended before the machine was up.
    #[error("machine {id} did not start; the end of its console: {console}")]
    NotStarted {
        /// Which one.
        id: MachineId,
        /// Its last words.
        console: String,
    },
    /// The machine is not there.
    #[error("machine {id} is not running")]
    NotRunning {
        /// Which one.
        id: MachineId,
    },
    /// Processes of a machine outlived its end.
    #[error("processes of machine {id} are still there {seconds} s after they were killed")]
    Stuck {
        /// Which one.
        id: MachineId,
        /// For how long.
        seconds: u64,
    },
    /// There are no cgroups to limit machines with.
    #[error(
        "this host has no cgroups mounted below /sys/fs/cgroup; machines cannot be limited or found without"
    )]
    NoCgroups,
    /// A command of the host failed.
    #[error("`{command}` failed: {output}")]
    Command {
        /// What was run.
        command: String,
        /// What it said.
        output: String,
    },
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }

    pub(crate) fn kernel<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Kernel {
            action,
            source: source.into(),
        }
    }
}
