//! Changing a cluster that works, disturbed at every write.

use butler_api::butler::{TenantCluster, tenant_cluster::Phase};
use butler_testkit::{
    Options, PATIENCE, Scenario, Server, World, at_every_write, faults::Fault, wait_for,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    PROVIDER, driver,
    faults::{Ending, Making, alike},
    stage,
};

/// A change and what a cluster then is.
struct Step {
    spec: Value,
    is_done: fn(&TenantCluster) -> bool,
}

/// A cluster is changed. It is named after its world, as is its namespace then.
struct Changing {
    /// What is changed before, undisturbed.
    before: Option<Step>,
    step: Step,
}

fn clusters(world: &World) -> Api<TenantCluster> {
    Api::namespaced(world.server().client(), world.namespace().name())
}

async fn change(world: &World, step: &Step) {
    let change = json!({"spec": step.spec});
    let (parameters, change) = (PatchParams::default(), Patch::Merge(&change));
    let clusters = clusters(world);
    let name = world.namespace().name();
    let changed = clusters.patch(name, &parameters, &change);
    changed.await.expect("a user changes the cluster");
}

/// Whether everything that was asked for has come true, for a reason.
fn rests(cluster: &TenantCluster, reason: &str) -> bool {
    let Some(status) = &cluster.status else {
        return false;
    };
    let ready = status.conditions.iter().find(|held| held.type_ == "Ready");
    status.observed_generation == cluster.metadata.generation
        && status.phase == Some(Phase::Ready)
        && ready.is_some_and(|held| held.status == "True" && held.reason == reason)
}

fn has_workers(cluster: &TenantCluster, count: i32) -> bool {
    let status = cluster.status.as_ref();
    rests(cluster, "Ready") && status.is_some_and(|status| status.worker_nodes_ready == Some(count))
}

fn runs(cluster: &TenantCluster, version: &str) -> bool {
    let state = cluster.status.as_ref();
    let state = state.and_then(|status| status.observed_state.as_ref());
    let running = state.and_then(|state| state.kubernetes_version.as_deref());
    has_workers(cluster, 2) && running == Some(version)
}

fn sleep() -> Step {
    Step {
        spec: json!({"hibernation": {"enabled": true}}),
        is_done: |cluster| rests(cluster, "Hibernated"),
    }
}

impl Scenario for Changing {
    async fn set_up(&self, world: &World) {
        let client = world.server().client();
        let _controllers = stage::run(client.clone());
        let _driver = driver::Driver::start(&client);
        Making.user(world).await;
        let (clusters, name) = (clusters(world), world.namespace().name());
        let is_made = |cluster: &TenantCluster| has_workers(cluster, 2);
        wait_for(&clusters, name, "a cluster that works", PATIENCE, is_made).await;
        if let Some(before) = &self.before {
            change(world, before).await;
            let is_done = before.is_done;
            wait_for(&clusters, name, "the first change", PATIENCE, is_done).await;
        }
    }

    async fn controller(&self, client: Client, world: &World) {
        Making.controller(client, world).await;
    }

    async fn user(&self, world: &World) {
        change(world, &self.step).await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let cluster = clusters(world).get(world.namespace().name()).await;
        let cluster = cluster.map_err(|error| error.to_string())?;
        if (self.step.is_done)(&cluster) {
            Ok(())
        } else {
            Err(format!("the change is not done: {:?}", cluster.status))
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        Making.kinds()
    }

    fn alike(&self) -> fn(&str) -> String {
        alike
    }

    fn faults(&self) -> Vec<Fault> {
        Ending::Plain.faults()
    }

    // The controllers look after the whole server.
    fn parallel(&self) -> usize {
        1
    }
}

async fn scene() -> Server {
    let server = stage::server(Options::default()).await;
    server.apply_yaml(PROVIDER).await;
    server
}

async fn disturbed(before: Option<Step>, step: Step) -> usize {
    let server = scene().await;
    let summary = at_every_write(&server, &Changing { before, step }).await;
    println!("{summary:?}");
    summary.writes
}

#[tokio::test]
async fn a_cluster_is_scaled_whatever_goes_wrong() {
    let more = Step {
        spec: json!({"workers": {"replicas": 3}}),
        is_done: |cluster| has_workers(cluster, 3),
    };
    assert!(disturbed(None, more).await >= 2);
}

#[tokio::test]
async fn a_cluster_is_upgraded_whatever_goes_wrong() {
    let later = Step {
        spec: json!({"kubernetesVersion": "v1.35.4"}),
        is_done: |cluster| runs(cluster, "v1.35.4"),
    };
    assert!(disturbed(None, later).await >= 5);
}

#[tokio::test]
async fn machines_are_replaced_and_their_templates_go_whatever_goes_wrong() {
    let larger = Step {
        spec: json!({"workers": {"machineTemplate": {"cpu": 8}}}),
        is_done: |cluster| has_workers(cluster, 2),
    };
    assert!(disturbed(None, larger).await >= 5);
}

#[tokio::test]
async fn a_cluster_falls_asleep_whatever_goes_wrong() {
    assert!(disturbed(None, sleep()).await >= 3);
}

#[tokio::test]
async fn a_cluster_wakes_whatever_goes_wrong() {
    let wake = Step {
        spec: json!({"hibernation": {"enabled": false}}),
        is_done: |cluster| has_workers(cluster, 2),
    };
    assert!(disturbed(Some(sleep()), wake).await >= 3);
}
