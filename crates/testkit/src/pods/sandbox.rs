//! The namespaces of one pod and the processes in them.
//!
//! A shell is the first process of the pod's process namespace. It reads orders from a pipe whose only writing
//! end is here: when this process ends, in whatever way, the shell reads the end of the pipe and ends, and with
//! the first process of a namespace the kernel kills all others; mounts and interfaces go with the namespaces.
//!
//! It knows scripts and processes, and nothing of Kubernetes.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write as _},
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    net::unix::pipe,
    sync::oneshot,
};

use super::lock;

/// The end of the first process ends the namespace within milliseconds; longer means that it is stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a process of a pod may find of this machine's environment: where the tools are.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Orders: `run NAME` runs `NAME.sh`; `kill SIGNAL PID` sends a signal. Scripts say `started NAME PID` themselves,
/// when they are ready to become the program.
const SCRIPT: &str = r#"
ip link set lo up || exit 1
hostname "$2" || exit 1
cd "$1" || exit 1
echo up
while read -r order one two; do
  case $order in
    run) ( unshare --mount sh "./$one.sh" </dev/null; echo "exited $one $?" ) & ;;
    kill) kill -s "$one" "$two" ;;
  esac
  jobs >/dev/null
done
"#;

/// A process that was ordered: first it starts, then it ends.
pub(super) struct Process {
    /// Its id in the pod's namespace, or nothing when it could not even be set up.
    pub(super) started: oneshot::Receiver<u32>,
    /// Its exit code; 128 and more for a signal.
    pub(super) exited: oneshot::Receiver<i32>,
}

/// The other ends of the processes that run, by name.
type Awaited = Mutex<HashMap<String, (Option<oneshot::Sender<u32>>, oneshot::Sender<i32>)>>;

struct Holder {
    process: Child,
    orders: Option<ChildStdin>,
}

/// The namespaces of one pod; dropped, they end with everything in them.
pub(super) struct Sandbox {
    folder: PathBuf,
    holder: Mutex<Holder>,
    awaited: Arc<Awaited>,
}

impl Sandbox {
    /// Makes the namespaces, with the loopback up and this host name; also returns the one of the network.
    pub(super) async fn start(folder: &Path, hostname: &str) -> io::Result<(Self, File)> {
        let log = File::create(folder.join("sandbox.log"))?;
        let mut process = Command::new("unshare")
            .args(["--net", "--mount", "--pid", "--uts", "--ipc"])
            .args(["--fork", "--kill-child=KILL", "--mount-proc"])
            .args(["sh", "-c", SCRIPT, "butler-testkit-pod"])
            .arg(folder)
            .arg(hostname)
            .env_clear()
            .env("PATH", PATH)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            // Ctrl-C in a terminal reaches the test, whose end ends this one.
            .process_group(0)
            .spawn()?;
        let orders = process.stdin.take();
        let answers = process.stdout.take().expect("the pipe was just asked for");
        let namespace = format!("/proc/{}/ns/net", process.id());
        let sandbox = Self {
            folder: folder.to_owned(),
            holder: Mutex::new(Holder { process, orders }),
            awaited: Arc::default(),
        };
        let answers = pipe::Receiver::from_owned_fd(OwnedFd::from(answers))?;
        let mut answers = BufReader::new(answers).lines();
        if answers.next_line().await?.as_deref() != Some("up") {
            let log = fs::read_to_string(folder.join("sandbox.log")).unwrap_or_default();
            return Err(io::Error::other(log.trim().to_owned()));
        }
        let awaited = Arc::clone(&sandbox.awaited);
        tokio::spawn(listen(answers, awaited, folder.to_owned()));
        Ok((sandbox, File::open(namespace)?))
    }

    /// Runs a script, which must say `started NAME $$` on its descriptor 1 before it becomes a program.
    pub(super) fn run(&self, name: &str, script: &str) -> io::Result<Process> {
        fs::write(self.folder.join(format!("{name}.sh")), script)?;
        let (start, started) = oneshot::channel();
        let (exit, exited) = oneshot::channel();
        let waiting = (Some(start), exit);
        lock(&self.awaited).insert(name.to_owned(), waiting);
        self.order(&format!("run {name}"))?;
        Ok(Process { started, exited })
    }

    /// Sends a signal, such as `TERM`, to a process of the pod.
    pub(super) fn signal(&self, pid: u32, signal: &str) -> io::Result<()> {
        self.order(&format!("kill {signal} {pid}"))
    }

    /// Lets everything in the namespaces end, without waiting for it.
    pub(super) fn close(&self) {
        drop(lock(&self.holder).orders.take());
    }

    /// Ends everything in the namespaces and waits until it is gone.
    pub(super) fn end(&self) {
        let mut holder = lock(&self.holder);
        drop(holder.orders.take());
        let deadline = Instant::now() + PATIENCE;
        while let Ok(None) = holder.process.try_wait() {
            if Instant::now() > deadline {
                let _ = holder.process.kill();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn order(&self, order: &str) -> io::Result<()> {
        let mut holder = lock(&self.holder);
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let pipe = holder.orders.as_mut().ok_or_else(gone)?;
        // One write: lines of different callers must not mix.
        pipe.write_all(format!("{order}\n").as_bytes())
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.end();
    }
}

/// Hands what the shell says to whoever waits for it, until the shell is gone.
async fn listen(
    mut lines: Lines<BufReader<pipe::Receiver>>,
    awaited: Arc<Awaited>,
    folder: PathBuf,
) {
    while let Ok(Some(line)) = lines.next_line().await {
        let mut words = line.split(' ');
        let (what, name, number) = (words.next(), words.next(), words.next());
        let (Some(what), Some(name), Some(number)) = (what, name, number) else {
            continue;
        };
        let mut awaited = lock(&awaited);
        match (what, number.parse::<u32>()) {
            ("started", Ok(pid)) => {
                let start = awaited.get_mut(name).and_then(|(start, _)| start.take());
                start.map(|start| start.send(pid));
            }
            ("exited", Ok(code)) => {
                let exit = awaited.remove(name).map(|(_, exit)| exit);
                // Probes run commands for ever: their scripts must not pile up.
                let _ = fs::remove_file(folder.join(format!("{name}.sh")));
                exit.map(|exit| exit.send(i32::try_from(code).unwrap_or(255)));
            }
            _ => {}
        }
    }
    lock(&awaited).clear();
}
