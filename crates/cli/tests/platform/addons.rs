//! Addons for real, from the platform's own registry: what a tenant asks for is installed by controllers that are killed
//! while they are at it, works, and leaves nothing when it is switched off.

use std::{
    fs,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use butler_images::addons::VOLUME_HELPER;
use butler_toolchain::Toolchain;
use serde_json::{Value, json};

use crate::{
    is_gone,
    stage::{Cluster, output, run, until},
    tenant::{NAMESPACE, Tenant},
};

const NAME: &str = "supplied";
/// Addons of the cluster, and where their releases are.
const ADDONS: [(&str, &str); 2] = [
    ("local-path-provisioner", "local-path-storage"),
    ("metrics-server", "kube-system"),
];
/// In full: Kubernetes has a kind of the same name for addresses of Services.
const POOL_ADDRESSES: &str = "ipaddresses.ipam.cluster.x-k8s.io";
/// How often the controller is killed.
const KILLS: u32 = 10;
/// So many kills fall into the installation; after them there is an upgrade to be done before each.
const KILLS_OF_INSTALLATION: u32 = 3;
const CONTROLLER: &str = "pgrep -f '^/var/lib/butler/butler controller'";
const HELM: &str = "/var/lib/butler/helm upgrade";

/// On a platform whose controllers are processes of the host: pods that are killed often are started later and later.
pub(crate) fn walk(management: &Cluster) {
    let known = management.kubectl(&["get", "addondefinitions", "-o", "name"]);
    for (addon, _) in ADDONS {
        assert!(known.contains(&format!("/{addon}\n")), "{known}");
    }
    let begun = Instant::now();
    management.apply(&cluster().to_string());
    controllers_are_killed(management);
    let ready = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    let words = ["get", "tenantcluster", NAME, "-n", NAMESPACE, "-o", ready];
    management.until("the tenant to be Ready", &words, |said| said == "True");
    addons_are_ready(management, ADDONS.len());
    println!("  healthy after {:.1} s", begun.elapsed().as_secs_f64());

    let folder = tempfile::tempdir().unwrap();
    let tenant = Tenant::serve(NAME, &Tenant::namespace_of(NAME), folder.path());
    // Names are resolved, among others.
    tenant.check_api();
    comes_from_the_pool(management, &tenant);
    until("figures about nodes", || {
        let said = tenant.cluster.try_kubectl(&["top", "nodes"], "")?;
        println!("{said}");
        Ok(())
    });
    a_claim_is_bound_and_keeps_what_is_written(&tenant.cluster);
    releases_are_deployed(&tenant.cluster);

    let manifests = ADDONS.map(|(release, namespace)| {
        helm(
            &tenant.cluster,
            &["get", "manifest", release, "-n", namespace],
        )
    });
    management.apply(&cluster_without().to_string());
    let gone = ["get", "tenantaddons", "-n", NAMESPACE, "-o", "name"];
    management.until("the addons to be gone", &gone, str::is_empty);
    nothing_is_left(&tenant.cluster, &manifests, folder.path());

    is_gone(management, "tenantcluster", NAME);
}

/// The sample gets a storage class from controllers in pods, as people have them.
pub(crate) fn sample_gets_storage(management: &Cluster) {
    let asked = json!({ "spec": { "addons": { "storage": {} } } }).to_string();
    let words = [
        "patch",
        "tenantcluster",
        "demo",
        "-n",
        NAMESPACE,
        "--type=merge",
    ];
    management.kubectl(&[&words[..], &["-p", &asked]].concat());
    addons_are_ready(management, 1);
}

fn cluster() -> Value {
    let addons = json!({ "storage": {}, "monitoring": { "provider": "metrics-server" } });
    let workers = json!({ "replicas": 1, "machineTemplate": { "cpu": 2, "memory": "2Gi" } });
    json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "TenantCluster",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "spec": {
            "kubernetesVersion": "v1.35.4",
            "providerConfigRef": { "name": "local" },
            "workers": workers,
            "addons": addons,
        },
    })
}

/// The same with its addons switched off, and its user's agreement to what goes with them.
fn cluster_without() -> Value {
    let mut cluster = cluster();
    let names = ADDONS.map(|(addon, _)| addon).join(",");
    cluster["metadata"]["annotations"] = json!({ "butler.butlerlabs.dev/remove-addons": names });
    for role in ["storage", "monitoring"] {
        cluster["spec"]["addons"][role]["enabled"] = json!(false);
    }
    cluster
}

/// The cluster with other values of its addons: an upgrade of each.
fn changed(round: u32) -> String {
    let values = json!({ "podAnnotations": { "example.com/round": round.to_string() } });
    let addons = json!({ "storage": { "values": values }, "monitoring": { "values": values } });
    json!({ "spec": { "addons": addons } }).to_string()
}

/// Every second time while a Helm is at work, otherwise whenever it happens to be.
fn controllers_are_killed(management: &Cluster) {
    let named = ["get", "tenantaddons", "-n", NAMESPACE, "-o", "name"];
    management.until("the first addon", &named, |said| !said.is_empty());
    let mut killed = String::new();
    for round in 1..=KILLS {
        let running = until("the controller to run again", || match output(CONTROLLER) {
            running if running.is_empty() || running == killed => Err(running),
            running => Ok(running),
        });
        if round > KILLS_OF_INSTALLATION {
            ask_for_an_upgrade(management, round);
        }
        let moment = Duration::from_millis(RandomState::new().build_hasher().finish() % 3000);
        let helm = if round % 2 == 0 {
            Some(when_helm_is_at_work(management, round))
        } else {
            std::thread::park_timeout(moment);
            helm_at_work()
        };
        run(&format!("kill -9 {running}"));
        println!("  kill {round}: process {running}, Helm at work: {helm:?}");
        killed = running;
    }
}

fn ask_for_an_upgrade(management: &Cluster, round: u32) {
    let patch = [
        "patch",
        "tenantcluster",
        NAME,
        "-n",
        NAMESPACE,
        "--type=merge",
    ];
    management.kubectl(&[&patch[..], &["-p", &changed(round)]].concat());
}

/// It takes some tenths of a second, so what is to be installed may have been before anybody looked: then there is
/// something to be upgraded.
fn when_helm_is_at_work(management: &Cluster, round: u32) -> String {
    let deadline = Instant::now() + Duration::from_mins(1);
    let mut patience = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if let Some(helm) = helm_at_work() {
            return helm;
        }
        if Instant::now() > patience {
            ask_for_an_upgrade(management, round + 100);
            patience = deadline;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    panic!("waited a minute for Helm to be at work")
}

/// What Helm is doing, by its arguments. Asking `pgrep` takes about as long as Helm does.
fn helm_at_work() -> Option<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|it| fs::read_to_string(it.path().join("cmdline")).ok());
    let mut lines = lines.map(|line| line.replace('\0', " "));
    let line = lines.find(|line| line.starts_with(HELM))?;
    Some(
        line.split(' ')
            .skip(1)
            .take(5)
            .collect::<Vec<_>>()
            .join(" "),
    )
}

/// So many, as they were asked for last.
fn addons_are_ready(management: &Cluster, count: usize) {
    let current = "jsonpath={range .items[*]}{.metadata.generation}={.status.observedGeneration} \
                   {.status.conditions[?(@.type==\"Ready\")].status} {.metadata.name}: {.status.message}\n{end}";
    let words = ["get", "tenantaddons", "-n", NAMESPACE, "-o", current];
    let all = |said: &str| {
        let is_current = |line: &str| {
            let generations = line.split(' ').next().and_then(|it| it.split_once('='));
            generations.is_some_and(|(asked, seen)| asked == seen) && line.contains(" True ")
        };
        said.lines().count() == count && said.lines().all(is_current)
    };
    management.until("the addons to be healthy", &words, all);
}

/// The address of a Service is one that the pool of load balancers gave.
fn comes_from_the_pool(management: &Cluster, tenant: &Tenant) {
    let given =
        "jsonpath={range .items[?(@.spec.poolRef.name==\"local-balancers\")]}{.spec.address} {end}";
    let given = management.kubectl(&["get", POOL_ADDRESSES, "-n", "butler-system", "-o", given]);
    let address = tenant.address.trim_end_matches(":80");
    assert!(
        given.split_whitespace().any(|it| it == address),
        "{address} is none of {given}"
    );
}

/// A volume outlives the pod that wrote to it.
fn a_claim_is_bound_and_keeps_what_is_written(cluster: &Cluster) {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "kept" },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "16Mi" } },
        },
    });
    cluster.apply(&claim.to_string());
    let shell = |pod: &str, line: &str| {
        cluster.apply(&user_of_the_claim(pod).to_string());
        let ready = ["wait", "pod", pod, "--for=condition=Ready", "--timeout=20s"];
        cluster.until("the pod with a volume", &ready, |_| true);
        cluster.kubectl(&["exec", pod, "--", "/bin/sh", "-c", line])
    };
    shell("writer", "echo carefully > /kept/word");
    cluster.kubectl(&["delete", "pod", "writer"]);
    let read = shell("reader", "read word < /kept/word; echo $word");
    assert_eq!(read, "carefully\n");
    let phase = "jsonpath={.status.phase} {.spec.storageClassName}";
    let bound = cluster.kubectl(&["get", "pvc", "kept", "-o", phase]);
    assert_eq!(bound, "Bound local-path");
    cluster.kubectl(&["delete", "pod", "reader"]);
    cluster.kubectl(&["delete", "pvc", "kept"]);
    let volumes = ["get", "persistentvolumes", "-o", "name"];
    cluster.until("the volume to be gone", &volumes, str::is_empty);
}

/// A shell that waits for words which never come.
fn user_of_the_claim(name: &str) -> Value {
    let (image, tag) = VOLUME_HELPER;
    let container = json!({
        "name": "shell", "image": format!("{image}:{tag}"), "command": ["/bin/sh"], "stdin": true,
        "volumeMounts": [{ "name": "kept", "mountPath": "/kept" }],
    });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "volumes": [{ "name": "kept", "persistentVolumeClaim": { "claimName": "kept" } }],
        },
    })
}

fn helm(cluster: &Cluster, arguments: &[&str]) -> String {
    let helm = Toolchain::locate().unwrap().binary("helm", None).unwrap();
    let mut command = Command::new(helm);
    command.args(arguments).env("KUBECONFIG", &cluster.0);
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "helm {arguments:?}: {said}");
    String::from_utf8(ended.stdout).unwrap()
}

/// As people ask, and no earlier revision was left half done.
fn releases_are_deployed(cluster: &Cluster) {
    println!("{}", helm(cluster, &["list", "--all-namespaces"]));
    let listed = helm(cluster, &["list", "--all-namespaces", "--output", "json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let mut releases: Vec<_> = listed
        .iter()
        .map(|it| [&it["name"], &it["namespace"], &it["status"]].map(|it| it.as_str().unwrap()))
        .collect();
    releases.sort_unstable();
    let wanted = ADDONS.map(|(release, namespace)| [release, namespace, "deployed"]);
    assert_eq!(releases, wanted);
    let states = "jsonpath={.items[*].metadata.labels.status}";
    let states = cluster.kubectl(&["get", "secrets", "-A", "-l", "owner=helm", "-o", states]);
    assert!(!states.contains("pending"), "{states}");
}

fn nothing_is_left(cluster: &Cluster, manifests: &[String], folder: &Path) {
    for manifest in manifests {
        let path = folder.join("manifest.yaml");
        fs::write(&path, manifest).unwrap();
        let path = path.display().to_string();
        let words = ["get", "-f", &path, "-o", "name", "--ignore-not-found"];
        cluster.until("objects of a release to be gone", &words, str::is_empty);
    }
    let namespaces = [
        "get",
        "namespaces",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ];
    let usual = "default guarded kube-node-lease kube-public kube-system";
    cluster.until("its namespace to be gone", &namespaces, |said| {
        said == usual
    });
    let kinds = ["api-resources", "--verbs=list", "-o", "name"];
    let kinds = cluster.until("every kind to be served", &kinds, |_| true);
    let kinds: Vec<_> = kinds
        .lines()
        .filter(|kind| !kind.starts_with("events"))
        .collect();
    let everything = [
        "get",
        &kinds.join(","),
        "-A",
        "-o",
        "name",
        "--ignore-not-found",
    ];
    cluster.until("nothing to be named after an addon", &everything, |said| {
        !said.contains("helm.release")
            && !ADDONS.iter().any(|(addon, _)| said.contains(addon))
            && !said.contains("local-path")
    });
}
