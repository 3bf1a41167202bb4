//! The flows of a Cluster with one machine, disturbed at every write.

use std::sync::Arc;

use butler_api::infrastructure::{LocalCluster, LocalMachine};
use butler_runtime::conditions::is_true;
use butler_testkit::{
    Scenario, World, at_every_write,
    faults::{Fault, Refusal},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    DATA,
    stage::{self, Play},
};

/// Removes what earlier runs left, so that each provider has one Cluster to look after.
async fn clear<K>(world: &World)
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let client = world.server().client();
    let all: Api<K> = Api::all(client.clone());
    for object in all.list(&ListParams::default()).await.expect("a list") {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<K> = Api::namespaced(client.clone(), &namespace);
        let release = json!({"metadata": {"finalizers": null}});
        let (name, params) = (object.name_any(), PatchParams::default());
        // It may be going just now.
        let _ = api.patch(&name, &params, &Patch::Merge(&release)).await;
        let _ = api.delete(&name, &DeleteParams::default()).await;
    }
}

/// The faults that are tried here; losing an answer and sending twice are tried on the kit itself.
fn faults(quiet: std::time::Duration) -> Vec<Fault> {
    vec![
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::Refuse(Refusal::Conflict),
        Fault::Stale(quiet / 2),
    ]
}

/// A Cluster gets its network and its machine.
struct Making(Arc<Play>);

impl Scenario for Making {
    async fn set_up(&self, world: &World) {
        clear::<LocalMachine>(world).await;
        clear::<LocalCluster>(world).await;
        *self.0.held() = stage::Held::default();
        stage::cluster(world.namespace(), "sky").await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client, Arc::clone(&self.0)).await;
    }

    async fn user(&self, world: &World) {
        let home = world.namespace();
        stage::provisioned_cluster(home, "sky").await;
        stage::machine(home, "sky", "w1", &json!({})).await;
        stage::bootstrap(home, "w1", DATA).await;
        stage::reason(home, "w1", "Ready", "Running").await;
        stage::succeed(&self.0, "w1");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let machines = world.namespace().api::<LocalMachine>();
        let machine = machines
            .get("w1")
            .await
            .map_err(|error| error.to_string())?;
        let status = machine.status.unwrap_or_default();
        let provisioned = status.initialization.and_then(|held| held.provisioned);
        let current = status.observed_generation == machine.metadata.generation;
        let done = is_true(&status.conditions, "Ready")
            && is_true(&status.conditions, "BootstrapSucceeded");
        let held = self.0.held();
        if !held.faults.is_empty() {
            return Err(format!("{:?}", held.faults));
        }
        if done
            && current
            && provisioned == Some(true)
            && held.machines.len() == 1
            && held.attached.len() == 1
        {
            Ok(())
        } else {
            Err(format!("{:?}", status.conditions))
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("infrastructure.cluster.x-k8s.io/v1alpha1", "LocalCluster"),
            ("infrastructure.cluster.x-k8s.io/v1alpha1", "LocalMachine"),
        ]
    }

    // Every world has machines and a namespace of its own.
    fn simplify(&self, object: &mut Value) {
        if let Some(addresses) = object.pointer_mut("/status/addresses/0") {
            addresses["address"] = Value::Null;
        }
    }

    fn faults(&self) -> Vec<Fault> {
        faults(self.quiet())
    }

    // The provider looks after the whole server.
    fn parallel(&self) -> usize {
        1
    }
}

/// Everything of a Cluster is deleted at once.
struct Ending(Making);

impl Scenario for Ending {
    async fn set_up(&self, world: &World) {
        self.0.set_up(world).await;
        let _provider = stage::provider(world.server().client(), &self.0.0);
        self.0.user(world).await;
        stage::reason(world.namespace(), "w1", "BootstrapSucceeded", "Succeeded").await;
    }

    async fn controller(&self, client: Client, world: &World) {
        self.0.controller(client, world).await;
    }

    async fn user(&self, world: &World) {
        let home = world.namespace();
        let params = DeleteParams::default();
        home.api::<LocalCluster>()
            .delete("sky", &params)
            .await
            .expect("a user deletes it");
        home.api::<LocalMachine>()
            .delete("w1", &params)
            .await
            .expect("a user deletes it");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let home = world.namespace();
        let machine = home.api::<LocalMachine>().get_opt("w1").await;
        let cluster = home.api::<LocalCluster>().get_opt("sky").await;
        let held = self.0.0.held();
        let nothing =
            held.machines.is_empty() && held.attached.is_empty() && held.networks.is_empty();
        match (machine, cluster) {
            (Ok(None), Ok(None)) if nothing && held.faults.is_empty() => Ok(()),
            (machine, cluster) => Err(format!("{machine:?} {cluster:?} {:?}", held.faults)),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        self.0.kinds()
    }

    fn faults(&self) -> Vec<Fault> {
        faults(self.quiet())
    }

    fn parallel(&self) -> usize {
        1
    }
}

#[tokio::test]
async fn a_cluster_and_its_machine_end_up_the_same_whatever_goes_wrong() {
    let server = stage::server().await;
    let summary = at_every_write(&server, &Making(Play::new())).await;
    println!("{summary:?}");
    assert!(summary.writes >= 6, "{summary:?}");
}

#[tokio::test]
async fn a_cluster_and_its_machine_are_gone_whatever_goes_wrong() {
    let server = stage::server().await;
    let summary = at_every_write(&server, &Ending(Making(Play::new()))).await;
    println!("{summary:?}");
    assert!(summary.writes >= 2, "{summary:?}");
}
