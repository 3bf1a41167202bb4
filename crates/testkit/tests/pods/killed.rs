//! Nothing of a pod outlives whoever ran it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use butler_testkit::{Namespace, PodOptions, Pods, wait_for_condition};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use crate::support::{until, world};

const ANNOUNCEMENT: &str = "pods folder: ";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: store}
spec:
  containers:
    - name: etcd
      image: registry.example/etcd:v3.6.16
      args: [--data-dir=/data, '--listen-client-urls=http://0.0.0.0:2379', '--advertise-client-urls=http://127.0.0.1:2379']
      ports: [{containerPort: 2379}]
      readinessProbe: {tcpSocket: {port: 2379}, periodSeconds: 1}
      volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
";

async fn run_a_pod() -> (Pods, Namespace) {
    let (_server, pods, ns) = world(PodOptions::default()).await;
    ns.apply_yaml(POD).await;
    let api: Api<Pod> = ns.api();
    wait_for_condition(&api, "store", "Ready", "True").await;
    (pods, ns)
}

/// Run by the test below in a process of its own, which it then kills.
#[tokio::test]
#[ignore = "only as a child of the other test of this file"]
async fn child() {
    let (pods, _ns) = run_a_pod().await;
    println!("\n{ANNOUNCEMENT}{}", pods.folder().display());
    std::future::pending::<()>().await;
}

/// The processes whose mounts or arguments name the folder, and the namespaces they are in.
fn traces(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if name.parse::<u32>().is_err() {
            continue;
        }
        let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        let text = |file: &str| String::from_utf8_lossy(&read(file)).replace('\0', " ");
        let mounted = text("mountinfo").contains(&folder);
        if mounted || text("cmdline").contains(&folder) {
            found.push(format!("{name} {}", text("cmdline")));
        }
    }
    found
}

#[tokio::test]
async fn a_killed_test_process_leaves_no_process_mount_or_folder_of_its_pods() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["killed::child", "--exact", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let folder = lines.find_map(|line| {
        line.unwrap()
            .strip_prefix(ANNOUNCEMENT)
            .map(ToOwned::to_owned)
    });
    let folder = folder.expect("the child ended before its pod was ready");
    let folder = Path::new(&folder);
    assert!(traces(folder).len() >= 4, "{:?}", traces(folder));
    child.kill().unwrap();
    child.wait().unwrap();
    until("every process of the pod to end", || {
        traces(folder).is_empty()
    })
    .await;
    until("the folder to vanish", || !folder.exists()).await;
}

#[tokio::test]
async fn dropped_pods_are_gone_when_the_drop_returns() {
    let (pods, ns) = run_a_pod().await;
    let folder = pods.folder().to_owned();
    assert!(!traces(&folder).is_empty());
    let began = Instant::now();
    drop(pods);
    println!("dropped in {:?}", began.elapsed());
    assert!(traces(&folder).is_empty(), "{:?}", traces(&folder));
    assert!(!folder.exists());
    drop(ns);
}
