//! Network namespaces as files: made, entered and removed.
//!
//! A namespace is kept by a mount on its file and needs no process. Work inside happens on a thread of its own that
//! goes there and ends there, so the rest of the process never is anywhere else.

use std::{
    fs, io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::{
    fs::statfs,
    mount::{UnmountFlags, unmount},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use crate::state::Space;

/// What `statfs` says of a namespace's file.
const NAMESPACE_MAGIC: i64 = 0x6e73_6673;
/// How the file of the router begins; no machine's id begins with a dot.
const ROUTER: &str = ".router";

/// The file of a namespace.
pub(crate) fn file(folder: &Path, space: &Space) -> PathBuf {
    match space {
        Space::Host => PathBuf::from("/proc/self/ns/net"),
        Space::Router => folder.join(ROUTER),
        Space::Machine(id) => folder.join(id),
    }
}

/// The namespaces that there are in a folder.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<Space>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut spaces = Vec::new();
    for entry in entries {
        let entry = entry?;
        if !is_namespace(&entry.path())? {
            continue;
        }
        spaces.push(match entry.file_name().into_string() {
            Ok(name) if name == ROUTER => Space::Router,
            Ok(name) => Space::Machine(name),
            Err(_) => continue,
        });
    }
    spaces.sort();
    Ok(spaces)
}

fn is_namespace(path: &Path) -> io::Result<bool> {
    Ok(statfs(path)?.f_type == NAMESPACE_MAGIC)
}

/// Makes a namespace; nothing happens if it is there.
pub(crate) fn make(folder: &Path, space: &Space) -> io::Result<()> {
    let path = file(folder, space);
    if path.exists() && is_namespace(&path)? {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    fs::write(&path, "")?;
    let mut argument = std::ffi::OsString::from("--net=");
    argument.push(&path);
    let output = Command::new("unshare").arg(argument).arg("true").output()?;
    if output.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("unshare: {}", said.trim())))
    }
}

/// Removes a namespace's file; the kernel removes what is inside when the last process has left it.
pub(crate) fn remove(folder: &Path, space: &Space) -> io::Result<()> {
    let path = file(folder, space);
    // Mounted twice if a run was killed between its look and its mount.
    while path.exists() && is_namespace(&path)? {
        unmount(&path, UnmountFlags::DETACH)?;
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Does something inside a namespace; commands that are started there are there too.
pub(crate) fn visit<T: Send>(
    folder: &Path,
    space: &Space,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    if *space == Space::Host {
        return work();
    }
    let namespace = fs::File::open(file(folder, space))?;
    let inside = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        work()
    };
    std::thread::scope(|scope| {
        let joined = scope.spawn(inside).join();
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
