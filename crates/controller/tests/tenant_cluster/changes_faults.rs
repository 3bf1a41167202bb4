//! Changing a cluster that works, disturbed at every write.

use std::{sync::Arc, time::Duration};

use butler_api::butler::{TenantCluster, tenant_cluster::Phase};
use butler_capi::day2::ROLLOUT_DEADLINE;
use butler_runtime::{
    clock::{Clock as _, SystemClock},
    metrics::Metrics,
};
use butler_testkit::{
    Options, PATIENCE, Scenario, Server, World, at_every_write, faults::Fault, wait_for,
};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    PROVIDER,
    clock::Ahead,
    day2::{self, says},
    driver,
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
    /// How much later the disturbed controllers look at it.
    later: SignedDuration,
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

/// How long it is from now to a little after a moment.
fn until(moment: Timestamp) -> SignedDuration {
    moment.duration_since(SystemClock.now()) + SignedDuration::from_mins(1)
}

fn pause() -> Step {
    Step {
        spec: json!({"paused": true, "workers": {"replicas": 3}}),
        is_done: |cluster| says(cluster, "the cluster is paused"),
    }
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
        let clock = Arc::<Ahead>::default();
        clock.put(self.later);
        let work = stage::work_at(client, Metrics::default(), clock);
        tokio::join!(work, driver::play(world.server().client()));
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

    /// A change is many steps of two controllers, and machines may be slow.
    fn patience(&self) -> Duration {
        PATIENCE
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
    disturbed_later(before, SignedDuration::ZERO, step).await
}

async fn disturbed_later(before: Option<Step>, later: SignedDuration, step: Step) -> usize {
    let server = scene().await;
    let changing = Changing {
        before,
        later,
        step,
    };
    let summary = at_every_write(&server, &changing).await;
    println!("{summary:?}");
    summary.writes
}

/// Nothing is changed; what time does is seen.
fn nothing(is_done: fn(&TenantCluster) -> bool) -> Step {
    let spec = json!({});
    Step { spec, is_done }
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

#[tokio::test]
async fn a_cluster_is_paused_whatever_goes_wrong() {
    assert!(disturbed(None, pause()).await >= 2);
}

#[tokio::test]
async fn a_cluster_is_resumed_with_what_was_asked_meanwhile_whatever_goes_wrong() {
    let resume = Step {
        spec: json!({"paused": false}),
        is_done: |cluster| has_workers(cluster, 3),
    };
    assert!(disturbed(Some(pause()), resume).await >= 3);
}

#[tokio::test]
async fn a_rollout_that_stopped_is_taken_back_whatever_goes_wrong() {
    let stops = Step {
        spec: json!({"kubernetesVersion": driver::WITHOUT_IMAGE}),
        is_done: |cluster| says(cluster, "0 of 2 machines replaced"),
    };
    let taken_back = nothing(|cluster| {
        rests(cluster, "RolloutFailed") && says(cluster, "change the spec to try again")
    });
    let later = ROLLOUT_DEADLINE + SignedDuration::from_mins(5);
    assert!(disturbed_later(Some(stops), later, taken_back).await >= 2);
}

#[tokio::test]
async fn a_window_lets_go_what_it_held_whatever_goes_wrong() {
    let (schedule, opens) = day2::later(6);
    let held = Step {
        spec: json!({
            "kubernetesVersion": "v1.35.4",
            "maintenance": {"windows": [{"schedule": schedule, "duration": "2h"}]},
        }),
        is_done: |cluster| rests(cluster, "Waiting"),
    };
    let let_go = nothing(|cluster| runs(cluster, "v1.35.4"));
    assert!(disturbed_later(Some(held), until(opens), let_go).await >= 5);
}

#[tokio::test]
async fn a_cluster_falls_asleep_by_its_schedule_whatever_goes_wrong() {
    let ((start, asleep), (end, _)) = (day2::later(6), day2::later(12));
    let by_day = Step {
        spec: json!({"hibernation": {"schedules": [{"start": start, "end": end}]}}),
        is_done: |cluster| has_workers(cluster, 2),
    };
    let sleeps = nothing(|cluster| rests(cluster, "Hibernated"));
    assert!(disturbed_later(Some(by_day), until(asleep), sleeps).await >= 3);
}
