//! The cgroups of the platform: every process of it is in one below `butler`, so all of them can be found.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// Everything of the platform is below this one.
const PARENT: &str = "butler";
/// Killed processes are gone within milliseconds, unless the machine is very busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// The mount points of every hierarchy that the platform uses.
pub(crate) fn mounts() -> io::Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(hierarchies(&table))
}

/// The hierarchies of a mount table: those of version 1 where there are some. A host with both has no controllers in the
/// other one, and machines do not enter it: they would stay in the cgroup of the agent there, and end with it.
fn hierarchies(table: &str) -> Vec<PathBuf> {
    let of = |version: &str| -> Vec<PathBuf> {
        let lines = table.lines();
        lines.filter_map(|line| hierarchy(line, version)).collect()
    };
    let first = of("cgroup");
    if first.is_empty() {
        of("cgroup2")
    } else {
        first
    }
}

/// A line of the mount table, if it is a cgroup hierarchy of this version.
fn hierarchy(line: &str, version: &str) -> Option<PathBuf> {
    let (left, right) = line.split_once(" - ")?;
    let kind = right.split(' ').next()?;
    let mount = left.split(' ').nth(4)?;
    (kind == version).then(|| PathBuf::from(mount))
}

/// The folders of the platform.
pub(crate) fn folders() -> io::Result<Vec<PathBuf>> {
    let below = mounts()?.into_iter().map(|mount| mount.join(PARENT));
    Ok(below.filter(|folder| folder.is_dir()).collect())
}

/// Moves a process into the cgroup of a part of the platform.
pub(crate) fn enter(part: &str, process: u32) -> io::Result<()> {
    for mount in mounts()? {
        let folder = mount.join(PARENT).join(part);
        fs::create_dir_all(&folder)?;
        copy_cpuset(&mount, part)?;
        raise_share(&mount.join(PARENT))?;
        raise_share(&folder)?;
        fs::write(folder.join("cgroup.procs"), process.to_string())?;
    }
    Ok(())
}

/// A cgroup counts as one process when processors are shared out. On a busy host the whole platform would get as much
/// as a single compiler, and its API server would miss its own deadlines.
fn raise_share(folder: &Path) -> io::Result<()> {
    for (file, value) in [("cpu.shares", "16384"), ("cpu.weight", "1600")] {
        let file = folder.join(file);
        if file.exists() {
            fs::write(file, value)?;
        }
    }
    Ok(())
}

/// A cpuset without processors takes no process, and a new one has none.
fn copy_cpuset(mount: &Path, part: &str) -> io::Result<()> {
    let mut from = mount.to_owned();
    for name in [PARENT, part] {
        let to = from.join(name);
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let (source, target) = (from.join(file), to.join(file));
            // Under version 2 an empty one means all.
            if !source.exists() || !fs::read_to_string(&target)?.trim().is_empty() {
                continue;
            }
            let value = fs::read_to_string(&source)?;
            if !value.trim().is_empty() {
                fs::write(&target, value.trim())?;
            }
        }
        from = to;
    }
    Ok(())
}

/// Every process of the platform, or of one part.
pub(crate) fn processes(part: Option<&str>) -> io::Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for folder in folders()? {
        let folder = part.map_or_else(|| folder.clone(), |part| folder.join(part));
        collect(&folder, &mut found)?;
    }
    Ok(found)
}

fn collect(folder: &Path, found: &mut BTreeSet<u32>) -> io::Result<()> {
    for folder in below(folder)? {
        // It may just have been removed.
        let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    }
    Ok(())
}

/// A cgroup and all below it, inner ones first.
fn below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(all),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(below(&entry.path())?);
        }
    }
    all.push(folder.to_owned());
    Ok(all)
}

/// Ends every process of the platform or of a part, and removes the cgroups.
pub(crate) fn end(part: Option<&str>) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = processes(part)?;
        // Pid 0 is a process of another namespace, which is somebody else's to end.
        for pid in left
            .iter()
            .filter_map(|pid| Pid::from_raw(pid.cast_signed()))
        {
            let _ = kill_process(pid, Signal::KILL);
        }
        if left.is_empty() {
            break;
        }
        if Instant::now() > deadline {
            return Err(io::Error::other(format!(
                "processes {left:?} are still there {PATIENCE:?} after they were killed"
            )));
        }
        // The kernel tells nobody when a cgroup has become empty.
        std::thread::park_timeout(Duration::from_millis(10));
    }
    remove(part)
}

/// Removes the platform's own cgroup if nothing is left in it.
pub(crate) fn remove_empty() -> io::Result<()> {
    for folder in folders()? {
        match fs::remove_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Removes cgroups without processes.
fn remove(part: Option<&str>) -> io::Result<()> {
    for folder in folders()? {
        let folder = part.map_or_else(|| folder.clone(), |part| folder.join(part));
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = remove_tree(&folder) {
            if error.kind() != io::ErrorKind::ResourceBusy || Instant::now() > deadline {
                let path = folder.display();
                return Err(io::Error::new(
                    error.kind(),
                    format!("remove {path}: {error}"),
                ));
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
    Ok(())
}

fn remove_tree(folder: &Path) -> io::Result<()> {
    for folder in below(folder)? {
        match fs::remove_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = "22 1 0:20 / /proc rw - proc proc rw";
    const FIRST: &str = "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
    const SECOND: &str = "34 30 0:30 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw";

    #[test]
    fn the_hierarchies_that_machines_are_in_are_found_in_a_mount_table() {
        let found = |lines: &[&str]| hierarchies(&lines.join("\n"));
        let first = [PathBuf::from("/sys/fs/cgroup/memory")];
        assert_eq!(found(&[OTHER, FIRST, SECOND]), first);
        let second = [PathBuf::from("/sys/fs/cgroup/unified")];
        assert_eq!(found(&[OTHER, SECOND]), second);
    }
}
