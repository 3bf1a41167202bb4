//! Real machines: namespaces of this host, with the real container runtime and kubelet.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod host;
mod join;
mod provider;
mod stage;

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt as _};

use butler_machine::runtime::{Cgroups, Error, Held, protocol::Outcome};
use stage::{Stage, can_run, left, namespaces};

const EVERYTHING: &str = "#cloud-config
write_files:
- {path: /etc/greeting, content: hello, permissions: '0640', owner: 'daemon:daemon'}
- {path: /etc/greeting, content: ' world', append: true, permissions: '0640', owner: 'daemon:daemon'}
users:
- {name: ann, groups: wheel, ssh_authorized_keys: [ssh-ed25519 AAAA ann@example]}
ntp: {enabled: true}
runcmd:
- cd /var/tmp
- [touch, 'a file']
- systemctl is-active containerd > /var/tmp/runtime; systemctl status ntp > /var/tmp/ntp
- hostname > /var/tmp/name
- mkdir -p /run/cluster-api && echo done > /run/cluster-api/bootstrap-success.complete
";

#[test]
fn a_machine_runs_its_bootstrap_data_once_and_leaves_nothing_behind() {
    if !can_run() {
        return;
    }
    let stage = Stage::new();
    stage.start(EVERYTHING);
    let done = stage.until("the bootstrap data", |seen| seen.outcome.is_some());
    assert_eq!(done.outcome, Some(Outcome::Succeeded), "{}", stage.logs());
    let pid = done.pid.expect("it runs");

    let greeting = stage.file("etc/greeting");
    assert_eq!(fs::read_to_string(&greeting).unwrap(), "hello world");
    let about = fs::metadata(&greeting).unwrap();
    assert_eq!((about.mode() & 0o7777, about.uid()), (0o640, 1));
    let read = |path: &str| {
        fs::read_to_string(stage.file(path))
            .unwrap()
            .trim()
            .to_owned()
    };
    assert!(stage.file("var/tmp/a file").exists());
    assert_eq!(read("var/tmp/runtime"), "active");
    assert!(read("var/tmp/ntp").contains("not-found"));
    assert_eq!(read("var/tmp/name"), "worker");
    assert_eq!(stage.run("id -nG ann"), "ann wheel");
    assert_eq!(
        read("home/ann/.ssh/authorized_keys"),
        "ssh-ed25519 AAAA ann@example"
    );
    assert!(read("var/log/cloud-init-output.log").contains("ignored: ntp"));
    assert!(
        !stage
            .machines
            .folder(&stage.id)
            .path()
            .join("state/bootstrap.json")
            .exists()
    );

    // What it sees is its own.
    assert!(
        stage
            .run("grep MemTotal /proc/meminfo")
            .contains("1048576 kB")
    );
    assert_eq!(stage.run("cat /proc/sys/vm/overcommit_memory"), "1");
    assert_eq!(stage.run("ls /sys/class/net").trim(), "lo");
    // kubeadm looks for the runtime's socket there.
    assert_eq!(stage.run("readlink -f /var/run"), "/run");

    // A second look, as after a restart of whoever looks, finds the same; a second start changes nothing.
    stage.start(EVERYTHING);
    assert_eq!(stage.observe().pid, Some(pid));

    let namespaces = namespaces(pid);
    assert_eq!(namespaces.len(), 5);
    stage.machines.remove(&stage.id).unwrap();
    assert_eq!(left(&stage, &namespaces), Vec::<String>::new());
    stage.machines.remove(&stage.id).unwrap();
}

#[test]
fn a_machine_that_is_broken_on_purpose_comes_back_as_it_was() {
    if !can_run() {
        return;
    }
    let stage = Stage::new();
    let peer = stage::Net::new();
    stage.net.connect(&peer);
    stage.start("#cloud-config\nruncmd: [date +%N > /var/tmp/once]\n");
    let first = stage
        .until("the bootstrap data", |seen| seen.outcome.is_some())
        .pid;
    let once = fs::read_to_string(stage.file("var/tmp/once")).unwrap();
    // A port on which nobody listens refuses at once, unless nothing comes back.
    let answers = || {
        let words = ["1", "bash", "-c", "exec 3<>/dev/tcp/10.99.0.2/9"];
        let output = peer.command("timeout").args(words).output().unwrap();
        String::from_utf8_lossy(&output.stderr).contains("refused")
    };

    stage.machines.pause(&stage.id).unwrap();
    assert_eq!(stage.observe().held, Some(Held::Paused));
    let echo = stage
        .machines
        .command(&stage.id, &["systemctl", "is-active", "containerd"]);
    let mut asked = echo
        .unwrap()
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::park_timeout(std::time::Duration::from_millis(300));
    assert_eq!(
        asked.try_wait().unwrap(),
        None,
        "nobody answers in a machine that stands still"
    );
    stage.machines.resume(&stage.id).unwrap();
    assert!(asked.wait().unwrap().success(), "it answers again");

    assert!(answers(), "its neighbour reaches it");
    stage.machines.partition(&stage.id).unwrap();
    stage.machines.partition(&stage.id).unwrap();
    assert!(!answers(), "nobody reaches it");
    assert!(
        stage
            .run("bash -c 'exec 3<>/dev/tcp/127.0.0.1/9'")
            .contains("refused"),
        "it reaches itself"
    );
    stage.machines.resume(&stage.id).unwrap();
    assert!(answers(), "its neighbour reaches it again");

    stage.machines.kill(&stage.id).unwrap();
    let killed = stage.observe();
    assert_eq!((killed.pid, killed.held), (None, Some(Held::Killed)));
    stage.machines.resume(&stage.id).unwrap();
    stage.start("#cloud-config\nruncmd: [date +%N > /var/tmp/once]\n");
    let again = stage.observe();
    assert!(again.pid.is_some() && again.pid != first, "{again:?}");
    assert_eq!(
        fs::read_to_string(stage.file("var/tmp/once")).unwrap(),
        once,
        "it ran once"
    );

    // Also a paused machine can be removed.
    let namespaces = namespaces(again.pid.unwrap());
    stage.machines.pause(&stage.id).unwrap();
    stage.machines.remove(&stage.id).unwrap();
    assert_eq!(left(&stage, &namespaces), Vec::<String>::new());
}

#[test]
fn a_machine_that_is_stopped_leaves_its_disk_only_and_goes_on_from_it() {
    if !can_run() {
        return;
    }
    let stage = Stage::new();
    stage.start("#cloud-config\nruncmd: [date +%N > /var/tmp/once]\n");
    stage.until("the bootstrap data", |seen| seen.outcome.is_some());
    let once = fs::read_to_string(stage.file("var/tmp/once")).unwrap();
    let inside = stage.machines.processes(&stage.id);
    assert!(inside.contains(&stage.observe().pid.unwrap()), "{inside:?}");
    for left in [
        "nft add table ip kube-proxy",
        "nft add table ip butler",
        "ip link add cni0 type bridge",
    ] {
        assert_eq!(stage.run(left), "");
    }
    stage.machines.stop(&stage.id).unwrap();
    let stopped = stage.observe();
    assert_eq!((stopped.pid, stopped.held), (None, None));
    assert_eq!(Cgroups::detect().unwrap().count(&stage.id), 0);
    assert!(stage.machines.processes(&stage.id).is_empty());
    stage.start("#cloud-config\nruncmd: [date +%N > /var/tmp/once]\n");
    assert!(stage.observe().pid.is_some());
    assert_eq!(
        fs::read_to_string(stage.file("var/tmp/once")).unwrap(),
        once
    );
    // Its network outlives it, and has nothing of its earlier life but what the platform made.
    assert_eq!(stage.run("nft list tables"), "table ip butler");
    assert_eq!(stage.run("ip -br link show type bridge"), "");
}

#[test]
fn a_machine_that_is_killed_while_it_starts_begins_anew() {
    if !can_run() {
        return;
    }
    let stage = Stage::new();
    stage.start("#cloud-config\nruncmd: [touch /var/tmp/begun, sleep 1000]\n");
    let begun = stage.file("var/tmp/begun");
    stage.until("the commands to begin", |_| begun.exists());
    stage.machines.kill(&stage.id).unwrap();
    stage.machines.resume(&stage.id).unwrap();
    stage.start("#cloud-config\nruncmd: [touch /var/tmp/second]\n");
    stage.until("the second start", |seen| {
        seen.outcome == Some(Outcome::Succeeded)
    });
    assert!(stage.file("var/tmp/second").exists());
    assert!(!begun.exists(), "its disk is new");
}

#[test]
fn bootstrap_data_that_fails_is_told_with_the_reason_and_without_its_secrets() {
    if !can_run() {
        return;
    }
    let stage = Stage::new();
    stage.start(
        "#cloud-config\nruncmd:\n- echo the password is secret\n\
         - echo 'error execution phase preflight, token abcdef.0123456789abcdef' >&2\n- exit 3\n",
    );
    let seen = stage.until("the end of the commands", |seen| seen.outcome.is_some());
    let Some(Outcome::Failed { reason }) = seen.outcome else {
        panic!("{seen:?}");
    };
    assert_eq!(
        reason,
        "runcmd ended with 3; error execution phase preflight, token (token)"
    );
    assert!(seen.pid.is_some(), "it goes on, to be looked at");
}

#[test]
fn a_machine_that_cannot_start_says_why_and_leaves_nothing() {
    if !can_run() {
        return;
    }
    let stage = Stage::new();
    let mut spec = stage.spec();
    spec.programs.cni = "/does/not/exist".into();
    let error = stage
        .machines
        .start(&spec, &stage::plan("#cloud-config"))
        .unwrap_err();
    let Error::NotStarted { console, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(console.contains("opt/cni/bin"), "{console}");
    spec.network_namespace = "/does/not/exist".into();
    let error = stage
        .machines
        .start(&spec, &stage::plan("#cloud-config"))
        .unwrap_err();
    assert!(error.to_string().contains("/does/not/exist"), "{error}");
    stage.machines.remove(&stage.id).unwrap();
    assert_eq!(left(&stage, &BTreeSet::new()), Vec::<String>::new());
}
