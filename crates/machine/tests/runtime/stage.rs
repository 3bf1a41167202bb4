//! What the tests share: a network without a way out, machines that are gone with the test, and counting what is left.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use butler_machine::{
    bootstrap::{self, Metadata, Plan},
    runtime::{Cgroups, MachineId, MachineSpec, Machines, Observed, Programs, Supervisor},
};
use butler_toolchain::Toolchain;

/// Generous: a busy host is slow, and a test that passes does not wait.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Machines need root. Says so and returns false where there is none.
pub(crate) fn can_run() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|about| {
        use std::os::unix::fs::MetadataExt as _;
        about.uid() == 0
    });
    if !root {
        println!("skipped: machines need root");
    }
    root
}

/// A network namespace that is there for as long as this value, and no longer than this process.
pub(crate) struct Net {
    shell: Child,
}

impl Net {
    pub(crate) fn new() -> Self {
        let mut shell = Command::new("unshare")
            .args([
                "--net",
                "sh",
                "-c",
                "ip link set lo up && echo up && read _",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare is part of every system");
        let mut line = String::new();
        let stdout = shell.stdout.take().expect("the pipe was asked for");
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "up", "a network namespace with a loopback");
        Self { shell }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.shell.id()
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.pid()).into()
    }

    /// A command that runs in this network.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.pid().to_string(), "--net", "--"])
            .arg(program);
        command
    }

    pub(crate) fn ip(&self, line: &str) {
        let output = self.command("ip").args(line.split(' ')).output().unwrap();
        assert!(
            output.status.success(),
            "ip {line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// Joins two networks by a cable: `server` gets .1, `self` gets .2.
    pub(crate) fn connect(&self, server: &Self) {
        server.ip(&format!(
            "link add cable type veth peer name eth0 netns {}",
            self.pid()
        ));
        server.ip("addr add 10.99.0.1/24 dev cable");
        server.ip("link set cable up");
        self.ip("addr add 10.99.0.2/24 dev eth0");
        self.ip("link set eth0 up");
        self.ip("route add default via 10.99.0.1");
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// One machine that is removed with this value, and also when this process is killed.
pub(crate) struct Stage {
    pub(crate) machines: Machines,
    pub(crate) id: MachineId,
    pub(crate) net: Net,
    janitor: Child,
    _folder: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let id: MachineId = format!("test-{}-{}", std::process::id(), unique())
            .parse()
            .unwrap();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_butler-machine"));
        let janitor = janitor(&folder.path().join(id.as_str()));
        let supervisor = Supervisor {
            program,
            arguments: Vec::new(),
        };
        Self {
            machines: Machines::new(folder.path(), supervisor).unwrap(),
            id,
            net: Net::new(),
            janitor,
            _folder: folder,
        }
    }

    /// Has another machine removed in the same way.
    pub(crate) fn look_after(&mut self, folder: &Path) {
        let before = std::mem::replace(&mut self.janitor, janitor(folder));
        dismiss(before);
    }

    pub(crate) fn spec(&self) -> MachineSpec {
        MachineSpec {
            id: self.id.clone(),
            hostname: "worker".to_owned(),
            provider_id: "local://team/worker".to_owned(),
            network_namespace: self.net.path(),
            address: Ipv4Addr::new(10, 99, 0, 2).into(),
            nameservers: Vec::new(),
            cpu_milli: Some(2000),
            memory_bytes: Some(1 << 30),
            programs: Programs {
                kubernetes: folder_of("kubelet"),
                containerd: folder_of("containerd"),
                cni: cni(),
                extra: Vec::new(),
            },
            sandbox_image: "registry.k8s.io/pause:3.10.1".to_owned(),
            mirrors: Vec::new(),
            image_store: None,
        }
    }

    pub(crate) fn start(&self, cloud_config: &str) {
        self.machines
            .start(&self.spec(), &plan(cloud_config))
            .unwrap();
    }

    pub(crate) fn observe(&self) -> Observed {
        self.machines.observe(&self.id).unwrap()
    }

    /// Waits until an observation is as wanted.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&Observed) -> bool) -> Observed {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let observed = self.observe();
            if wanted(&observed) {
                return observed;
            }
            assert!(
                Instant::now() < deadline,
                "waited {PATIENCE:?} for {what}; last: {observed:?}\n{}",
                self.logs()
            );
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// Runs a command in the machine and returns what it prints.
    pub(crate) fn run(&self, line: &str) -> String {
        let mut command = self
            .machines
            .command(&self.id, &["sh", "-c", line])
            .unwrap();
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{}{}", text(&output.stdout), text(&output.stderr))
            .trim()
            .to_owned()
    }

    /// A file of the machine, as the host sees it.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.machines
            .folder(&self.id)
            .path()
            .join("root")
            .join(path)
    }

    pub(crate) fn logs(&self) -> String {
        let folder = self.machines.folder(&self.id);
        let console = folder.path().join("console.log");
        let logs = ["containerd.log", "kubelet.log", "cloud-init-output.log"];
        let logs = logs.map(|log| self.file("var/log").join(log));
        let tail = |path: &PathBuf| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let skipped = text.lines().count().saturating_sub(25);
            let lines: Vec<_> = text.lines().skip(skipped).collect();
            format!("--- {}\n{}\n", path.display(), lines.join("\n"))
        };
        [console].iter().chain(&logs).map(tail).collect()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}

/// A process that removes a machine when its pipe is closed, which the end of this process does too.
fn janitor(folder: &Path) -> Child {
    use std::os::unix::process::CommandExt as _;
    Command::new("sh")
        .args(["-c", "read _; \"$0\" remove \"$1\"; cd \"${1%/*}\" && rm -f news.sock; rmdir \"${1%/*}\" 2>/dev/null; true"])
        .arg(env!("CARGO_BIN_EXE_butler-machine"))
        .arg(folder)
        .stdin(Stdio::piped())
        // What ends the test by its group must leave the one who cleans up after it.
        .process_group(0)
        .spawn()
        .unwrap()
}

fn dismiss(mut janitor: Child) {
    drop(janitor.stdin.take());
    let _ = janitor.wait();
}

fn unique() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// A cloud-config as a plan.
pub(crate) fn plan(cloud_config: &str) -> Plan {
    let metadata = Metadata {
        instance_id: "team/worker".to_owned(),
        hostname: "worker".to_owned(),
        address: Ipv4Addr::new(10, 99, 0, 2).into(),
    };
    bootstrap::plan(cloud_config.as_bytes(), None, &metadata).unwrap()
}

/// The folder of a pinned program.
pub(crate) fn folder_of(name: &str) -> PathBuf {
    binary(name).parent().unwrap().to_owned()
}

pub(crate) fn binary(name: &str) -> PathBuf {
    let found = Toolchain::locate().and_then(|toolchain| toolchain.binary(name, None));
    found.unwrap_or_else(|error| {
        panic!("{error}; `cargo xtask toolchain install {name}` makes it available")
    })
}

/// The host's CNI plugins, where it has any: a Node is Ready without them, its pods are not.
pub(crate) fn cni() -> PathBuf {
    let known = ["/usr/lib/cni", "/opt/cni/bin"].map(PathBuf::from);
    known
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(std::env::temp_dir)
}

/// The namespaces of a process, by type and number.
pub(crate) fn namespaces(pid: u32) -> BTreeSet<String> {
    ["mnt", "pid", "uts", "ipc", "cgroup"]
        .iter()
        .filter_map(|kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok())
        .map(|link| link.display().to_string())
        .collect()
}

/// Everything that is left of a machine, in words; empty when nothing is. The host's first process takes note of the
/// end of the machine's in its own time, so that it is given some.
pub(crate) fn left(stage: &Stage, namespaces: &BTreeSet<String>) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let left = left_now(stage, namespaces);
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

fn left_now(stage: &Stage, namespaces: &BTreeSet<String>) -> Vec<String> {
    let mut left = Vec::new();
    let folder = stage.machines.folder(&stage.id);
    if folder.path().exists() {
        left.push(format!("the folder {}", folder.path().display()));
    }
    let cgroups = Cgroups::detect().unwrap().count(&stage.id);
    if cgroups > 0 {
        left.push(format!("{cgroups} cgroups"));
    }
    let needle = folder.path().display().to_string();
    for pid in processes() {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let mounts = mounts.lines().filter(|line| line.contains(&needle)).count();
        if mounts > 0 {
            left.push(format!("{mounts} mounts in process {pid}"));
        }
        if !self::namespaces(pid).is_disjoint(namespaces) {
            left.push(format!("process {pid} in its namespaces"));
        }
    }
    left
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir(Path::new("/proc")).unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.collect()
}
