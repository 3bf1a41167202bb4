//! A management API server with Cluster API's kinds, Steward, and somebody who plays the rest.

use std::{path::PathBuf, sync::OnceLock, thread};

use butler_api::{controlplane::StewardControlPlane, steward::TenantControlPlane};
use butler_runtime::{
    clock::SystemClock,
    endpoints::Readiness,
    metrics::Metrics,
    task::{self, Task},
};
use butler_steward::{Reach, Settings, Surroundings};
use butler_testkit::{Namespace, Options, PATIENCE, Server, wait_for};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) const AGENT: &str = "steward-provider-test";

/// A server on which what has an owner goes with it.
pub(crate) async fn server() -> Server {
    Server::start(Options::default().with_controller_manager())
        .await
        .expect("an API server starts")
}

/// Steward as a future.
pub(crate) async fn work(client: Client) {
    let metrics = Metrics::default();
    let settings = Settings {
        default_store: "default".to_owned(),
        management_domain: "cluster.local".to_owned(),
        reach: Reach::Endpoint,
    };
    let surroundings = Surroundings::new(
        SystemClock::shared(),
        &metrics,
        Readiness::default(),
        settings,
    );
    butler_steward::run(client, surroundings, CancellationToken::new()).await;
}

/// Steward until dropped.
pub(crate) fn steward(server: &Server) -> Task {
    task::spawn("steward", work(server.client_called(AGENT)))
}

/// One server with one Steward for all tests that keep to their namespace.
pub(crate) fn shared() -> Server {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let (sender, receiver) = std::sync::mpsc::channel();
        // Every test has a runtime of its own, which ends with it.
        thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
            runtime.block_on(async {
                let server = Box::pin(server()).await;
                let _ = sender.send(server.folder().to_owned());
                work(server.client_called(AGENT)).await;
            });
        });
        receiver
            .recv()
            .expect("the server's thread tells where it is")
    });
    Server::connect(folder).expect("the server is there")
}

/// Objects of a kind that is known by name only.
pub(crate) fn objects(
    home: &Namespace,
    group: &str,
    version: &str,
    kind: &str,
) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk(&kind);
    Api::namespaced_with(home.server().client(), home.name(), &resource)
}

/// The Clusters of the namespace.
pub(crate) fn clusters(home: &Namespace) -> Api<DynamicObject> {
    objects(home, "cluster.x-k8s.io", "v1beta2", "Cluster")
}

/// A Cluster whose infrastructure is a `LocalCluster` of the same name.
pub(crate) async fn cluster(home: &Namespace, name: &str, plane: &str) -> Value {
    let infrastructure = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "LocalCluster",
        "metadata": {"name": name},
        "spec": {},
    });
    home.apply_yaml(&infrastructure.to_string()).await;
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {
            "clusterNetwork": {
                "apiServerPort": 40443,
                "serviceDomain": "sky.local",
                "services": {"cidrBlocks": ["10.10.0.0/16"]},
                "pods": {"cidrBlocks": ["10.20.0.0/16"]},
            },
            "controlPlaneRef": {
                "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "StewardControlPlane", "name": plane,
            },
            "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "LocalCluster", "name": name,
            },
        },
    });
    home.apply_yaml(&cluster.to_string()).await;
    let made = clusters(home)
        .get(name)
        .await
        .expect("the Cluster is there");
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": name,
        "uid": made.metadata.uid, "controller": true, "blockOwnerDeletion": true,
    })
}

/// A control plane with the owner that Cluster API would have set.
///
/// The `TenantControlPlane` gets the annotation that pauses its own controller: the test plays that one.
pub(crate) async fn control_plane(home: &Namespace, name: &str, owner: &Value) {
    let plane = json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1",
        "kind": "StewardControlPlane",
        "metadata": {
            "name": name,
            "ownerReferences": [owner],
            "annotations": {"steward.butlerlabs.dev/paused": ""},
        },
        "spec": {"version": "v1.35.4", "replicas": 2},
    });
    home.apply_yaml(&plane.to_string()).await;
}

/// The hosted control plane, once it is there.
pub(crate) async fn tenant(home: &Namespace, name: &str) -> TenantControlPlane {
    let tenants = home.api::<TenantControlPlane>();
    wait_for(&tenants, name, "the hosted control plane", PATIENCE, |_| {
        true
    })
    .await
}

/// A Cluster `sky` whose control plane `blue` serves.
pub(crate) async fn serving(home: &Namespace) -> StewardControlPlane {
    let owner = cluster(home, "sky", "blue").await;
    control_plane(home, "blue", &owner).await;
    tenant(home, "blue").await;
    serve(home, "blue", "10.0.0.7:40443").await;
    initialized(home, "blue").await
}

/// What the controller of hosted control planes leaves behind: Secrets, then a status.
pub(crate) async fn serve(home: &Namespace, name: &str, endpoint: &str) {
    secrets(home, name, "kubeconfig one").await;
    state(home, name, endpoint, "Ready", 2).await;
}

/// The Secrets of a hosted control plane.
pub(crate) async fn secrets(home: &Namespace, name: &str, kubeconfig: &str) {
    let administrators = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("{name}-admin-kubeconfig")},
        "stringData": {"admin.conf": kubeconfig},
    });
    let authority = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": format!("{name}-ca")},
        "stringData": {"ca.crt": "certificate", "ca.key": "key", "tls.crt": "certificate", "tls.key": "key"},
    });
    home.apply_yaml(&administrators.to_string()).await;
    home.apply_yaml(&authority.to_string()).await;
}

/// The status of a hosted control plane.
pub(crate) async fn state(home: &Namespace, name: &str, endpoint: &str, state: &str, pods: i32) {
    let furnished = json!({
        "type": "TenantReady", "status": "True", "reason": "Ready", "message": "played",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({"status": {
        "controlPlaneEndpoint": endpoint,
        "conditions": [furnished],
        "kubernetesResources": {
            "version": {"version": "v1.35.4", "status": state},
            "deployment": {
                "selector": format!("steward.butlerlabs.dev/name={name}"),
                "replicas": pods, "readyReplicas": pods, "availableReplicas": pods, "updatedReplicas": pods,
            },
        },
    }});
    report(home, name, &status).await;
}

/// Changes the status of a hosted control plane.
pub(crate) async fn report(home: &Namespace, name: &str, patch: &Value) {
    let tenants = home.api::<TenantControlPlane>();
    let params = PatchParams::default();
    tenants
        .patch_status(name, &params, &Patch::Merge(patch))
        .await
        .expect("the status is taken");
}

/// Waits until the control plane is as expected, seen as JSON.
pub(crate) async fn until(
    home: &Namespace,
    name: &str,
    what: &str,
    done: impl Fn(&Value) -> bool,
) -> Value {
    let planes = home.api::<StewardControlPlane>();
    let json = |plane: &StewardControlPlane| serde_json::to_value(plane).unwrap_or_default();
    let found = wait_for(&planes, name, what, PATIENCE, |plane| done(&json(plane))).await;
    json(&found)
}

/// Waits until the hosted control plane is as expected.
pub(crate) async fn tenant_until(
    home: &Namespace,
    name: &str,
    what: &str,
    done: impl Fn(&TenantControlPlane) -> bool,
) -> TenantControlPlane {
    let tenants = home.api::<TenantControlPlane>();
    wait_for(&tenants, name, what, PATIENCE, done).await
}

/// Pauses a Cluster, or lets it go on.
pub(crate) async fn pause(home: &Namespace, name: &str, paused: bool) {
    let patch = json!({"spec": {"paused": paused}});
    let params = PatchParams::default();
    clusters(home)
        .patch(name, &params, &Patch::Merge(&patch))
        .await
        .expect("the Cluster is patched");
}

/// Changes a control plane as a person would.
pub(crate) async fn change(home: &Namespace, name: &str, patch: &Value) {
    let planes = home.api::<StewardControlPlane>();
    let params = PatchParams::default();
    planes
        .patch(name, &params, &Patch::Merge(patch))
        .await
        .expect("the change is taken");
}

/// Waits until the control plane was initialized.
pub(crate) async fn initialized(home: &Namespace, name: &str) -> StewardControlPlane {
    let planes = home.api::<StewardControlPlane>();
    wait_for(&planes, name, "initialization", PATIENCE, |plane| {
        let status = plane.status.as_ref();
        let held = status.and_then(|status| status.initialization.as_ref());
        held.and_then(|held| held.control_plane_initialized) == Some(true)
    })
    .await
}
