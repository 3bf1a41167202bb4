//! Control planes that serve: real API servers, controller managers and schedulers in pods, reached through a
//! load balancer with the kubeconfig that people get.

use std::{fs, process::Output, time::Duration};

use butler_api::steward::TenantControlPlane;
use butler_runtime::task::Task;
use butler_steward::{
    names,
    workload::state::{Progress, Rollout},
};
use butler_testkit::{
    Namespace, PATIENCE, Server,
    etcd::TlsEtcd,
    pods::{PodOptions, Pods},
    wait_for,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace as KubeNamespace, Secret},
    events::v1::Event,
};
use kube::{
    Api, Client, Config,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::stage;

/// A cold start of three components on a busy machine.
pub(crate) const SOON: Duration = Duration::from_mins(2);

pub(crate) struct Platform {
    pub(crate) server: Server,
    pub(crate) home: Namespace,
    pub(crate) pods: Pods,
    _steward: Task,
    pub(crate) etcd: TlsEtcd,
}

async fn platform() -> Platform {
    platform_with(PodOptions::default()).await
}

/// A platform whose pods may reach more than the store.
pub(crate) async fn platform_with(options: PodOptions) -> Platform {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    let pods = Pods::start(&server, options.reach(etcd.port()))
        .await
        .unwrap();
    let home = server.namespace("tenants").await;
    let steward = stage::steward(&server);
    stage::store(&server, "default", &etcd).await;
    Platform {
        server,
        home,
        pods,
        _steward: steward,
        etcd,
    }
}

/// A platform with two more stores of one authority, `first` and `second`, which its pods may reach.
pub(crate) async fn platform_with_two_stores() -> (Platform, [TlsEtcd; 2]) {
    let first = TlsEtcd::start().await.unwrap();
    let second = first.start_beside().await.unwrap();
    // The ports are known before pods are: they may reach no others.
    let options = PodOptions::default()
        .reach(first.port())
        .reach(second.port());
    let platform = platform_with(options).await;
    stage::store(&platform.server, "first", &first).await;
    stage::store(&platform.server, "second", &second).await;
    (platform, [first, second])
}

pub(crate) async fn is_ready(home: &Namespace, name: &str) -> TenantControlPlane {
    let planes = home.api::<TenantControlPlane>();
    wait_for(&planes, name, "condition Ready=True", SOON, |plane| {
        let conditions = plane.status.iter().flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .any(|held| held.type_ == "Ready" && held.status == "True")
    })
    .await
}

/// Runs the real kubectl with the kubeconfig that people get.
pub(crate) async fn kubectl(platform: &Platform, name: &str, arguments: &[&str]) -> String {
    let output = try_kubectl(platform, name, arguments, "").await;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The same, for what may be refused.
pub(crate) async fn try_kubectl(
    platform: &Platform,
    name: &str,
    arguments: &[&str],
    input: &str,
) -> Output {
    let secret: Secret = platform.home.get(&format!("{name}-admin-kubeconfig")).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("admin.conf");
    fs::write(&file, &secret.data.unwrap()["admin.conf"].0).unwrap();
    let kubeconfig = format!("--kubeconfig={}", file.display());
    let arguments = [&[kubeconfig.as_str()], arguments].concat();
    platform.server.try_kubectl(&arguments, input).await
}

#[tokio::test]
async fn a_control_plane_serves_its_people_and_tells_nodes_how_to_join() {
    let platform = platform().await;
    platform
        .home
        .apply_yaml(&stage::control_plane(
            "blue",
            "addons: {coreDNS: {}, kubeProxy: {}}",
        ))
        .await;
    let plane = is_ready(&platform.home, "blue").await;
    let status = plane.status.unwrap();
    let resources = status.kubernetes_resources.unwrap();
    assert_eq!(
        resources.version.unwrap().version.as_deref(),
        Some("v1.35.4")
    );
    let addons = serde_json::to_value(status.addons).unwrap();
    let told = json!({
        "coreDNS": {"enabled": true},
        "kubeProxy": {"enabled": true},
        "konnectivity": {"enabled": false},
    });
    assert_eq!(addons, told);

    assert!(
        kubectl(&platform, "blue", &["version"])
            .await
            .contains("Server Version: v1.35.4")
    );
    let left = [
        "get",
        "-o",
        "name",
        "-A",
        "configmaps,deployments,daemonsets",
    ];
    let left = kubectl(&platform, "blue", &left).await;
    for object in [
        "configmap/kubeadm-config",
        "configmap/kubelet-config",
        "configmap/cluster-info",
        "deployment.apps/coredns",
        "daemonset.apps/kube-proxy",
    ] {
        assert!(left.contains(object), "{object} is missing in\n{left}");
    }
    // Its own controllers are at work: a namespace gets its default service account.
    kubectl(&platform, "blue", &["create", "namespace", "mine"]).await;
    let wait = [
        "wait",
        "serviceaccount/default",
        "-n",
        "mine",
        "--for=create",
        "--timeout=60s",
    ];
    kubectl(&platform, "blue", &wait).await;
}

#[tokio::test]
async fn two_tenants_in_one_store_know_nothing_of_each_other_and_one_outlives_the_other() {
    let platform = platform().await;
    for name in ["blue", "green"] {
        platform
            .home
            .apply_yaml(&stage::control_plane(name, ""))
            .await;
    }
    for name in ["blue", "green"] {
        is_ready(&platform.home, name).await;
    }
    kubectl(&platform, "blue", &["create", "namespace", "only-blue"]).await;
    let green = kubectl(&platform, "green", &["get", "namespaces", "-o", "name"]).await;
    assert!(!green.contains("only-blue"), "{green}");
    let delete = [
        "delete",
        "tenantcontrolplane",
        "blue",
        "-n",
        platform.home.name(),
        "--timeout=90s",
    ];
    platform.server.kubectl(&delete).await;
    let still = kubectl(&platform, "green", &["get", "namespaces", "-o", "name"]).await;
    assert_eq!(still, green, "the other tenant is as it was");
}

#[tokio::test]
async fn a_control_plane_sleeps_and_wakes_with_its_data() {
    let platform = platform().await;
    platform
        .home
        .apply_yaml(&stage::control_plane("blue", ""))
        .await;
    is_ready(&platform.home, "blue").await;
    kubectl(&platform, "blue", &["create", "namespace", "kept"]).await;
    let scale = |replicas: &'static str| {
        let home = platform.home.name().to_owned();
        let server = platform.server.clone();
        async move {
            server
                .kubectl(&["scale", "tcp/blue", "-n", &home, "--replicas", replicas])
                .await;
        }
    };
    scale("0").await;
    let planes = platform.home.api::<TenantControlPlane>();
    wait_for(&planes, "blue", "state Sleeping", PATIENCE, |plane| {
        let resources = plane
            .status
            .as_ref()
            .and_then(|status| status.kubernetes_resources.as_ref());
        let version = resources.and_then(|resources| resources.version.as_ref());
        version.and_then(|version| version.status)
            == Some(butler_api::steward::tenant_control_plane::status::State::Sleeping)
    })
    .await;
    for condition in ["WorkloadReady", "Ready"] {
        stage::refused(&platform.home, "blue", condition, "Sleeping").await;
    }
    let events = platform.home.api::<Event>();
    let events = events.list(&ListParams::default()).await.unwrap();
    let about = |event: &&Event| {
        let regarding = event.regarding.as_ref();
        regarding.and_then(|regarding| regarding.kind.as_deref()) == Some("TenantControlPlane")
    };
    let warnings = events.iter().filter(about);
    let warnings: Vec<_> = warnings
        .filter(|event| event.type_.as_deref() == Some("Warning"))
        .collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
    scale("1").await;
    is_ready(&platform.home, "blue").await;
    let names = kubectl(&platform, "blue", &["get", "namespaces", "-o", "name"]).await;
    assert!(names.contains("namespace/kept"), "{names}");
}

/// Asks the API server ten times a second, on a new connection each time, until told to stop.
struct Prober {
    stop: CancellationToken,
    work: Task<Probes>,
}

#[derive(Debug, Default)]
struct Probes {
    answered: usize,
    failed: Vec<String>,
}

impl Prober {
    /// With the kubeconfig that people have now, and keep.
    async fn start(platform: &Platform, name: &str) -> Self {
        let secret: Secret = platform.home.get(&format!("{name}-admin-kubeconfig")).await;
        let file = String::from_utf8(secret.data.unwrap()["admin.conf"].0.clone()).unwrap();
        let file = Kubeconfig::from_yaml(&file).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(file, &options)
            .await
            .unwrap();
        config.read_timeout = Some(Duration::from_secs(5));
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let work = butler_runtime::task::spawn("prober", async move {
            let mut probes = Probes::default();
            let mut tick = tokio::time::interval(Duration::from_millis(100));
            while !stopped.is_cancelled() {
                tick.tick().await;
                match ask(config.clone()).await {
                    Ok(()) => probes.answered += 1,
                    Err(error) => probes.failed.push(error),
                }
            }
            probes
        });
        Self { stop, work }
    }

    async fn end(self) -> Probes {
        self.stop.cancel();
        self.work.join().await.expect("the prober ends in order")
    }
}

/// One request on a connection of its own, whose answer comes from the store. The tenant's authority must have signed
/// what the server shows.
async fn ask(config: Config) -> Result<(), String> {
    let client = Client::try_from(config).map_err(|error| error.to_string())?;
    let namespaces: Api<KubeNamespace> = Api::all(client);
    let answer = namespaces.get("kube-system").await;
    answer.map(drop).map_err(|error| format!("{error:?}"))
}

/// Waits until pods with another serving certificate have replaced all others.
async fn rolled(home: &Namespace, before: &Deployment) {
    let key = format!("{}api-server-certificate", names::CONTENT);
    let mark = |deployment: &Deployment| {
        let pods = deployment.spec.as_ref()?.template.metadata.as_ref()?;
        pods.annotations.as_ref()?.get(&key).cloned()
    };
    let old = mark(before).expect("the pods say what they mount");
    let what = format!("a complete rollout with another {key}");
    wait_for(
        &home.api::<Deployment>(),
        "blue",
        &what,
        SOON,
        |deployment| {
            mark(deployment).is_some_and(|new| new != old)
                && Rollout::of(deployment).progress == Progress::Complete
        },
    )
    .await;
}

#[tokio::test]
async fn an_upgrade_a_renewal_and_another_endpoint_fail_no_request() {
    let platform = platform().await;
    let old = stage::control_plane("blue", "").replace("v1.35.4", "v1.34.4");
    platform.home.apply_yaml(&old).await;
    is_ready(&platform.home, "blue").await;
    let asking = Prober::start(&platform, "blue").await;

    platform
        .home
        .apply_yaml(&stage::control_plane("blue", ""))
        .await;
    installed(&platform.home, "v1.35.4").await;

    // A Secret that asks for it is renewed, and the pods that show it are replaced.
    let before: Deployment = platform.home.get("blue").await;
    let rotate = [
        "annotate",
        "secret",
        "blue-api-server-certificate",
        "-n",
        platform.home.name(),
        "certs.steward.butlerlabs.dev/rotate=",
    ];
    platform.server.kubectl(&rotate).await;
    rolled(&platform.home, &before).await;

    // Another endpoint: certificates, kubeconfigs and pods follow, and who still uses the old one is served.
    let before: Deployment = platform.home.get("blue").await;
    let elsewhere = "networkProfile: {address: 127.9.9.9, certSANs: [blue.example]}";
    platform
        .home
        .apply_yaml(&stage::control_plane("blue", elsewhere))
        .await;
    rolled(&platform.home, &before).await;
    let secret: Secret = platform.home.get("blue-admin-kubeconfig").await;
    let kubeconfig = String::from_utf8(secret.data.unwrap()["admin.conf"].0.clone()).unwrap();
    assert!(
        kubeconfig.contains("https://127.9.9.9:6443"),
        "the kubeconfig leads to the new endpoint"
    );

    let probes = asking.end().await;
    println!("{} answered", probes.answered);
    // Three rollouts take far longer than this many beats.
    assert!(probes.answered >= 100, "{probes:?}");
    assert!(
        probes.failed.is_empty(),
        "{} of {} failed: {:#?}",
        probes.failed.len(),
        probes.answered,
        probes.failed
    );
}

#[tokio::test]
async fn a_secret_edited_to_garbage_is_put_right_and_the_control_plane_goes_on() {
    let platform = platform().await;
    platform
        .home
        .apply_yaml(&stage::control_plane("blue", ""))
        .await;
    is_ready(&platform.home, "blue").await;
    let name = "blue-api-server-certificate";
    let garbage = r#"{"data":{"apiserver.crt":"Z2FyYmFnZQ=="}}"#;
    let home = platform.home.name();
    platform
        .server
        .kubectl(&["patch", "secret", name, "-n", home, "-p", garbage])
        .await;
    let secrets = platform.home.api::<Secret>();
    wait_for(&secrets, name, "a certificate again", SOON, |secret| {
        let files = secret.data.as_ref();
        files.is_some_and(|files| files["apiserver.crt"].0.starts_with(b"-----BEGIN"))
    })
    .await;
    is_ready(&platform.home, "blue").await;
    kubectl(&platform, "blue", &["get", "namespaces"]).await;
}

pub(crate) async fn installed(home: &Namespace, version: &str) {
    let planes = home.api::<TenantControlPlane>();
    wait_for(
        &planes,
        "blue",
        &format!("version {version}"),
        SOON,
        |plane| {
            let resources = plane
                .status
                .as_ref()
                .and_then(|status| status.kubernetes_resources.as_ref());
            let held = resources.and_then(|resources| resources.version.as_ref());
            held.and_then(|held| held.version.as_deref()) == Some(version)
        },
    )
    .await;
}
