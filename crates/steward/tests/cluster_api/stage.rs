//! Management clusters with Steward, a real etcd and pods that run; only the infrastructure is played.

use std::{fs, time::Duration};

use butler_api::infrastructure::LocalCluster;
use butler_runtime::{
    clock::SystemClock,
    endpoints::Readiness,
    metrics::Metrics,
    task::{self, Task},
};
use butler_steward::{Reach, Settings, Surroundings};
use butler_testkit::{Namespace, Options, Server, etcd::TlsEtcd, wait_for};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) const AGENT: &str = "steward-cluster-api-test";
/// A cold start of three components on a busy machine, and Cluster API's own waits.
pub(crate) const SOON: Duration = Duration::from_mins(3);

/// A server on which Deployments roll out and what has an owner goes with it.
pub(crate) async fn server() -> Server {
    Server::start(Options::default().with_controller_manager())
        .await
        .expect("an API server starts")
}

/// Steward with this etcd as its default store, until dropped.
pub(crate) async fn steward(server: &Server, etcd: &TlsEtcd) -> Task {
    let store = etcd.data_store("default");
    server.apply_yaml(&store.to_string()).await;
    let settings = Settings {
        default_store: "default".to_owned(),
        management_domain: "cluster.local".to_owned(),
        reach: Reach::Endpoint,
    };
    let surroundings = Surroundings::new(
        SystemClock::shared(),
        &Metrics::default(),
        Readiness::default(),
        settings,
    );
    let work = butler_steward::run(
        server.client_called(AGENT),
        surroundings,
        CancellationToken::new(),
    );
    task::spawn("steward", work)
}

/// Somebody who says of every `LocalCluster` that it stands, until dropped.
pub(crate) fn infrastructure(client: Client) -> Task {
    task::spawn("infrastructure", async move {
        let all: Api<LocalCluster> = Api::all(client.clone());
        let changes = watcher(all, watcher::Config::default()).default_backoff();
        let mut changes = std::pin::pin!(changes.applied_objects());
        while let Some(change) = changes.next().await {
            let Ok(cluster) = change else { continue };
            let namespace = cluster.namespace().unwrap_or_default();
            let api: Api<LocalCluster> = Api::namespaced(client.clone(), &namespace);
            let stands = json!({"status": {"initialization": {"provisioned": true}}});
            let params = PatchParams::default();
            // It may be going just now; the same again changes nothing and brings no event.
            let _ = api
                .patch_status(&cluster.name_any(), &params, &Patch::Merge(&stands))
                .await;
        }
    })
}

/// The Clusters of the namespace.
pub(crate) fn clusters(home: &Namespace) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
    Api::namespaced_with(
        home.server().client(),
        home.name(),
        &ApiResource::from_gvk(&kind),
    )
}

/// Waits until the Cluster is as expected.
pub(crate) async fn cluster_until(
    home: &Namespace,
    name: &str,
    what: &str,
    done: impl Fn(&Value) -> bool,
) -> Value {
    let found = wait_for(&clusters(home), name, what, SOON, |cluster| {
        done(&cluster.data)
    })
    .await;
    found.data
}

/// Whether the object has this condition.
pub(crate) fn holds(object: &Value, type_: &str) -> bool {
    let held = object["status"]["conditions"].as_array();
    let mut held = held.into_iter().flatten();
    held.any(|held| held["type"] == type_ && held["status"] == "True")
}

/// A Cluster with a control plane and infrastructure of its name, as a person would write them.
pub(crate) fn cluster(name: &str, version: &str) -> String {
    format!(
        "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {{name: {name}}}
spec:
  controlPlaneRef: {{apiGroup: controlplane.cluster.x-k8s.io, kind: StewardControlPlane, name: {name}}}
  infrastructureRef: {{apiGroup: infrastructure.cluster.x-k8s.io, kind: LocalCluster, name: {name}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: LocalCluster
metadata: {{name: {name}}}
spec: {{}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: StewardControlPlane
metadata: {{name: {name}}}
spec:
  version: {version}
  replicas: 1
  addons: {{coreDNS: {{}}}}
"
    )
}

/// Runs the real kubectl with the kubeconfig that Cluster API gives to people.
pub(crate) async fn kubectl(
    server: &Server,
    namespace: &str,
    cluster: &str,
    arguments: &[&str],
) -> String {
    let secrets: Api<Secret> = Api::namespaced(server.client(), namespace);
    let secret = secrets.get(&format!("{cluster}-kubeconfig")).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    fs::write(&file, &secret.data.unwrap()["value"].0).unwrap();
    let kubeconfig = format!("--kubeconfig={}", file.display());
    server
        .kubectl(&[&[kubeconfig.as_str()], arguments].concat())
        .await
}
