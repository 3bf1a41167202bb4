//! Says what Steward, Cluster API and a provider would say about a cluster that works.

use butler_runtime::task::{self, Task};
use futures::StreamExt as _;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
    core::ApiResource,
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};

use super::super::crowd::AT_ONCE;

/// Plays until dropped.
pub(super) fn start(client: &Client) -> Vec<Task> {
    let kinds = ["StewardControlPlane", "Cluster", "MachineDeployment"];
    let resources = kinds.map(|kind| super::resource(kind).expect("a child's kind"));
    let play = |resource| task::spawn("driver", play(client.clone(), resource));
    resources.map(play).into()
}

async fn play(client: Client, resource: ApiResource) {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    watcher(api, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .filter_map(|object| std::future::ready(object.ok()))
        .map(|object| report(&client, &resource, object))
        .buffer_unordered(AT_ONCE)
        .for_each(std::future::ready)
        .await;
}

async fn report(client: &Client, resource: &ApiResource, object: DynamicObject) {
    if !object.data["status"].is_null() {
        return;
    }
    let status = status(&resource.kind, &object.data["spec"]);
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, resource);
    let (name, parameters) = (object.name_any(), PatchParams::default());
    let change = json!({"status": status});
    let sent = api
        .patch_status(&name, &parameters, &Patch::Merge(&change))
        .await;
    if let Err(error) = sent {
        eprintln!("could not report about {name}: {error}");
    }
}

fn status(kind: &str, spec: &Value) -> Value {
    match kind {
        "StewardControlPlane" => json!({
            "version": spec["version"],
            "initialization": {"controlPlaneInitialized": true},
            "conditions": [{
                "type": "Available", "status": "True", "reason": "Played", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        }),
        "Cluster" => json!({"initialization": {"infrastructureProvisioned": true}}),
        _ => json!({
            "observedGeneration": 1,
            "replicas": spec["replicas"], "upToDateReplicas": spec["replicas"],
            "readyReplicas": spec["replicas"], "availableReplicas": spec["replicas"],
        }),
    }
}
