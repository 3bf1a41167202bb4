//! What is planned for local machines is accepted by a real API server with the real definitions.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod common;

use butler_capi::{Object, Plan, plan};
use butler_testkit::Server;
use common::{now, observed, spec};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{GroupVersionKind, TypeMeta},
    discovery::{self, Scope},
};
use serde_json::{Value, json};

/// Applies an object as the controller does: with every field checked against its definition.
async fn apply(client: &Client, object: &Object, dry_run: bool) -> DynamicObject {
    let body = object.to_value();
    let id = object.id();
    let types = TypeMeta {
        api_version: id.api_version.clone(),
        kind: id.kind.clone(),
    };
    let kind = GroupVersionKind::try_from(&types).unwrap();
    let (resource, capabilities) = discovery::pinned_kind(client, &kind).await.unwrap();
    let api: Api<DynamicObject> = match (&capabilities.scope, &object.metadata().namespace) {
        (Scope::Namespaced, Some(namespace)) => {
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
        _ => Api::all_with(client.clone(), &resource),
    };
    let mut params = PatchParams::apply("butler").force().validation_strict();
    params.dry_run = dry_run;
    let applied = api.patch(&id.name, &params, &Patch::Apply(&body)).await;
    applied.unwrap_or_else(|error| panic!("{id} was refused: {error}\n{body:#}"))
}

/// Applies a plan: the namespace for real, since nothing can be tried in one that is not there.
async fn try_out(client: &Client, plan: &Plan) {
    for object in &plan.objects {
        let is_namespace = matches!(object, Object::Namespace(_));
        let answer = apply(client, object, !is_namespace).await;
        // A field that the definition does not know would have been dropped without a word.
        let answer = serde_json::to_value(&answer).unwrap();
        assert_kept(
            &object.id().to_string(),
            &object.to_value()["spec"],
            &answer["spec"],
        );
    }
}

/// Everything that was sent is in the answer.
fn assert_kept(path: &str, sent: &Value, answer: &Value) {
    match (sent, answer) {
        // Nothing was sent, as in a namespace without a spec.
        (Value::Null, _) => {}
        (Value::Object(sent), Value::Object(answer)) => {
            for (key, value) in sent {
                let path = format!("{path}.{key}");
                assert_kept(&path, value, answer.get(key).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(sent), Value::Array(answer)) => {
            assert_eq!(sent.len(), answer.len(), "{path}");
            for (index, (sent, answer)) in sent.iter().zip(answer).enumerate() {
                assert_kept(&format!("{path}[{index}]"), sent, answer);
            }
        }
        (sent, answer) => assert_eq!(sent, answer, "{path}"),
    }
}

#[tokio::test]
async fn a_local_cluster_is_accepted_as_it_is_planned() {
    let server = Server::shared().await;
    let plan = plan(&spec("local", &json!({})), &observed(), now());
    try_out(&server.client(), &plan).await;
}

#[tokio::test]
async fn a_local_cluster_with_everything_said_is_accepted() {
    let server = Server::shared().await;
    let everything = json!({
        "workers": {"replicas": 0},
        "controlPlane": {
            "replicas": 3, "certSANs": ["api.example.com"], "dataStoreRef": {"name": "fast"}, "serviceType": "NodePort",
            "resources": {"apiServer": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}},
        },
        "networking": {"podCIDR": "fd00:244::/56", "serviceCIDR": "fd00:96::/112", "clusterDomain": "k8s.example.internal"},
        "workerPools": [
            {"name": "fixed", "replicas": 2, "zone": "here", "drainTimeout": "5m", "autoRepair": false,
             "labels": {"tier": "web", "node-role.kubernetes.io/web": ""},
             "taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}],
             "rollout": {"maxSurge": 0, "maxUnavailable": 2}},
            {"name": "elastic", "minReplicas": 1, "maxReplicas": 5},
        ],
        "nodeSettings": {
            "registryMirrors": [{"registry": "docker.io", "endpoints": ["http://10.0.0.9:5000"]}],
            "kubeletArgs": {"max-pods": "50"},
        },
    });
    let plan = plan(&spec("local", &everything), &observed(), now());
    try_out(&server.client(), &plan).await;
}

#[tokio::test]
async fn what_rocky_machines_are_told_is_accepted_with_everything_said() {
    let server = Server::shared().await;
    let everything = json!({
        "timeServers": ["time.example.com"],
        "workers": {
            "replicas": 1,
            "labels": {"tier": "web"},
            "taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}],
            "machineTemplate": {"os": {"sshAuthorizedKey": "ssh-ed25519 AAAAC3Nz pool@example.com"}},
        },
        "nodeSettings": {
            "registryMirrors": [{"registry": "docker.io", "endpoints": ["https://mirror.example.com"]}],
            "proxy": {"http": "http://proxy.example.com:3128"},
            "trustedCAs": [common::AUTHORITY],
            "kubeletArgs": {"max-pods": "200"},
        },
    });
    let planned = plan(&spec("vsphere", &everything), &observed(), now());
    let known = planned
        .objects
        .iter()
        .filter(|object| !matches!(object, Object::Infrastructure(_)));
    let known = Plan {
        objects: known.cloned().collect(),
        ..planned.clone()
    };
    assert!(known.objects.len() >= 6, "{:?}", known.objects);
    try_out(&server.client(), &known).await;
}
