//! Says what Steward, Cluster API and a provider would say about a cluster that works, in two acts: control planes serve
//! at once, and machines, which take longer to start in life as well, come when they are told to.

use anyhow::Result;
use butler_runtime::{
    brief,
    task::{self, Task},
};
use futures::StreamExt as _;
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind, Request},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};

use super::super::crowd::AT_ONCE;

/// The first act, until dropped.
pub(super) fn serve(client: &Client) -> Result<[Task; 2]> {
    let act = |kind| {
        let act = play(client.clone(), super::resource(kind)?);
        Ok::<_, anyhow::Error>(task::spawn("driver", act))
    };
    Ok([act("StewardControlPlane")?, act("Cluster")?])
}

/// The second act, until dropped.
pub(super) fn join(client: &Client) -> Result<Task> {
    let act = play(client.clone(), super::resource("MachineDeployment")?);
    Ok(task::spawn("driver", act))
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
    let namespace = object.namespace().unwrap_or_default();
    let told = async {
        if resource.kind == "MachineDeployment" {
            make_machine(client, &namespace, &object).await?;
        }
        tell(
            client,
            resource,
            &object,
            status(&resource.kind, &object.data["spec"]),
        )
        .await
    };
    if let Err(error) = told.await {
        eprintln!("could not play {namespace}: {error}");
    }
}

async fn tell(
    client: &Client,
    resource: &ApiResource,
    object: &DynamicObject,
    status: Value,
) -> kube::Result<()> {
    let place = DynamicObject::url_path(resource, object.namespace().as_deref());
    let (name, change) = (object.name_any(), json!({"status": status}));
    let (params, change) = (PatchParams::default(), Patch::Merge(&change));
    let request = Request::new(place).patch_subresource("status", &name, &params, &change);
    let request = request.map_err(kube::Error::BuildRequest)?;
    brief::send(client, request).await.map(drop)
}

/// The one machine of a pool, which has joined.
async fn make_machine(client: &Client, namespace: &str, pool: &DynamicObject) -> kube::Result<()> {
    let template = &pool.data["spec"]["template"];
    let machine = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Machine");
    let resource = ApiResource::from_gvk(&machine);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let machine = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {"name": pool.name_any(), "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    });
    let machine = serde_json::from_value(machine).map_err(kube::Error::SerdeError)?;
    let made = api.create(&PostParams::default(), &machine).await?;
    let joined = json!({"nodeRef": {"name": pool.name_any()}});
    tell(client, &resource, &made, joined).await
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
