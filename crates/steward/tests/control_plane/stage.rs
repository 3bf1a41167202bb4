//! A management API server, a real etcd with TLS and authentication, and Steward.

use std::time::Duration;

use butler_api::steward::TenantControlPlane;
use butler_runtime::{
    clock::SystemClock,
    endpoints::Readiness,
    metrics::Metrics,
    task::{self, Task},
};
use butler_steward::{Reach, Settings, Surroundings};
use butler_testkit::{Namespace, Server, etcd::TlsEtcd, wait_for};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub(crate) const AGENT: &str = "steward-test";

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

/// A store of this name that is the given etcd.
pub(crate) async fn store(server: &Server, name: &str, etcd: &TlsEtcd) {
    server.apply_yaml(&etcd.data_store(name).to_string()).await;
}

/// A control plane as a person would write it.
pub(crate) fn control_plane(name: &str, extra: &str) -> String {
    format!(
        "apiVersion: steward.butlerlabs.dev/v1alpha1
kind: TenantControlPlane
metadata: {{name: {name}}}
spec:
  controlPlane:
    deployment: {{replicas: 1}}
    service: {{serviceType: LoadBalancer}}
  kubernetes: {{version: v1.35.4}}
  {extra}
"
    )
}

/// The same, with more settings of its Kubernetes, such as `encryption: {}`.
pub(crate) fn with_kubernetes(name: &str, settings: &str) -> String {
    let version = "version: v1.35.4";
    control_plane(name, "").replace(version, &format!("{version}, {settings}"))
}

/// Waits until a condition does not hold for this reason; its message.
pub(crate) async fn refused(home: &Namespace, name: &str, condition: &str, reason: &str) -> String {
    let planes = home.api::<TenantControlPlane>();
    let find = |plane: &TenantControlPlane| {
        let conditions = plane.status.iter().flat_map(|status| &status.conditions);
        let mut found = conditions.into_iter().filter(|held| {
            held.type_ == condition && held.status == "False" && held.reason == reason
        });
        found.next().map(|held| held.message.clone())
    };
    let what = format!("{condition}=False for {reason}");
    let patience = Duration::from_mins(2);
    let plane = wait_for(&planes, name, &what, patience, |plane| {
        find(plane).is_some()
    })
    .await;
    find(&plane).unwrap_or_default()
}

/// What a load balancer would write.
pub(crate) async fn give_address(home: &Namespace, name: &str, address: &str) {
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
    let services = home.api::<Service>();
    let params = PatchParams::default();
    services
        .patch_status(name, &params, &Patch::Merge(&status))
        .await
        .unwrap();
}
