//! Cgroups of machines: limits, stillness, and the list of a machine's processes.
//!
//! Both versions of the kernel's interface are here, since hosts have one or the other: version 1 has a tree for each
//! controller, version 2 one tree for all. [`Cgroups::of`] reads which from a mount table and is pure.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{Error, MachineId};

/// All machines are below this one.
const PARENT: &str = "butler-machines";
/// Where the first process of a machine goes under version 2: a cgroup with children must have no processes itself.
pub(crate) const INIT: &str = "init";
/// Words of a mount table that name controllers of version 1.
const CONTROLLERS: [&str; 13] = [
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "devices",
    "freezer",
    "blkio",
    "pids",
    "net_cls",
    "net_prio",
    "perf_event",
    "hugetlb",
    "rdma",
];
/// Controllers of version 2 that a kubelet wants.
const WANTED: &str = "+cpu +cpuset +io +memory +pids";
/// Processes that were killed leave their cgroups within milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(5);
const CPU_PERIOD: u64 = 100_000;

/// How cgroups are mounted on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cgroups {
    /// One tree for each controller.
    V1(Vec<Tree>),
    /// One tree for all, mounted here.
    V2(PathBuf),
}

/// A tree of version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// How it is mounted again, such as `cpu,cpuacct` or `none,name=systemd`.
    pub options: String,
}

impl Tree {
    fn has(&self, controller: &str) -> bool {
        self.options.split(',').any(|held| held == controller)
    }
}

impl Cgroups {
    /// Those of this host.
    pub fn detect() -> Result<Self, Error> {
        let path = Path::new("/proc/self/mountinfo");
        let table = fs::read_to_string(path).map_err(Error::file("read", path))?;
        Self::of(&table).ok_or(Error::NoCgroups)
    }

    /// Those of a mount table: version 1 where it has the memory controller, else version 2.
    pub fn of(mount_table: &str) -> Option<Self> {
        let mut trees = Vec::new();
        let mut unified = None;
        for line in mount_table.lines() {
            let Some((left, right)) = line.split_once(" - ") else {
                continue;
            };
            let mount = left.split(' ').nth(4).map(PathBuf::from);
            let mut right = right.split(' ');
            let (kind, options) = (right.next(), right.nth(1));
            match (kind, mount, options) {
                (Some("cgroup"), Some(mount), Some(options)) => {
                    if let Some(options) = mount_options(options) {
                        trees.push(Tree { mount, options });
                    }
                }
                (Some("cgroup2"), Some(mount), _) => unified = Some(mount),
                _ => {}
            }
        }
        if trees.iter().any(|tree| tree.has("memory")) {
            Some(Self::V1(trees))
        } else {
            unified.map(Self::V2)
        }
    }

    /// Every folder of a machine.
    fn folders(&self, id: &MachineId) -> Vec<PathBuf> {
        let below = |mount: &Path| mount.join(PARENT).join(id.as_str());
        match self {
            Self::V1(trees) => trees.iter().map(|tree| below(&tree.mount)).collect(),
            Self::V2(mount) => vec![below(mount)],
        }
    }

    /// Of version 1, the folder in the tree of a controller; of version 2, the only one.
    fn folder(&self, id: &MachineId, controller: &str) -> Option<PathBuf> {
        let mount = match self {
            Self::V1(trees) => &trees.iter().find(|tree| tree.has(controller))?.mount,
            Self::V2(mount) => mount,
        };
        Some(mount.join(PARENT).join(id.as_str()))
    }

    /// Makes the cgroups of a machine with its limits. What an earlier life left there is removed first: a kubelet
    /// takes seconds for every stale cgroup it finds.
    pub(crate) fn make(
        &self,
        id: &MachineId,
        cpu_milli: Option<u64>,
        memory_bytes: Option<u64>,
    ) -> Result<(), Error> {
        self.remove(id)?;
        for folder in self.folders(id) {
            make_folder(&folder)?;
        }
        match self {
            Self::V1(trees) => {
                for tree in trees.iter().filter(|tree| tree.has("cpuset")) {
                    copy_cpuset(&tree.mount, id)?;
                }
            }
            Self::V2(mount) => {
                for folder in [mount.clone(), mount.join(PARENT)] {
                    write(&folder.join("cgroup.subtree_control"), WANTED)?;
                }
            }
        }
        self.raise_share();
        self.limit(id, cpu_milli, memory_bytes)
    }

    /// A cgroup counts as one process when processors are shared out: on a busy host all machines together would get
    /// as much as a single compiler, and kubelets would miss their deadlines. Where it cannot be raised they are slower.
    fn raise_share(&self) {
        let (file, value) = match self {
            Self::V1(trees) => {
                let tree = trees.iter().find(|tree| tree.has("cpu"));
                let parent = tree.map(|tree| tree.mount.join(PARENT));
                (parent.unwrap_or_default().join("cpu.shares"), "16384")
            }
            Self::V2(mount) => (mount.join(PARENT).join("cpu.weight"), "1600"),
        };
        if let Err(error) = fs::write(&file, value) {
            tracing::debug!(?file, %error, "the share of machines stays as it is");
        }
    }

    fn limit(
        &self,
        id: &MachineId,
        cpu_milli: Option<u64>,
        memory_bytes: Option<u64>,
    ) -> Result<(), Error> {
        let quota = |milli: u64| milli * CPU_PERIOD / 1000;
        let set = |controller: &str, file: &str, value: String| match self.folder(id, controller) {
            Some(folder) => write(&folder.join(file), &value),
            None => Ok(()),
        };
        match self {
            Self::V1(_) => {
                if let Some(bytes) = memory_bytes {
                    set("memory", "memory.limit_in_bytes", bytes.to_string())?;
                }
                if let Some(milli) = cpu_milli {
                    set("cpu", "cpu.cfs_period_us", CPU_PERIOD.to_string())?;
                    set("cpu", "cpu.cfs_quota_us", quota(milli).to_string())?;
                }
            }
            Self::V2(_) => {
                if let Some(bytes) = memory_bytes {
                    set("memory", "memory.max", bytes.to_string())?;
                }
                if let Some(milli) = cpu_milli {
                    set("cpu", "cpu.max", format!("{} {CPU_PERIOD}", quota(milli)))?;
                }
            }
        }
        Ok(())
    }

    /// Moves this process into the cgroups of a machine.
    pub(crate) fn enter(&self, id: &MachineId) -> Result<(), Error> {
        for folder in self.folders(id) {
            write(&folder.join("cgroup.procs"), "0")?;
        }
        Ok(())
    }

    /// Processes of the machine that are in no cgroup of their own; its first process is among them.
    pub(crate) fn processes(&self, id: &MachineId) -> Vec<u32> {
        let Some(folder) = self
            .folder(id, "pids")
            .or_else(|| self.folder(id, "memory"))
        else {
            return Vec::new();
        };
        let lists = [
            folder.join("cgroup.procs"),
            folder.join(INIT).join("cgroup.procs"),
        ];
        let text = lists.map(|list| fs::read_to_string(list).unwrap_or_default());
        let lines = text.iter().flat_map(|text| text.lines());
        lines.filter_map(|line| line.parse().ok()).collect()
    }

    /// Every process of the machine.
    pub(crate) fn all_processes(&self, id: &MachineId) -> Vec<u32> {
        let folder = self
            .folder(id, "pids")
            .or_else(|| self.folder(id, "memory"));
        let mut open: Vec<_> = folder.into_iter().collect();
        let mut found = Vec::new();
        while let Some(folder) = open.pop() {
            // It may just have been removed.
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            open.extend(folders.map(|entry| entry.path()));
        }
        found
    }

    /// Lets all processes of a machine stand still, or go on.
    pub(crate) fn freeze(&self, id: &MachineId, frozen: bool) -> Result<(), Error> {
        let Some(folder) = self.folder(id, "freezer") else {
            return Err(Error::NoCgroups);
        };
        match self {
            Self::V1(_) => {
                let state = if frozen { "FROZEN" } else { "THAWED" };
                write(&folder.join("freezer.state"), state)
            }
            Self::V2(_) => write(
                &folder.join("cgroup.freeze"),
                if frozen { "1" } else { "0" },
            ),
        }
    }

    /// Removes the cgroups of a machine that has ended, and the common one with the last.
    pub(crate) fn remove(&self, id: &MachineId) -> Result<(), Error> {
        for folder in self.folders(id) {
            remove_tree(&folder)?;
            // Others may be there, or be made just now.
            let _ = folder.parent().map(fs::remove_dir);
        }
        Ok(())
    }

    /// How many folders there are for a machine, for whoever counts what is left.
    pub fn count(&self, id: &MachineId) -> usize {
        let folders = self.folders(id);
        folders.iter().filter(|folder| folder.exists()).count()
    }
}

/// What a tree of version 1 is mounted again with; nothing for one that no controller or name is known of.
fn mount_options(options: &str) -> Option<String> {
    let mut words = Vec::new();
    for word in options.split(',') {
        if word.starts_with("name=") {
            words.extend(["none", word]);
        } else if CONTROLLERS.contains(&word) {
            words.push(word);
        }
    }
    (!words.is_empty()).then(|| words.join(","))
}

/// A cpuset without processors takes no process, and a new one has none.
fn copy_cpuset(mount: &Path, id: &MachineId) -> Result<(), Error> {
    let mut from = mount.to_owned();
    for name in [PARENT, id.as_str()] {
        let to = from.join(name);
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let (source, target) = (from.join(file), to.join(file));
            let value = fs::read_to_string(&source).map_err(Error::file("read", &source))?;
            let held = fs::read_to_string(&target).map_err(Error::file("read", &target))?;
            if held.trim().is_empty() {
                write(&target, value.trim())?;
            }
        }
        from = to;
    }
    Ok(())
}

/// Makes a cgroup and the common one above it, which whoever removes the last other machine may take away in between.
fn make_folder(folder: &Path) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match fs::create_dir_all(folder) {
            // The common one was there when it was to be made, and was not a moment later; or the other way round.
            Err(error) if is_fleeting(&error) && Instant::now() < deadline => {
                std::thread::yield_now();
            }
            result => return result.map_err(Error::file("make", folder)),
        }
    }
}

fn is_fleeting(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
    )
}

/// Removes a cgroup with those below it; processes that are just ending hold it for a moment.
fn remove_tree(folder: &Path) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match try_remove_tree(folder) {
            Ok(()) => return Ok(()),
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < deadline =>
            {
                // The kernel tells nobody when a cgroup is free.
                std::thread::park_timeout(INTERVAL);
            }
            Err(error) => return Err(Error::file("remove", folder)(error)),
        }
    }
}

fn try_remove_tree(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            try_remove_tree(&entry.path())?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn write(file: &Path, value: &str) -> Result<(), Error> {
    fs::write(file, value).map_err(Error::file("write", file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn a_hybrid_host_is_version_one_and_its_trees_can_be_mounted_again() {
        let tree = |mount: &str, options: &str| Tree {
            mount: mount.into(),
            options: options.into(),
        };
        let expected = vec![
            tree("/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct"),
            tree("/sys/fs/cgroup/memory", "memory"),
            tree("/sys/fs/cgroup/systemd", "none,name=systemd"),
        ];
        assert_eq!(Cgroups::of(HYBRID), Some(Cgroups::V1(expected)));
    }

    #[test]
    fn a_machine_gets_its_cgroup_while_the_last_other_one_takes_the_common_one_away() {
        let mount = tempfile::tempdir().unwrap();
        let parent = mount.path().join(PARENT);
        std::thread::scope(|scope| {
            for machine in ["one", "two"] {
                let folder = parent.join(machine);
                scope.spawn(move || {
                    for _ in 0..3_000 {
                        make_folder(&folder).unwrap();
                        remove_tree(&folder).unwrap();
                        let _ = fs::remove_dir(folder.parent().unwrap());
                    }
                });
            }
        });
    }

    #[test]
    fn a_unified_host_is_version_two_and_one_without_cgroups_is_neither() {
        let unified = "29 22 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(
            Cgroups::of(unified),
            Some(Cgroups::V2("/sys/fs/cgroup".into()))
        );
        assert_eq!(Cgroups::of("22 1 0:20 / /proc rw - proc proc rw"), None);
    }
}
