//! The whole life of a cluster, by the commands that people use: made, used, resized, upgraded, broken, asleep, gone.

use std::{
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    server::WHO,
    stage::{Cluster, MANAGEMENT, get, good, output, until},
    tenant::{IMAGE, NAMESPACE, PROGRAM},
};

const NAME: &str = "tour";

/// Walks the tour on a platform that is up, and leaves nothing behind.
pub(crate) fn walk(management: &Cluster) {
    let before = left(management);
    let create = format!("cluster create {NAME} --kubernetes-version v1.34.4 --workers 2 --wait");
    butlerctl(&create);
    butlerctl("cluster list");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    let kubeconfig = butlerctl_quietly(&format!("cluster kubeconfig {NAME}"));
    std::fs::write(&path, kubeconfig).unwrap();
    let cluster = Cluster(path.display().to_string());
    let address = deploy(&cluster);

    let prober = Prober::start(address.clone());
    butlerctl(&format!("cluster scale {NAME} --workers 3 --wait"));
    assert_eq!(versions(&cluster).len(), 3);
    butlerctl(&format!("cluster scale {NAME} --workers 2 --wait"));
    until("the third node to be gone", || {
        let nodes = versions(&cluster);
        (nodes.len() == 2)
            .then_some(())
            .ok_or_else(|| nodes.join(" "))
    });
    butlerctl(&format!("cluster upgrade {NAME} --to v1.35.4 --wait"));
    assert_eq!(versions(&cluster), ["v1.35.4", "v1.35.4"]);
    prober.answered_all_the_way();

    is_repaired(&cluster);
    answers(&address, "after a worker was replaced");

    butlerctl(&format!("cluster hibernate {NAME} --wait"));
    assert!(get(&address, "/").is_err(), "nothing runs");
    butlerctl(&format!("cluster wake {NAME} --wait"));
    answers(&address, "after a sleep");

    butlerctl(&format!("cluster destroy {NAME} --yes"));
    until("nothing to be left", || {
        let now = left(management);
        (now == before)
            .then_some(())
            .ok_or_else(|| format!("{now:#?}\ninstead of\n{before:#?}"))
    });
}

/// A worker that dies is replaced by another.
fn is_repaired(cluster: &Cluster) {
    let names = ["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"];
    let nodes = cluster.kubectl(&names);
    let dead = nodes.split(' ').next().unwrap().to_owned();
    println!("\n$ butleradm machine kill {dead}");
    let begun = Instant::now();
    good(&["machine", "kill", &dead]);
    let ready = "jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type==\"Ready\")].status} {end}";
    cluster.until(
        "another node in place of the dead one",
        &["get", "nodes", "-o", ready],
        |said| {
            let nodes: Vec<&str> = said.split_whitespace().collect();
            nodes.len() == 2
                && nodes.iter().all(|node| node.ends_with("=True"))
                && !said.contains(&format!("{dead}="))
        },
    );
    println!("  repaired in {:.1} s", begun.elapsed().as_secs_f64());
}

/// What the platform holds of tenants: objects, addresses, namespaces, machines, processes, networks.
fn left(management: &Cluster) -> Vec<String> {
    let kinds = "tenantclusters,tenantaddons,clusters,machinedeployments,machinesets,machines,localclusters,localmachines,\
                 localmachinetemplates,kubeadmconfigs,kubeadmconfigtemplates,machinehealthchecks,stewardcontrolplanes,\
                 tenantcontrolplanes,ipaddressclaims,ipaddresses.ipam.cluster.x-k8s.io";
    let objects = ["get", kinds, "-A", "-o", "name", "--ignore-not-found"];
    // Those that were given back stay on record for some minutes, while their addresses rest.
    let held = "jsonpath={range .items[?(@.status.phase!=\"Released\")]}{.metadata.name} {end}";
    let addresses = ["get", "ipallocations", "-A", "-o", held];
    let namespaces = ["get", "namespaces", "-o", "name"];
    vec![
        management.kubectl(&objects),
        management.kubectl(&addresses),
        management.kubectl(&namespaces),
        output("ls /var/lib/butler/machines /var/lib/butler/workers"),
        output("cat /proc/[0-9]*/cgroup 2>/dev/null | grep -o '/butler-machines/[^/]*' | sort -u"),
        output(
            "nsenter --net=/run/butler/net/.router ip -br link show type bridge | cut -d' ' -f1",
        ),
    ]
}

/// The releases of the nodes that are Ready.
fn versions(cluster: &Cluster) -> Vec<String> {
    let version = "jsonpath={.items[*].status.nodeInfo.kubeletVersion}";
    let said = cluster.kubectl(&["get", "nodes", "-o", version]);
    said.split_whitespace().map(str::to_owned).collect()
}

/// Runs butlerctl, which must succeed, and shows what a person would see.
fn butlerctl(words: &str) {
    println!("\n$ butlerctl {words}");
    let begun = Instant::now();
    print!("{}", butlerctl_quietly(words));
    println!("  ({:.1} s)", begun.elapsed().as_secs_f64());
}

fn butlerctl_quietly(words: &str) -> String {
    let ended = Command::new(env!("CARGO_BIN_EXE_butlerctl"))
        .args(words.split(' '))
        .env("KUBECONFIG", MANAGEMENT)
        .env("BUTLER_NAMESPACE", NAMESPACE)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "butlerctl {words}: {said}");
    eprint!("{said}");
    String::from_utf8(ended.stdout).unwrap()
}

/// Starts a web server that is never without a pod, and gives its address.
fn deploy(cluster: &Cluster) -> String {
    cluster.apply(&workload().to_string());
    let rolled = ["rollout", "status", "deployment/shop", "--timeout=120s"];
    cluster.until("the workload", &rolled, |_| true);
    let path = "jsonpath={.status.loadBalancer.ingress[0].ip}";
    let words = ["get", "service", "shop", "-o", path];
    let address = cluster.until("an address", &words, |said| !said.is_empty());
    let address = format!("{address}:80");
    answers(&address, "its first answer");
    address
}

fn answers(address: &str, when: &str) {
    until(&format!("the workload: {when}"), || {
        get(address, "/").map(drop)
    });
}

/// Two pods on two nodes, of which one may go at a time, and which end only when nobody sends them anything any more.
fn workload() -> Value {
    let labels = json!({ "app": "shop" });
    let selector = json!({ "matchLabels": labels });
    let container = json!({
        "name": "shop",
        "image": IMAGE,
        "command": [PROGRAM, "--ignored", "--exact", "server::serve_in_a_pod", "--nocapture"],
        "env": [{ "name": WHO, "value": NAME }],
        "readinessProbe": { "tcpSocket": { "port": 8080 }, "periodSeconds": 1 },
        "lifecycle": { "preStop": { "sleep": { "seconds": 5 } } },
    });
    let spread = json!({
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
    });
    let pod = json!({
        "terminationGracePeriodSeconds": 6,
        "containers": [container],
        "topologySpreadConstraints": [spread],
    });
    let named = json!({ "name": "shop" });
    let ports = json!([{ "port": 80, "targetPort": 8080 }]);
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": named,
            "spec": {
                "replicas": 2,
                "selector": selector,
                "template": { "metadata": { "labels": labels }, "spec": pod },
            },
        },
        {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": named,
            "spec": { "maxUnavailable": 1, "selector": selector },
        },
        {
            "apiVersion": "v1", "kind": "Service", "metadata": named,
            "spec": { "type": "LoadBalancer", "selector": labels, "ports": ports },
        },
    ]})
}

/// Asks ten times a second, from outside of the cluster.
struct Prober {
    ended: Arc<AtomicBool>,
    asked: JoinHandle<usize>,
    failures: Arc<Mutex<Vec<String>>>,
}

impl Prober {
    fn start(address: String) -> Self {
        let (ended, failures) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (end, failed) = (
            Arc::clone(&ended),
            Arc::<Mutex<Vec<String>>>::clone(&failures),
        );
        let asked = thread::spawn(move || {
            let (begun, mut count) = (Instant::now(), 0);
            while !end.load(Ordering::Relaxed) {
                count += 1;
                if let Err(said) = get(&address, "/") {
                    let at = begun.elapsed().as_secs_f64();
                    failed.lock().unwrap().push(format!("{at:.1} s: {said}"));
                }
                thread::park_timeout(Duration::from_millis(100));
            }
            count
        });
        Self {
            ended,
            asked,
            failures,
        }
    }

    fn answered_all_the_way(self) {
        self.ended.store(true, Ordering::Relaxed);
        let asked = self.asked.join().unwrap();
        let failures = self.failures.lock().unwrap();
        println!("  {} of {asked} requests failed", failures.len());
        assert!(failures.is_empty(), "{failures:#?}");
    }
}
