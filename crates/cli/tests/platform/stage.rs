//! What the test of the platform is played with: the commands, waiting, asking, and counting what is left.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use butler_toolchain::Toolchain;

/// The administrator's kubeconfig.
pub(crate) const MANAGEMENT: &str = "/var/lib/butler/admin.conf";
/// Generous: a busy host is slow, and a test that passes does not wait.
const PATIENCE: Duration = Duration::from_mins(3);

pub(crate) fn butleradm(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_butleradm"));
    let output = command.args(arguments).output().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Runs butleradm, which must succeed, and says how long it took.
pub(crate) fn good(arguments: &[&str]) -> Duration {
    let begun = Instant::now();
    let output = butleradm(arguments);
    assert!(output.status.success(), "butleradm {arguments:?}");
    begun.elapsed()
}

/// A cluster, by its kubeconfig.
pub(crate) struct Cluster(pub(crate) String);

impl Cluster {
    fn run(&self, arguments: &[&str], input: &str) -> Output {
        let toolchain = Toolchain::locate().unwrap();
        let mut child = Command::new(toolchain.binary("kubectl", None).unwrap())
            .args(["--kubeconfig", &self.0, "--request-timeout=30s"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // One that does not read says why on its standard error.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().unwrap()
    }

    /// What kubectl prints, or what it complains about.
    pub(crate) fn try_kubectl(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let output = self.run(arguments, input);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(text(&output.stderr))
        }
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments, "")
            .unwrap_or_else(|said| panic!("kubectl {arguments:?}: {said}"))
    }

    pub(crate) fn apply(&self, objects: &str) {
        self.try_kubectl(&["apply", "-f", "-"], objects)
            .unwrap_or_else(|said| panic!("kubectl apply: {said}"));
    }

    /// Waits until what kubectl prints is as wanted.
    pub(crate) fn until(
        &self,
        what: &str,
        arguments: &[&str],
        wanted: impl Fn(&str) -> bool,
    ) -> String {
        until(what, || {
            let said = self.try_kubectl(arguments, "")?;
            if wanted(&said) { Ok(said) } else { Err(said) }
        })
    }
}

pub(crate) fn until<T>(what: &str, ask: impl Fn() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(last) if Instant::now() > deadline => {
                panic!("waited {PATIENCE:?} for {what}: {last}")
            }
            Err(_) => std::thread::park_timeout(Duration::from_millis(100)),
        }
    }
}

/// What a web server at an address of the platform answers the host.
pub(crate) fn get(address: &str, path: &str) -> Result<String, String> {
    let ask = || -> std::io::Result<String> {
        let address: SocketAddr = address.parse().map_err(std::io::Error::other)?;
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().map_err(|error| error.to_string())?;
    let (_, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| answer.clone())?;
    Ok(body.to_owned())
}

/// A machine without a platform, which a test makes and takes away.
pub(crate) struct Stage {
    before: Vec<(String, String)>,
    _janitor: Janitor,
}

impl Stage {
    /// Nothing where a platform cannot be made.
    pub(crate) fn empty() -> Option<Self> {
        if !is_root() {
            println!("skipped: the platform needs root");
            return None;
        }
        assert!(
            !Path::new("/var/lib/butler").exists(),
            "there is a platform on this machine, which this test would remove: `butleradm reset` first"
        );
        Some(Self {
            before: count(),
            _janitor: Janitor::new(),
        })
    }

    /// The host's first process takes note of the end of others in its own time.
    pub(crate) fn is_empty_again(&self) {
        until("the kernel to be as before", || {
            let differs = |(now, then): &(_, _)| now != then;
            let left: Vec<_> = count()
                .into_iter()
                .zip(self.before.iter().cloned())
                .filter(differs)
                .collect();
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:#?}"))
            }
        });
    }
}

/// Everything of the kernel that a platform touches.
fn count() -> Vec<(String, String)> {
    let commands = [
        "ip -br link | cut -d' ' -f1 | sort",
        "ip -4 route show table all | sort",
        "ip rule",
        "cut -d' ' -f5 /proc/self/mountinfo | grep butler | sort",
        "find /sys/fs/cgroup -type d -name 'butler*' | sort",
        "cat /proc/sys/fs/inotify/max_user_instances /proc/sys/fs/inotify/max_user_watches /proc/sys/net/ipv4/ip_forward",
        "ls /run | grep butler",
        // Of processes by what they are in, since others come and go on this machine.
        "cat /proc/[0-9]*/cgroup 2>/dev/null | grep -c -e '/butler/' -e '/butler-machines/'",
        "nft list tables",
    ];
    let run = |command: &str| {
        let output = Command::new("sh").args(["-c", command]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        (command.to_owned(), said)
    };
    commands.map(run).into()
}

/// Removes the platform when its pipe is closed, which the end of this process does too, in whatever way it ends.
struct Janitor(Child);

impl Janitor {
    fn new() -> Self {
        let child = Command::new("sh")
            .args(["-c", "read _; \"$0\" reset >/dev/null 2>&1"])
            .arg(env!("CARGO_BIN_EXE_butleradm"))
            .stdin(Stdio::piped())
            // What ends the test by its group must leave the one who cleans up after it.
            .process_group(0)
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Runs a command of the host, which must succeed.
pub(crate) fn run(line: &str) {
    let status = Command::new("sh").args(["-c", line]).status().unwrap();
    assert!(status.success(), "{line}");
}

/// What a command of the host prints.
pub(crate) fn output(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Root of the host, and not only of a namespace of users.
fn is_root() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let whole = map.split_whitespace().eq(["0", "0", "4294967295"]);
    whole && rustix::process::geteuid().is_root()
}
