//! The platform on this machine, from nothing to nothing: `make e2e`.
//!
//! It takes minutes, root and the whole machine, so it is no part of `cargo test`.
#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use butler_toolchain::Toolchain;

const KUBECONFIG: &str = "/var/lib/butler/admin.conf";
const PATIENCE: Duration = Duration::from_mins(1);
/// Goals on two cores, with everything in the cache.
const UP: Duration = Duration::from_mins(1);
const DOWN: Duration = Duration::from_secs(10);

fn butleradm(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_butleradm"));
    let output = command.args(arguments).output().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn good(arguments: &[&str]) -> Duration {
    let begun = Instant::now();
    let output = butleradm(arguments);
    assert!(output.status.success(), "butleradm {arguments:?}");
    begun.elapsed()
}

fn run_kubectl(arguments: &[&str], input: &str) -> Output {
    let kubectl = Toolchain::locate()
        .unwrap()
        .binary("kubectl", None)
        .unwrap();
    let mut child = Command::new(kubectl)
        .args(["--kubeconfig", KUBECONFIG])
        .args(arguments)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn kubectl(arguments: &[&str], input: &str) -> String {
    let output = run_kubectl(arguments, input);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn until<T>(what: &str, ask: impl Fn() -> Result<T, String>) -> T {
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

/// What a web server of the cluster answers the host.
fn get(address: &str) -> Result<String, String> {
    let ask = || -> std::io::Result<String> {
        let address: SocketAddr = address.parse().map_err(std::io::Error::other)?;
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    match ask() {
        Ok(answer) if answer.ends_with("OK") => Ok(answer),
        Ok(answer) => Err(answer),
        Err(error) => Err(error.to_string()),
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
        // Of processes by what they run, since others come and go on this machine.
        "cat /proc/[0-9]*/cgroup 2>/dev/null | grep -c '/butler/'",
    ];
    let run = |command: &str| {
        let output = Command::new("sh").args(["-c", command]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        (command.to_owned(), said)
    };
    commands.map(run).into()
}

const WEB: &str = r"
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data:
  Corefile: |
    .:5353 {
      health :8080
    }
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: registry.k8s.io/coredns/coredns:v1.13.1
          args: [-conf, /etc/web/Corefile]
          volumeMounts: [{name: web, mountPath: /etc/web}]
      volumes: [{name: web, configMap: {name: web}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
";

#[test]
#[ignore = "takes the whole machine: make e2e"]
fn a_platform_comes_up_serves_heals_and_leaves_nothing() {
    if fs::metadata("/proc/1/root").is_err() || !rustix::process::geteuid().is_root() {
        println!("skipped: the platform needs root");
        return;
    }
    assert!(
        !Path::new("/var/lib/butler").exists(),
        "there is a platform on this machine, which this test would remove: `butleradm reset` first"
    );
    let before = count();
    let first = good(&["up"]);
    good(&["status"]);

    // A Service answers on the host.
    kubectl(&["apply", "-f", "-"], WEB);
    let path = "jsonpath={.status.loadBalancer.ingress[0].ip}";
    let address = until("an address", || {
        let address = kubectl(&["get", "service", "web", "-o", path], "");
        if address.is_empty() {
            Err("none".to_owned())
        } else {
            Ok(format!("{address}:80"))
        }
    });
    until("the web server on the host", || get(&address));

    // Cluster API's webhooks are called: nobody else would refuse this.
    let topology = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: x, namespace: default}\n\
                    spec: {topology: {classRef: {name: x}, version: v1.35.4}}\n";
    let refused = run_kubectl(&["apply", "--dry-run=server", "-f", "-"], topology);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("ClusterTopology feature flag"), "{said}");

    // Whoever cuts the network finds it whole again.
    let cut = Command::new("ip")
        .args(["link", "delete", "butler0"])
        .status()
        .unwrap();
    assert!(cut.success());
    until("the network to heal", || get(&address));

    // Once more: nothing to do, and quick.
    let second = good(&["up"]);
    assert!(second < UP, "a second up took {second:?}");

    // Down and up again: the same cluster.
    let down = good(&["down"]);
    assert_eq!(count(), before);
    good(&["up"]);
    until("the web server after a restart", || get(&address));

    // A machine that is killed comes back by `up`.
    let killed = Command::new("sh")
        .args([
            "-c",
            "kill -9 $(cat /var/lib/butler/machines/butler-management/pid)",
        ])
        .status();
    assert!(killed.unwrap().success());
    good(&["up"]);
    until("the web server after a crash", || get(&address));

    good(&["reset"]);
    assert_eq!(count(), before);
    assert!(!Path::new("/var/lib/butler").exists());
    println!("up {first:?}, second up {second:?}, down {down:?}");
    assert!(down < DOWN, "down took {down:?}");
}

#[test]
fn what_is_wrong_with_the_command_line_is_said_with_exit_code_two() {
    let output = butleradm(&["up", "--range", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    let output = butleradm(&["mirror", "--to", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
}
