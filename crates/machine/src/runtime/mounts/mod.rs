//! How the root of a machine is put together: a list of actions, planned from plain facts, then carried out.
//!
//! The host's `/usr` below an overlay gives every program the host has; everything else is the machine's own or made
//! fresh by the kernel.

mod carry_out;
mod facts;

use std::path::{Path, PathBuf};

pub(crate) use carry_out::carry_out;
pub(crate) use facts::Facts;

use super::{Cgroups, Folder, MachineSpec, configuration::lines};

/// Where the machine finds what the platform brings.
pub(crate) const PLATFORM: &str = "/opt/butler";
/// Settings of the whole host that a kubelet wants to write: it finds what it wants and leaves the host's alone.
const SETTINGS: [(&str, &str); 4] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
];

/// One step towards a root. Paths are those of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Folder(PathBuf),
    Text {
        path: PathBuf,
        text: String,
    },
    Link {
        path: PathBuf,
        target: PathBuf,
    },
    Bind {
        source: PathBuf,
        target: PathBuf,
        read_only: bool,
    },
    FileSystem {
        kind: &'static str,
        target: PathBuf,
        options: String,
    },
}

const PRODUCT_UUID: &str = "/sys/class/dmi/id/product_uuid";

/// Everything to be done, in order.
pub(crate) fn plan(spec: &MachineSpec, folder: &Folder, facts: &Facts) -> Vec<Action> {
    let root = folder.root();
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    let mut actions = Vec::new();
    for path in [
        "",
        "usr",
        "etc",
        "var/lib/containerd",
        "var/lib/kubelet",
        "var/lib/butler",
        "var/log",
        "var/tmp",
        "run",
        "tmp",
        "proc",
        "sys",
        "dev",
        "root",
        "home",
        "mnt",
        "opt/butler",
        "opt/cni/bin",
        "etc/cni/net.d",
        "etc/kubernetes/manifests",
    ] {
        actions.push(Action::Folder(at(path)));
    }
    // A mount point of its own, as pivot_root wants it.
    actions.push(bind(&root, &root));
    for name in &facts.shared {
        actions.extend(shared(name, folder, at(name)));
    }
    for (name, link) in &facts.top {
        if let Some(target) = link {
            actions.push(Action::Link {
                path: at(name),
                target: target.clone(),
            });
        } else {
            actions.push(Action::Folder(at(name)));
            actions.push(read_only(&Path::new("/").join(name), &at(name)));
        }
    }
    actions.push(bind(&folder.state(), &at("var/lib/butler")));
    actions.extend(kernel(&at, facts));
    actions.extend(programs(spec, &at, facts));
    actions.extend(appearance(spec, folder, &at, facts));
    actions
}

/// A folder of the host, below what the machine changes in it.
fn shared(name: &str, folder: &Folder, target: PathBuf) -> Vec<Action> {
    let name_of = name.replace('/', "-");
    let changes = folder.changes().join(&name_of);
    let work = folder.changes().join(format!("{name_of}.work"));
    let options = format!(
        "lowerdir=/{name},upperdir={},workdir={}",
        changes.display(),
        work.display(),
    );
    vec![
        Action::Folder(target.clone()),
        Action::Folder(changes),
        Action::Folder(work),
        file_system("overlay", target, &options),
    ]
}

/// What the kernel makes fresh.
fn kernel(at: &dyn Fn(&str) -> PathBuf, facts: &Facts) -> Vec<Action> {
    let mut actions = vec![
        file_system("proc", at("proc"), ""),
        file_system("sysfs", at("sys"), ""),
    ];
    match &facts.cgroups {
        Cgroups::V1(trees) => {
            actions.push(file_system("tmpfs", at("sys/fs/cgroup"), "mode=755"));
            for tree in trees {
                let name = tree.mount.file_name().unwrap_or_default();
                let target = at("sys/fs/cgroup").join(name);
                actions.push(Action::Folder(target.clone()));
                actions.push(file_system("cgroup", target, &tree.options));
            }
        }
        Cgroups::V2(_) => actions.push(file_system("cgroup2", at("sys/fs/cgroup"), "")),
    }
    actions.push(file_system("tmpfs", at("run"), "mode=755"));
    actions.push(file_system("tmpfs", at("dev"), "mode=755"));
    for path in ["run/lock", "run/butler", "dev/pts", "dev/shm", "dev/mqueue"] {
        actions.push(Action::Folder(at(path)));
    }
    for name in &facts.devices {
        let target = at("dev").join(name);
        actions.push(text(&target, ""));
        actions.push(bind(&Path::new("/dev").join(name), &target));
    }
    actions.push(file_system(
        "devpts",
        at("dev/pts"),
        "newinstance,ptmxmode=0666,mode=620",
    ));
    actions.push(file_system("tmpfs", at("dev/shm"), "mode=1777"));
    actions.push(file_system("mqueue", at("dev/mqueue"), ""));
    for (path, target) in [
        ("dev/ptmx", "pts/ptmx"),
        ("dev/fd", "/proc/self/fd"),
        ("dev/stdin", "fd/0"),
        ("dev/stdout", "fd/1"),
        ("dev/stderr", "fd/2"),
    ] {
        actions.push(Action::Link {
            path: at(path),
            target: target.into(),
        });
    }
    actions
}

/// What the platform brings.
fn programs(spec: &MachineSpec, at: &dyn Fn(&str) -> PathBuf, facts: &Facts) -> Vec<Action> {
    let mut actions = vec![file_system("tmpfs", at(PLATFORM), "mode=755")];
    let mut bring = |source: &Path, target: PathBuf| {
        actions.push(Action::Folder(target.clone()));
        actions.push(read_only(source, &target));
    };
    bring(&spec.programs.kubernetes, at(PLATFORM).join("kubernetes"));
    bring(&spec.programs.containerd, at(PLATFORM).join("containerd"));
    bring(&spec.programs.cni, at("opt/cni/bin"));
    for (index, source) in spec.programs.extra.iter().enumerate() {
        bring(source, at(PLATFORM).join(format!("extra{index}")));
    }
    let supervisor = at(PLATFORM).join("supervisor");
    actions.push(text(&supervisor, ""));
    actions.push(read_only(&facts.program, &supervisor));
    actions.push(Action::Folder(at(PLATFORM).join("bin")));
    actions.push(text(&at(PLATFORM).join("bin/systemctl"), &facts.systemctl));
    actions
}

/// What makes the host look like this machine.
fn appearance(
    spec: &MachineSpec,
    folder: &Folder,
    at: &dyn Fn(&str) -> PathBuf,
    facts: &Facts,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for (name, value) in SETTINGS {
        let source = at("run/butler").join(name.replace('/', "."));
        actions.push(text(&source, &format!("{value}\n")));
        actions.push(bind(&source, &at("proc/sys").join(name)));
    }
    if let Some(bytes) = spec.memory_bytes {
        let source = at("run/butler/meminfo");
        actions.push(text(&source, &memory_of(&facts.memory, bytes)));
        actions.push(bind(&source, &at("proc/meminfo")));
    }
    if facts.has_product_uuid {
        let source = folder.state().join("product_uuid");
        actions.push(bind(&source, &at(PRODUCT_UUID)));
    }
    actions
}

/// The host's account of its memory with another total, which is what a Node reports as its capacity.
fn memory_of(host: &str, bytes: u64) -> String {
    let changed = host
        .lines()
        .map(|line| match line.strip_prefix("MemTotal:") {
            Some(total) => {
                let total = total.trim().trim_end_matches(" kB").parse();
                let total = total.unwrap_or(u64::MAX).min(bytes / 1024);
                format!("MemTotal: {total} kB")
            }
            None => line.to_owned(),
        });
    lines(changed)
}

fn bind(source: &Path, target: &Path) -> Action {
    Action::Bind {
        source: source.to_owned(),
        target: target.to_owned(),
        read_only: false,
    }
}

fn read_only(source: &Path, target: &Path) -> Action {
    Action::Bind {
        source: source.to_owned(),
        target: target.to_owned(),
        read_only: true,
    }
}

fn text(path: &Path, text: &str) -> Action {
    Action::Text {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

fn file_system(kind: &'static str, target: PathBuf, options: &str) -> Action {
    Action::FileSystem {
        kind,
        target,
        options: options.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cgroup::Tree;

    fn facts(cgroups: Cgroups) -> Facts {
        Facts {
            cgroups,
            shared: vec!["usr", "etc/ssl/certs"],
            top: vec![("bin", Some("usr/bin".into())), ("lib32", None)],
            devices: vec!["null"],
            has_product_uuid: true,
            memory: "MemTotal:       24684000 kB\nMemFree: 1 kB\n".to_owned(),
            program: "/usr/bin/butler".into(),
            systemctl: "#!/bin/sh\n".to_owned(),
        }
    }

    fn spec() -> MachineSpec {
        crate::runtime::configuration::tests::spec()
    }

    fn planned(cgroups: Cgroups) -> Vec<Action> {
        plan(&spec(), &Folder::at("/m"), &facts(cgroups))
    }

    fn targets(actions: &[Action]) -> Vec<String> {
        let targets = actions.iter().filter_map(|action| match action {
            Action::Bind { target, .. } | Action::FileSystem { target, .. } => Some(target),
            Action::Folder(_) | Action::Text { .. } | Action::Link { .. } => None,
        });
        targets.map(|target| target.display().to_string()).collect()
    }

    #[test]
    fn nothing_is_mounted_outside_of_the_machines_folder() {
        let targets = targets(&planned(Cgroups::V2("/sys/fs/cgroup".into())));
        assert!(
            targets.iter().all(|target| target.starts_with("/m/root")),
            "{targets:?}"
        );
    }

    #[test]
    fn every_tree_of_the_first_version_is_mounted_anew() {
        let tree = Tree {
            mount: "/sys/fs/cgroup/cpu,cpuacct".into(),
            options: "cpu,cpuacct".into(),
        };
        let actions = planned(Cgroups::V1(vec![tree]));
        let expected = file_system(
            "cgroup",
            "/m/root/sys/fs/cgroup/cpu,cpuacct".into(),
            "cpu,cpuacct",
        );
        assert!(actions.contains(&expected));
    }

    #[test]
    fn a_host_without_merged_usr_lends_its_folders_read_only() {
        let actions = planned(Cgroups::V2("/sys/fs/cgroup".into()));
        assert!(actions.contains(&read_only(Path::new("/lib32"), Path::new("/m/root/lib32"))));
        let link = Action::Link {
            path: "/m/root/bin".into(),
            target: "usr/bin".into(),
        };
        assert!(actions.contains(&link));
    }

    #[test]
    fn a_machine_says_it_has_the_memory_it_may_use_and_never_more_than_its_host() {
        let host = "MemTotal:  1000 kB\nMemFree: 1 kB\n";
        assert_eq!(
            memory_of(host, 512 * 1024),
            "MemTotal: 512 kB\nMemFree: 1 kB\n"
        );
        assert!(memory_of(host, 4096 * 1024).starts_with("MemTotal: 1000 kB\n"));
    }
}
