//! The first process of a machine: puts the root together, runs the container runtime and the kubelet, carries out the
//! bootstrap data, answers on a socket, and reaps.
//!
//! It has threads and no async: it must be small, and nothing here waits for more than one thing. When it ends, so does
//! the machine.

mod accounts;
mod control;
mod disk;
mod provision;
mod reaper;
mod services;

use std::{
    fs,
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::Path,
    sync::Arc,
};

use reaper::Reaper;
use rustix::{
    mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount},
    process::pivot_root,
    system::sethostname,
};
use services::Services;

use super::{
    Cgroups, Error, Folder, MachineSpec,
    cgroup::INIT,
    configuration,
    launch::{UP, own_arguments},
    mounts::{self, Facts, PLATFORM},
    protocol::SOCKET,
};

/// Settings of the machine's own network that pods need.
const NETWORK_SETTINGS: [(&str, &str); 4] = [
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
    ("net/bridge/bridge-nf-call-iptables", "1"),
    ("net/ipv4/conf/all/accept_redirects", "0"),
];

/// Becomes the first process of the machine of a folder; returns only when that is impossible.
pub fn run(folder: &Path) -> Result<std::convert::Infallible, Error> {
    let folder = Folder::at(folder);
    let nothing = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let spec = folder
        .read_spec()?
        .ok_or_else(|| Error::file("read", folder.path())(nothing()))?;
    let cgroups = Cgroups::detect()?;
    disk::prepare(&folder, &spec)?;
    let facts = Facts::gather(cgroups.clone(), systemctl())?;
    mounts::carry_out(&mounts::plan(&spec, &folder, &facts))?;
    enter(&folder.root(), &spec)?;
    settle(&spec, &cgroups)?;

    let reaper = Reaper::start();
    let services = Arc::new(Services::start(&reaper, &spec)?);
    let socket = Path::new(SOCKET);
    let listener = UnixListener::bind(socket).map_err(Error::file("listen on", socket))?;
    let progress = provision::start(&reaper, &services)?;
    say_up()?;
    control::serve(&listener, &services, &progress)
}

/// Makes the root the root, and leaves the host's behind.
fn enter(root: &Path, spec: &MachineSpec) -> Result<(), Error> {
    std::env::set_current_dir(root).map_err(Error::file("enter", root))?;
    // The old root lands on top of the new one and is taken away from there: no folder is needed for it.
    pivot_root(".", ".").map_err(Error::kernel("change the root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(Error::kernel("leave the host's root"))?;
    std::env::set_current_dir("/").map_err(Error::file("enter", Path::new("/")))?;
    // Pods may ask for mounts to travel; they do within the machine.
    mount_change(
        "/",
        MountPropagationFlags::SHARED | MountPropagationFlags::REC,
    )
    .map_err(Error::kernel("share mounts"))?;
    sethostname(spec.hostname.as_bytes()).map_err(Error::kernel("set the host name"))
}

/// Writes what depends on the spec, from inside: no link on the machine's disk can lead out.
fn settle(spec: &MachineSpec, cgroups: &Cgroups) -> Result<(), Error> {
    for (path, text) in configuration::files(spec, cgroups) {
        let path = Path::new(&path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::file("make", parent))?;
        }
        fs::write(path, text).map_err(Error::file("write", path))?;
    }
    for path in ["/tmp", "/var/tmp"].map(Path::new) {
        let everybody = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(path, everybody).map_err(Error::file("open", path))?;
    }
    for (name, value) in NETWORK_SETTINGS {
        let path = Path::new("/proc/sys").join(name);
        // Kernels without IPv6 or bridge filters have none.
        if path.exists() {
            fs::write(&path, value).map_err(Error::file("write", &path))?;
        }
    }
    if let Cgroups::V2(_) = cgroups {
        let own = Path::new("/sys/fs/cgroup").join(INIT);
        fs::create_dir_all(&own).map_err(Error::file("make", &own))?;
        let list = own.join("cgroup.procs");
        fs::write(&list, "0").map_err(Error::file("write", &list))?;
    }
    Ok(())
}

/// The program that kubeadm looks for: this one.
fn systemctl() -> String {
    let arguments = own_arguments().join(" ");
    format!("#!/bin/sh\nexec {PLATFORM}/supervisor {arguments} systemctl \"$@\"\n")
}

/// Tells the launcher, who goes away then.
fn say_up() -> Result<(), Error> {
    let mut stdout = std::io::stdout();
    let said = writeln!(stdout, "{UP}").and_then(|()| stdout.flush());
    said.map_err(Error::kernel("say that the machine is up"))?;
    // Whoever reads has gone: a service that inherited the pipe would die of it.
    let nowhere = Path::new("/dev/null");
    let nowhere = fs::OpenOptions::new()
        .write(true)
        .open(nowhere)
        .map_err(Error::file("open", nowhere))?;
    rustix::stdio::dup2_stdout(nowhere).map_err(Error::kernel("close the pipe"))
}

/// What programs of a machine find in their environment.
pub(crate) fn environment(spec: &MachineSpec) -> Vec<(&'static str, String)> {
    let extra = (0..spec.programs.extra.len()).map(|index| format!("{PLATFORM}/extra{index}"));
    let ours = ["bin", "kubernetes", "containerd"].map(|name| format!("{PLATFORM}/{name}"));
    let theirs = [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
    ];
    let folders = ours
        .into_iter()
        .chain(extra)
        .chain(theirs.map(str::to_owned));
    let path = folders.collect::<Vec<_>>().join(":");
    vec![
        ("PATH", path),
        ("HOME", "/root".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
    ]
}
