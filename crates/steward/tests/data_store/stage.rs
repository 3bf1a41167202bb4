//! A management API server, real etcds, and Steward at the pace of a test.

use std::{fmt::Write as _, time::Duration};

use butler_api::steward::{DataStore, TenantControlPlane};
use butler_runtime::{
    clock::SystemClock,
    endpoints::Readiness,
    metrics::Metrics,
    task::{self, Task},
};
use butler_steward::{Pace, Reach, Settings, Surroundings};
use butler_testkit::{Namespace, Options, PATIENCE, Server, etcd::TlsEtcd, wait_for};
use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::raw::User;

pub(crate) const AGENT: &str = "steward-test";

/// Everything that is not a watch happens at once.
pub(crate) const FAST: Pace = Pace {
    look: Duration::from_millis(400),
    round: Duration::from_millis(600),
};

/// What is not a watch never happens in a test.
pub(crate) const SLOW: Pace = Pace {
    look: Duration::from_hours(1),
    round: Duration::from_hours(1),
};

/// Waits until Kubernetes has counted the pods of a control plane, none of which is ready, and that was reported.
pub(crate) async fn counted(home: &Namespace, name: &str) {
    let planes = home.api::<TenantControlPlane>();
    wait_for(
        &planes,
        name,
        "a pod that is not ready",
        PATIENCE,
        |plane| {
            let status = plane.status.clone().unwrap_or_default();
            let resources = status.kubernetes_resources.unwrap_or_default();
            let pods = resources.deployment.unwrap_or_default();
            (pods.updated_replicas, pods.unavailable_replicas) == (Some(1), Some(1))
        },
    )
    .await;
}

/// How many passes over stores ended well so far.
pub(crate) fn passes(metrics: &Metrics) -> u64 {
    const PASSES: &str = r#"butler_reconciles_total{controller="datastore",result="Ok"} "#;
    let text = metrics.encode().unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(PASSES));
    line.map_or(0, |count| count.parse().unwrap())
}

/// Asks until something holds that nobody tells of: figures, and what is in etcd.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn server() -> Server {
    Server::start(Options::default().with_controller_manager())
        .await
        .expect("an API server starts")
}

/// Steward as a future.
pub(crate) async fn work(client: Client, pace: Pace, metrics: Metrics) {
    let settings = Settings {
        default_store: "default".to_owned(),
        management_domain: "cluster.local".to_owned(),
        reach: Reach::Endpoint,
    };
    let surroundings = Surroundings {
        pace,
        ..Surroundings::new(
            SystemClock::shared(),
            &metrics,
            Readiness::default(),
            settings,
        )
    };
    butler_steward::run(client, surroundings, CancellationToken::new()).await;
}

/// Steward until dropped, with the metrics that it shows.
pub(crate) fn steward(server: &Server, pace: Pace) -> (Task, Metrics) {
    let metrics = Metrics::default();
    let work = work(server.client_called(AGENT), pace, metrics.clone());
    (task::spawn("steward", work), metrics)
}

pub(crate) fn stores(server: &Server) -> Api<DataStore> {
    Api::all(server.client())
}

/// A control plane that names its store.
pub(crate) fn control_plane(name: &str, store: &str) -> String {
    format!(
        "apiVersion: steward.butlerlabs.dev/v1alpha1
kind: TenantControlPlane
metadata: {{name: {name}}}
spec:
  dataStore: {store}
  controlPlane:
    deployment: {{replicas: 1}}
    service: {{serviceType: ClusterIP}}
  kubernetes: {{version: v1.35.4}}
"
    )
}

/// etcd's administrator.
pub(crate) fn root(etcd: &TlsEtcd) -> User {
    User::connect(&etcd.endpoint(), etcd.authority().0, etcd.client("root"))
}

/// Waits until a condition of a store has this status and reason.
pub(crate) async fn store_is(
    server: &Server,
    name: &str,
    condition: &str,
    status: &str,
    reason: &str,
) -> Condition {
    let what = format!("{condition}={status} because of {reason}");
    let stores = stores(server);
    let found = wait_for(&stores, name, &what, PATIENCE, |store| {
        let status_of = store.status.clone().unwrap_or_default();
        holds(&status_of.conditions, condition, status, reason).is_some()
    });
    let held = found.await.status.unwrap().conditions;
    holds(&held, condition, status, reason).unwrap()
}

/// Waits until a condition of a control plane has this status and reason.
pub(crate) async fn plane_is(
    home: &Namespace,
    name: &str,
    condition: &str,
    status: &str,
    reason: &str,
) -> (TenantControlPlane, Condition) {
    let what = format!("{condition}={status} because of {reason}");
    let planes = home.api::<TenantControlPlane>();
    let found = wait_for(&planes, name, &what, PATIENCE, |plane| {
        let status_of = plane.status.clone().unwrap_or_default();
        holds(&status_of.conditions, condition, status, reason).is_some()
    });
    let found = Box::pin(found).await;
    let held = found.status.clone().unwrap().conditions;
    (found, holds(&held, condition, status, reason).unwrap())
}

fn holds(held: &[Condition], type_: &str, status: &str, reason: &str) -> Option<Condition> {
    let matches =
        |held: &&Condition| held.type_ == type_ && held.status == status && held.reason == reason;
    held.iter().find(matches).cloned()
}

/// What a Secret of a store holds.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) ca: (String, String),
    pub(crate) client: (String, String),
}

impl Keys {
    /// What lets the administrator of an etcd in.
    pub(crate) fn of(etcd: &TlsEtcd) -> Self {
        let (certificate, key) = etcd.authority();
        Self {
            ca: (certificate.to_owned(), key.to_owned()),
            client: etcd.client("root"),
        }
    }

    /// Writes the Secret of this name.
    pub(crate) async fn write(&self, home: &Namespace, name: &str) {
        let fields = [
            ("ca.crt", &self.ca.0),
            ("ca.key", &self.ca.1),
            ("tls.crt", &self.client.0),
            ("tls.key", &self.client.1),
        ];
        let mut data = String::new();
        for (field, content) in fields {
            let content = serde_json::to_value(ByteString(content.as_bytes().to_vec())).unwrap();
            write!(data, "{field:?}: {content}, ").unwrap();
        }
        home.apply_yaml(&format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}, data: {{{data}}}}}"
        ))
        .await;
        let _: Secret = home.get(name).await;
    }
}

/// A `DataStore` whose secrets are in a Secret.
pub(crate) fn store(name: &str, endpoints: &[String], home: &Namespace, secret: &str) -> Value {
    let from = |key: &str| json!({"secretReference": {"namespace": home.name(), "name": secret, "keyPath": key}});
    json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1",
        "kind": "DataStore",
        "metadata": {"name": name},
        "spec": {
            "driver": "etcd",
            "endpoints": endpoints,
            "tlsConfig": {
                "certificateAuthority": {"certificate": from("ca.crt"), "privateKey": from("ca.key")},
                "clientCertificate": {"certificate": from("tls.crt"), "privateKey": from("tls.key")},
            },
        },
    })
}
