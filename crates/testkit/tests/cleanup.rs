//! A server goes with whoever started it, however that ends.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails where it stands, and its tasks end with it"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use butler_testkit::{Options, Server};

/// What a child prints before the folder of its server.
const ANNOUNCEMENT: &str = "server folder: ";

/// Run by the tests below in a process of its own, which they then end.
#[tokio::test]
#[ignore = "only as a child of the other tests of this file"]
async fn child() {
    let server = Server::start(Options::default()).await.unwrap();
    println!("\n{ANNOUNCEMENT}{}", server.folder().display());
    assert!(
        std::env::var_os("TESTKIT_CHILD_PANICS").is_none(),
        "as I was told"
    );
    std::future::pending::<()>().await;
}

/// A child process with a running server, and the processes of that server.
struct Victim {
    process: Child,
    folder: PathBuf,
    components: Vec<u32>,
}

impl Victim {
    fn start(panics: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["child", "--exact", "--ignored", "--nocapture"]);
        if panics {
            command.env("TESTKIT_CHILD_PANICS", "1");
        }
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let folder =
            lines.find_map(|line| line.unwrap().strip_prefix(ANNOUNCEMENT).map(PathBuf::from));
        let folder = folder.expect("the child ended before its server was up");
        let pid = |name: &str| {
            fs::read_to_string(folder.join(format!("{name}.pid")))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        let components = ["etcd", "kube-apiserver"]
            .into_iter()
            .filter_map(pid)
            .collect();
        Self {
            process,
            folder,
            components,
        }
    }

    fn signal(&self, signal: &str) {
        kill(signal, self.process.id());
    }

    /// Waits until nothing of the server is left; says what is if that takes too long.
    fn assert_gone(mut self) {
        self.process.wait().unwrap();
        until("the components to end", || {
            self.components.iter().all(|&pid| is_gone(pid))
        });
        until("the folder to vanish", || !self.folder.exists());
    }
}

fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < deadline, "waited 10 s for {what}");
        std::thread::yield_now();
    }
}

fn kill(signal: &str, pid: u32) {
    let status = Command::new("kill")
        .args(["-s", signal, &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success(), "could not send {signal} to {pid}");
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

fn parent(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ")
        .unwrap()
        .1
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn a_killed_test_process_takes_its_server_along() {
    let victim = Victim::start(false);
    assert_eq!(victim.components.len(), 2);
    victim.signal("KILL");
    victim.assert_gone();
}

#[test]
fn ctrl_c_takes_the_server_along() {
    let victim = Victim::start(false);
    victim.signal("INT");
    victim.assert_gone();
}

#[test]
fn a_panic_takes_the_server_along() {
    Victim::start(true).assert_gone();
}

#[tokio::test]
async fn a_killed_guardian_takes_the_components_along_and_the_next_start_its_folder() {
    let mut victim = Victim::start(false);
    let guardian = parent(victim.components[0]);
    assert_ne!(guardian, victim.process.id());
    kill("KILL", guardian);
    until("the components to end", || {
        victim.components.iter().all(|&pid| is_gone(pid))
    });
    // Another test of this file may have started a server meanwhile: the folder can be gone already.
    let server = Server::start(Options::default()).await.unwrap();
    assert!(!victim.folder.exists());
    assert!(server.folder().exists());
    victim.process.kill().unwrap();
    victim.process.wait().unwrap();
}

#[tokio::test]
async fn dropping_the_last_handle_ends_a_private_server() {
    let server = Server::start(Options::default()).await.unwrap();
    let folder = server.folder().to_owned();
    let clone = server.clone();
    drop(server);
    assert!(folder.exists());
    drop(clone);
    assert!(!folder.exists());
}
