//! Plays Steward, Cluster API and an infrastructure provider: whatever is asked for is there a moment later.

use std::time::Duration;

use butler_runtime::task::{self, Task};
use butler_testkit::{PATIENCE, Server};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, NamespaceSpec};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};

const KINDS: [&str; 4] = [
    "StewardControlPlane",
    "Cluster",
    "MachineDeployment",
    "Machine",
];

/// Annotation of a control plane whose pods do not come back.
const DEAD: &str = "example.com/dead";

/// A release that the provider has no image of.
pub(crate) const WITHOUT_IMAGE: &str = "v1.34.99";

/// Plays until dropped.
pub(crate) struct Driver {
    _task: Task,
}

impl Driver {
    pub(crate) fn start(client: &Client) -> Self {
        Self {
            _task: task::spawn("driver", play(client.clone())),
        }
    }
}

/// Never ends.
pub(crate) async fn play(client: Client) {
    let watches = KINDS.map(|kind| {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(kind));
        watcher(api, watcher::Config::default())
            .default_backoff()
            .boxed()
    });
    let mut changes = stream::select_all(watches);
    while let Some(change) = changes.next().await {
        let Ok(event) = change else { continue };
        let object = match event {
            watcher::Event::Apply(object)
            | watcher::Event::InitApply(object)
            | watcher::Event::Delete(object) => object,
            watcher::Event::Init | watcher::Event::InitDone => continue,
        };
        let namespace = object.namespace().unwrap_or_default();
        // Somebody else may change the same object: then there is another change to see.
        let _ = act(&client, &namespace).await;
    }
}

/// Brings one namespace to what is asked for.
async fn act(client: &Client, namespace: &str) -> Result<(), kube::Error> {
    let place = Place { client, namespace };
    for plane in place.list("StewardControlPlane").await? {
        place.serve(&plane).await?;
    }
    let clusters = place.list("Cluster").await?;
    for cluster in &clusters {
        let status = json!({"initialization": {"infrastructureProvisioned": true}});
        place.report(cluster, &status).await?;
    }
    let machines = place.list("Machine").await?;
    if clusters.is_empty() {
        for kind in ["MachineDeployment", "Machine"] {
            for left in place.list(kind).await? {
                place.delete(kind, &left.name_any()).await?;
            }
        }
        return Ok(());
    }
    for pool in place.list("MachineDeployment").await? {
        place.grow(&pool, &machines).await?;
    }
    Ok(())
}

struct Place<'a> {
    client: &'a Client,
    namespace: &'a str,
}

impl Place<'_> {
    fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), self.namespace, &resource(kind))
    }

    async fn list(&self, kind: &str) -> Result<Vec<DynamicObject>, kube::Error> {
        Ok(self.api(kind).list(&ListParams::default()).await?.items)
    }

    async fn delete(&self, kind: &str, name: &str) -> Result<(), kube::Error> {
        match self.api(kind).delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            result => result.map(drop),
        }
    }

    /// The API server runs what it should, at an address.
    async fn serve(&self, plane: &DynamicObject) -> Result<(), kube::Error> {
        if plane.data["spec"]["controlPlaneEndpoint"]["host"].is_null() {
            let endpoint =
                json!({"spec": {"controlPlaneEndpoint": {"host": "10.40.0.200", "port": 6443}}});
            let parameters = PatchParams::default();
            self.api("StewardControlPlane")
                .patch(&plane.name_any(), &parameters, &Patch::Merge(&endpoint))
                .await?;
        }
        let mut available = holds("Available", plane);
        if plane.annotations().contains_key(DEAD) {
            available["status"] = json!("False");
        }
        let status = json!({
            "version": plane.data["spec"]["version"],
            "initialization": {"controlPlaneInitialized": true},
            "conditions": [available],
        });
        self.report(plane, &status).await
    }

    /// As many machines as wanted, made from what the pool says, each with a Node.
    async fn grow(
        &self,
        pool: &DynamicObject,
        machines: &[DynamicObject],
    ) -> Result<(), kube::Error> {
        let template = &pool.data["spec"]["template"];
        let wanted = pool.data["spec"]["replicas"].as_u64().unwrap_or(0);
        let has_image = template["spec"]["version"] != WITHOUT_IMAGE;
        let own = |machine: &&DynamicObject| machine.name_any().starts_with(&pool.name_any());
        let mut others = machines.iter().filter(own);
        if !has_image && others.any(|machine| machine.data["spec"]["version"] != WITHOUT_IMAGE) {
            return self.stall(pool).await;
        }
        for number in 0..wanted {
            let name = format!("{}-{number}", pool.name_any());
            let node = if has_image {
                json!({"nodeRef": {"name": name}})
            } else {
                let mut unmet = holds("InfrastructureReady", pool);
                unmet["status"] = json!("False");
                unmet["message"] = json!(format!("there is no image of {WITHOUT_IMAGE}"));
                json!({"conditions": [unmet]})
            };
            let held = machines.iter().find(|machine| machine.name_any() == name);
            if let Some(held) = held.filter(|held| is_made_from(held, template)) {
                // It may have been made just before a crash of ours.
                self.report(held, &node).await?;
                continue;
            }
            // What is made from something else is another machine.
            self.delete("Machine", &name).await?;
            let machine = json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": name, "labels": template["metadata"]["labels"]},
                "spec": template["spec"],
            });
            let machine = serde_json::from_value(machine).unwrap();
            let made = self
                .api("Machine")
                .create(&PostParams::default(), &machine)
                .await?;
            self.report(&made, &node).await?;
        }
        for machine in machines.iter().filter(own) {
            let number = machine
                .name_any()
                .rsplit('-')
                .next()
                .and_then(|it| it.parse().ok());
            if number.is_none_or(|number: u64| number >= wanted) {
                self.delete("Machine", &machine.name_any()).await?;
            }
        }
        // As Cluster API does: machines are counted first, and are ready a moment later.
        let said = &pool.data["status"];
        let is_counted = said["observedGeneration"] == json!(pool.metadata.generation);
        let before = said["readyReplicas"].as_u64().unwrap_or(0);
        let ready = match (has_image, is_counted) {
            (false, _) => 0,
            (true, true) => wanted,
            (true, false) => before.min(wanted),
        };
        let status = json!({
            "observedGeneration": pool.metadata.generation,
            "replicas": wanted, "upToDateReplicas": wanted,
            "readyReplicas": ready, "availableReplicas": ready,
        });
        self.report(pool, &status).await
    }

    /// As Cluster API replaces machines: those that stand do so until the first new one is ready, which is never.
    async fn stall(&self, pool: &DynamicObject) -> Result<(), kube::Error> {
        let wanted = pool.data["spec"]["replicas"].as_u64().unwrap_or(0);
        let status = json!({
            "observedGeneration": pool.metadata.generation,
            "replicas": wanted + 1, "upToDateReplicas": 1,
            "readyReplicas": wanted, "availableReplicas": wanted,
        });
        self.report(pool, &status).await
    }

    /// Says something that was not said yet.
    async fn report(&self, object: &DynamicObject, status: &Value) -> Result<(), kube::Error> {
        let said = &object.data["status"];
        let fields = status.as_object().unwrap();
        if fields.iter().all(|(key, value)| said[key] == *value) {
            return Ok(());
        }
        let kind = object
            .types
            .as_ref()
            .map_or("", |types| types.kind.as_str());
        let parameters = PatchParams::default();
        self.api(kind)
            .patch_status(
                &object.name_any(),
                &parameters,
                &Patch::Merge(&json!({"status": status})),
            )
            .await
            .map(drop)
    }
}

/// Lets deleted namespaces go at once, as Kubernetes' own controller does after five seconds. Never ends.
pub(crate) async fn let_go(client: Client) {
    let namespaces: Api<Namespace> = Api::all(client);
    let ours = watcher::Config::default().labels("butler.butlerlabs.dev/source-namespace");
    let mut changes = watcher(namespaces.clone(), ours)
        .default_backoff()
        .applied_objects()
        .boxed();
    while let Some(change) = changes.next().await {
        let Ok(mut namespace) = change else { continue };
        if namespace.metadata.deletion_timestamp.is_none() {
            continue;
        }
        namespace.spec = Some(NamespaceSpec { finalizers: None });
        let (name, parameters) = (namespace.name_any(), PostParams::default());
        // Somebody else may have changed it: then there is another change to see.
        let _ = namespaces
            .replace_subresource("finalize", &name, &parameters, &namespace)
            .await;
    }
}

/// Whether a machine was made from what its pool says.
fn is_made_from(machine: &DynamicObject, template: &Value) -> bool {
    let (held, wanted) = (&machine.data["spec"], &template["spec"]);
    [
        "/version",
        "/infrastructureRef/name",
        "/bootstrap/configRef/name",
    ]
    .into_iter()
    .all(|place| held.pointer(place) == wanted.pointer(place))
}

fn holds(kind: &str, object: &DynamicObject) -> Value {
    json!({
        "type": kind, "status": "True", "reason": "Played", "message": "",
        "observedGeneration": object.metadata.generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "StewardControlPlane" => ("controlplane.cluster.x-k8s.io", "v1alpha1"),
        "LocalCluster" | "LocalMachineTemplate" | "ProxmoxCluster" => {
            ("infrastructure.cluster.x-k8s.io", "v1alpha1")
        }
        _ => ("cluster.x-k8s.io", "v1beta2"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

pub(crate) fn api(server: &Server, namespace: &str, kind: &str) -> Api<DynamicObject> {
    Api::namespaced_with(server.client(), namespace, &resource(kind))
}

/// An object as it is now.
pub(crate) async fn object(
    server: &Server,
    namespace: &str,
    kind: &str,
    name: &str,
) -> Option<Value> {
    let found = api(server, namespace, kind).get_opt(name).await.unwrap();
    found.map(|found| json!(found))
}

/// Lets the pods of a control plane be gone.
pub(crate) async fn die(server: &Server, namespace: &str, name: &str) {
    let dead = json!({"metadata": {"annotations": {DEAD: ""}}});
    patch(server, namespace, "StewardControlPlane", name, &dead).await;
}

/// Somebody changes an object by hand.
pub(crate) async fn patch(
    server: &Server,
    namespace: &str,
    kind: &str,
    name: &str,
    change: &Value,
) {
    let parameters = PatchParams::default();
    let api = api(server, namespace, kind);
    api.patch(name, &parameters, &Patch::Merge(change))
        .await
        .unwrap();
}

/// Somebody deletes an object by hand, and it is gone.
pub(crate) async fn delete(server: &Server, namespace: &str, kind: &str, name: &str) {
    let api = api(server, namespace, kind);
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

/// Waits until an object is there and as expected.
pub(crate) async fn until(
    server: &Server,
    namespace: &str,
    kind: &str,
    name: &str,
    done: impl Fn(&Value) -> bool + Send,
) {
    let api = api(server, namespace, kind);
    let reached =
        kube::runtime::wait::await_condition(api, name, |object: Option<&DynamicObject>| {
            object.is_some_and(|object| done(&json!(object)))
        });
    let waited = tokio::time::timeout(PATIENCE + Duration::from_secs(1), reached).await;
    assert!(
        waited.is_ok(),
        "waited {PATIENCE:?} for {kind} {name} to be as expected"
    );
}

/// Waits until an object is gone.
pub(crate) async fn until_gone(server: &Server, namespace: &str, kind: &str, name: &str) {
    butler_testkit::wait_until_gone(&api(server, namespace, kind), name).await;
}
