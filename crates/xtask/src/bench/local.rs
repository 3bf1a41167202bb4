//! The local platform: how long it takes to come up and go, how quickly a machine joins, how much memory it all takes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use butler_runtime::clock::{Clock as _, SystemClock};
use butler_toolchain::Toolchain;
use jiff::Timestamp;

use super::{
    Figure, figure,
    waiting::{Scope, waits},
};
use crate::{steps::is_root, workspace::root};

const STATE: &str = "/var/lib/butler";
const PATIENCE: Duration = Duration::from_mins(3);
const TEAM: &str = "playground";
/// On the disk of the management machine.
const AUDIT_LOG: [&str; 5] = [
    STATE,
    "machines",
    "butler-management",
    "root",
    "var/log/audit/audit.log",
];
/// The cluster that is timed.
const BORN: &str = "newborn";
/// Butler and Steward; the third of ours is the infrastructure, and tells of machines when they are there.
const OURS: [&str; 2] = [
    "system:serviceaccount:butler-system:butler-controller",
    "system:serviceaccount:steward-system:steward",
];

pub(super) fn measure() -> Result<Vec<Figure>> {
    ensure!(is_root(), "a platform needs root: run it with sudo");
    ensure!(
        !Path::new(STATE).exists(),
        "there is a platform on this machine, which this would remove: `butleradm reset` first"
    );
    // The first time fills caches.
    butleradm("up")?;
    butleradm("reset")?;
    let up = butleradm("up")?;
    let memory = memory()?;
    let joined = join()?;
    let born = birth()?;
    let down = butleradm("down")?;
    butleradm("reset")?;
    Ok(vec![
        figure("warm up, with a tenant and its worker", up, 60.0, "s"),
        figure("down", down, 10.0, "s"),
        figure("LocalMachine created to Node Ready", joined, 10.0, "s"),
        figure("TenantCluster created to Node Ready", born.node, 20.0, "s"),
        figure("TenantCluster created to Ready", born.ready, 35.0, "s"),
        figure("of it our own waiting", born.waiting, 2.0, "s"),
        figure("memory of everything (PSS)", memory, 2048.0, "MiB"),
    ])
}

fn program() -> PathBuf {
    root().join("target/release/butleradm")
}

/// Seconds that a command took.
fn butleradm(verb: &str) -> Result<f64> {
    let begun = Instant::now();
    let status = Command::new(program()).arg(verb).status();
    let status = status.with_context(|| format!("could not run butleradm {verb}"))?;
    ensure!(status.success(), "butleradm {verb} failed");
    Ok(begun.elapsed().as_secs_f64())
}

fn memory() -> Result<f64> {
    let shown = run(Command::new(program()).arg("status"))?;
    let words = shown.split("memory: ").nth(1);
    let number = words.and_then(|rest| rest.split(' ').next());
    let number = number.context("butleradm status says nothing about memory")?;
    number.parse().context("butleradm status says no number")
}

/// Seconds from when a second machine is there as an object until its Node is Ready.
fn join() -> Result<f64> {
    let demo = format!("{STATE}/demo.conf");
    let admin = format!("{STATE}/admin.conf");
    let two = r#"-p={"spec":{"workers":{"replicas":2}}}"#;
    let scale = ["patch", "tenantcluster", "demo", "-n", "playground"];
    kubectl(&admin, &[&scale[..], &["--type=merge", two]].concat())?;
    let machines = ["get", "localmachines", "-A", "-o", "name"];
    until("a second LocalMachine", || {
        Ok(kubectl(&admin, &machines)?.lines().count() == 2)
    })?;
    let begun = Instant::now();
    let ready = "jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status}";
    until("its Node", || {
        let said = kubectl(&demo, &["get", "nodes", "-o", ready])?;
        Ok(said.split_whitespace().filter(|it| *it == "True").count() == 2)
    })?;
    Ok(begun.elapsed().as_secs_f64())
}

/// How long a cluster takes from its creation, in seconds.
struct Birth {
    node: f64,
    ready: f64,
    waiting: f64,
}

/// Creates a cluster with one worker and follows it until it is Ready.
fn birth() -> Result<Birth> {
    let admin = format!("{STATE}/admin.conf");
    let (from, begun) = (SystemClock.now(), Instant::now());
    run(butlerctl(&admin)
        .args(["cluster", "create", BORN, "--workers", "1"])
        .args(["--kubernetes-version", "v1.35.4"]))?;
    let asked = ["get", "tenantcluster", BORN, "-n", TEAM, "-o"];
    let ask = |path: &str| {
        kubectl(
            &admin,
            &[&asked[..], &[&format!("jsonpath={path}")]].concat(),
        )
    };
    until("its namespace", || {
        Ok(!ask("{.status.tenantNamespace}")?.is_empty())
    })?;
    let namespace = ask("{.status.tenantNamespace}")?;
    // A machine has a node when it is Ready: its provider is not the one that says so.
    let joined = ["get", "machines.cluster.x-k8s.io", "-n", &namespace, "-o"];
    let path = "jsonpath={.items[*].status.conditions[?(@.type==\"NodeReady\")].status}";
    until("its node", || {
        Ok(kubectl(&admin, &[&joined[..], &[path]].concat())? == "True")
    })?;
    let node = begun.elapsed().as_secs_f64();
    let answered = await_dns(&admin)?;
    until("it to be Ready", || Ok(ask("{.status.phase}")? == "Ready"))?;
    let (ready, to) = (begun.elapsed().as_secs_f64(), SystemClock.now());
    let log = AUDIT_LOG.iter().collect::<PathBuf>();
    let text = fs::read_to_string(&log);
    let log = text.with_context(|| format!("could not read {}", log.display()))?;
    let scope = Scope {
        cluster: (TEAM, BORN),
        namespace: &namespace,
        from,
        to,
        inside: ("DNS inside the cluster", answered),
    };
    let waits = waits(&log, &scope)?;
    for (user, seconds) in &waits {
        println!("waited for {user}: {seconds:.2} s");
    }
    let ours = |user: &str| OURS.contains(&user);
    let ours = waits.iter().filter(|(user, _)| ours(user));
    Ok(Birth {
        node,
        ready,
        waiting: ours.map(|(_, seconds)| seconds).sum(),
    })
}

/// When names were first answered inside the new cluster.
fn await_dns(admin: &str) -> Result<Timestamp> {
    let kubeconfig = format!("{STATE}/{BORN}.conf");
    let shown = run(butlerctl(admin).args(["cluster", "kubeconfig", BORN]))?;
    fs::write(&kubeconfig, shown).context("could not keep its kubeconfig")?;
    let asked = ["get", "deployment", "coredns", "-n", "kube-system"];
    let path = "jsonpath={.status.availableReplicas}";
    until("its DNS", || {
        let pods = kubectl(&kubeconfig, &[&asked[..], &["-o", path]].concat())?;
        Ok(!pods.is_empty())
    })?;
    Ok(SystemClock.now())
}

fn butlerctl(kubeconfig: &str) -> Command {
    let mut command = Command::new(root().join("target/release/butlerctl"));
    command.args(["--kubeconfig", kubeconfig, "--namespace", TEAM]);
    command
}

fn kubectl(kubeconfig: &str, arguments: &[&str]) -> Result<String> {
    let kubectl = Toolchain::locate()?.binary("kubectl", None)?;
    run(Command::new(kubectl)
        .args(["--kubeconfig", kubeconfig])
        .args(arguments))
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

fn until(what: &str, ask: impl Fn() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !ask()? {
        ensure!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        thread::park_timeout(Duration::from_millis(50));
    }
    Ok(())
}
