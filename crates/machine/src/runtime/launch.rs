//! The step from the host into a machine: a short-lived process that enters the machine's cgroups and network, makes
//! the other namespaces, starts the first process there and says whether that one came up.

use std::{
    env,
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader},
    os::fd::AsFd as _,
    path::Path,
    process::{Command, Stdio},
};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::{Cgroups, Error, Folder};

/// What the first process says when the machine is up.
pub(crate) const UP: &str = "up";

/// Starts the machine of a folder and returns when its first process is up. For a process of its own with one thread.
pub fn launch(folder: &Path) -> Result<(), Error> {
    let folder = Folder::at(folder);
    let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let spec = folder
        .read_spec()?
        .ok_or_else(|| Error::file("read", folder.path())(missing()))?;
    // In the cgroups first: their namespace makes where we are its top.
    Cgroups::detect()?.enter(&spec.id)?;
    let network = &spec.network_namespace;
    let network = File::open(network).map_err(Error::file("open", network))?;
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(Error::kernel("enter the network namespace"))?;
    unshare()?;

    let console = folder.console();
    let console = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&console)
        .map_err(Error::file("open", &console))?;
    let program = Path::new("/proc/self/exe");
    let mut first = Command::new(program)
        .args(own_arguments())
        .arg("init")
        .arg(folder.path())
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(console)
        .spawn()
        .map_err(Error::kernel("start the first process"))?;
    let mut line = String::new();
    if let Some(stdout) = first.stdout.take() {
        // Without a line the process has ended: it says why on its console.
        let _ = BufReader::new(stdout).read_line(&mut line);
    }
    if line.trim_end() == UP {
        return Ok(());
    }
    let _ = first.wait();
    Err(Error::NotStarted {
        id: spec.id,
        console: folder.last_words(),
    })
}

#[expect(
    deprecated,
    reason = "it is unsound for file descriptors only, which stay shared; the other function needs unsafe code"
)]
fn unshare() -> Result<(), Error> {
    let all = UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWCGROUP;
    rustix::thread::unshare(all).map_err(Error::kernel("make the namespaces of a machine"))
}

/// What this program was called with before the word that says what to do, such as `machine`.
pub(crate) fn own_arguments() -> Vec<String> {
    let verbs = ["launch", "init", "remove", "systemctl"];
    let arguments = env::args().skip(1);
    arguments
        .take_while(|word| !verbs.contains(&word.as_str()))
        .collect()
}
