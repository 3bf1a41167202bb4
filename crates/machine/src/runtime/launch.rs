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

/// The packet filter of whoever made the network, which stays.
const PLATFORM_TABLE: &str = "butler";
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
    forget()?;
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

/// Removes what an earlier life of the machine left in its network, which outlives it: after a start there is none of
/// it on any other machine, and kube-proxy leaves Services out when it finds half of its rules.
fn forget() -> Result<(), Error> {
    for table in run("nft", &["list", "tables"])?.lines() {
        if !table.ends_with(&format!(" {PLATFORM_TABLE}")) {
            let words: Vec<_> = table.split(' ').collect();
            run("nft", &[&["delete"], words.as_slice()].concat())?;
        }
    }
    for line in run("ip", &["-brief", "link", "show", "type", "bridge"])?.lines() {
        if let Some(bridge) = line.split_whitespace().next() {
            run("ip", &["link", "delete", bridge])?;
        }
    }
    Ok(())
}

/// What a program of the host prints; nothing where there is no such program, and so nothing that it made.
fn run(program: &str, words: &[&str]) -> Result<String, Error> {
    let output = match Command::new(program).args(words).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        output => output.map_err(Error::file("run", Path::new(program)))?,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(Error::Command {
        command: format!("{program} {}", words.join(" ")),
        output: text(&output.stderr),
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
