//! The infrastructure contract of Cluster API, on a real API server with its kinds.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod addresses;
mod contract;
mod faults;
mod stage;

use std::time::Duration;

use butler_api::infrastructure::{LocalCluster, LocalMachine};
use butler_machine::{
    provider::{FINALIZER, rbac},
    runtime::{Held, protocol::Outcome},
};
use butler_testkit::{PATIENCE, User, wait_for, wait_for_condition, wait_until_gone};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use stage::Play;

const DATA: &str = "## template: jinja\n#cloud-config\nntp: {enabled: true}\n\
                    write_files: [{path: /id, content: 'local://{{ ds.meta_data.instance_id }}'}]\n";

async fn patch(api: &kube::Api<impl butler_testkit::Awaited>, name: &str, change: &Value) {
    let params = PatchParams::default();
    api.patch(name, &params, &Patch::Merge(change))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_machine_starts_when_everything_it_needs_is_there_and_says_what_it_waits_for() {
    let server = stage::server().await;
    let home = server.namespace("team").await;
    let play = Play::new();
    let _provider = stage::provider(server.client(), &play);
    stage::cluster(&home, "sky").await;
    stage::machine(&home, "sky", "w1", &json!({"memory": "1Gi", "cpu": "500m"})).await;
    stage::reason(&home, "w1", "Ready", "WaitingForClusterInfrastructure").await;

    let local = stage::provisioned_cluster(&home, "sky").await;
    let domains = local.status.unwrap().failure_domains;
    assert_eq!(
        (domains[0].name.as_str(), domains[0].control_plane),
        ("local", Some(true))
    );
    let network = play.held().networks[&local.metadata.uid.unwrap()].clone();
    assert_eq!(
        (network.pods[0].as_str(), network.services[0].as_str()),
        ("10.244.0.0/16", "10.96.0.0/12")
    );

    stage::reason(&home, "w1", "Ready", "WaitingForBootstrapData").await;
    assert!(play.spec("w1").is_none());
    stage::bootstrap(&home, "w1", DATA).await;
    let running = stage::reason(&home, "w1", "Ready", "Running").await;

    let id = format!("local://{}/w1", home.name());
    let ready = wait_for(
        &home.api::<LocalMachine>(),
        "w1",
        "provisioned",
        PATIENCE,
        |machine| {
            let status = machine.status.as_ref();
            let held = status.and_then(|status| status.initialization.as_ref());
            held.and_then(|held| held.provisioned) == Some(true)
        },
    )
    .await;
    assert_eq!(ready.spec.provider_id.as_deref(), Some(id.as_str()));
    let spec = play.spec("w1").unwrap();
    assert_eq!(spec.id.as_str(), running.uid().unwrap());
    assert_eq!(
        (spec.cpu_milli, spec.memory_bytes),
        (Some(500), Some(1 << 30))
    );
    assert_eq!(spec.provider_id, id);
    assert_eq!(spec.programs.kubernetes.to_str(), Some("/images/35"));
    let status = ready.status.unwrap();
    let addresses: Vec<_> = status
        .addresses
        .iter()
        .map(|held| held.address.clone())
        .collect();
    assert_eq!(
        addresses,
        [spec.address.to_string(), "w1".to_owned(), "w1".to_owned()]
    );
    stage::reason(&home, "w1", "BootstrapSucceeded", "Working").await;
    stage::succeed(&play, "w1");
    stage::reason(&home, "w1", "BootstrapSucceeded", "Succeeded").await;
    assert!(play.held().faults.is_empty(), "{:?}", play.held().faults);
}

#[tokio::test]
async fn a_machine_that_fails_or_is_broken_or_dies_is_told_and_started_again() {
    let server = stage::server().await;
    let home = server.namespace("team").await;
    let play = Play::new();
    let _provider = stage::provider(server.client(), &play);
    stage::cluster(&home, "sky").await;
    stage::provisioned_cluster(&home, "sky").await;
    stage::machine(&home, "sky", "w1", &json!({})).await;
    stage::bootstrap(&home, "w1", "#!/bin/sh\nsecret").await;
    let refused = stage::reason(&home, "w1", "Ready", "InvalidBootstrapData").await;
    let said = serde_json::to_string(&refused.status).unwrap();
    assert!(
        said.contains("a script") && !said.contains("secret"),
        "{said}"
    );

    stage::machine(&home, "sky", "w2", &json!({"image": "v1.33.0"})).await;
    stage::bootstrap(&home, "w2", DATA).await;
    stage::reason(&home, "w2", "Ready", "NoImage").await;

    stage::machine(&home, "sky", "w3", &json!({})).await;
    stage::bootstrap(&home, "w3", DATA).await;
    stage::reason(&home, "w3", "Ready", "Running").await;
    play.change("w3", |seen| {
        seen.outcome = Some(Outcome::Failed {
            reason: "runcmd ended with 1".to_owned(),
        });
    });
    stage::reason(&home, "w3", "Ready", "BootstrapFailed").await;
    stage::succeed(&play, "w3");
    play.change("w3", |seen| seen.held = Some(Held::Paused));
    stage::reason(&home, "w3", "Ready", "PausedOnPurpose").await;
    play.change("w3", |seen| {
        (seen.pid, seen.held) = (None, Some(Held::Killed));
    });
    let killed = stage::reason(&home, "w3", "Ready", "KilledOnPurpose").await;
    assert_eq!(
        killed.status.unwrap().initialization.unwrap().provisioned,
        Some(true)
    );
    play.change("w3", |seen| seen.held = None);
    stage::reason(&home, "w3", "Ready", "Running").await;
    assert!(play.held().faults.is_empty(), "{:?}", play.held().faults);
}

#[tokio::test]
async fn paused_and_foreign_objects_are_left_alone_and_deletion_ends_in_order() {
    let server = stage::server().await;
    let home = server.namespace("team").await;
    let play = Play::new();
    let _provider = stage::provider(server.client_called(stage::AGENT), &play);
    stage::cluster(&home, "sky").await;
    stage::provisioned_cluster(&home, "sky").await;
    stage::machine(&home, "sky", "w1", &json!({})).await;
    stage::bootstrap(&home, "w1", DATA).await;
    stage::reason(&home, "w1", "Ready", "Running").await;

    let clusters = stage::core(&home, "Cluster");
    let machines = home.api::<LocalMachine>();
    let locals = home.api::<LocalCluster>();
    patch(&clusters, "sky", &json!({"spec": {"paused": true}})).await;
    wait_for_condition(&machines, "w1", "Paused", "True").await;
    wait_for_condition(&locals, "sky", "Paused", "True").await;
    machines
        .delete("w1", &DeleteParams::default())
        .await
        .unwrap();
    // Another object that is worked on proves that the deletion was seen.
    stage::cluster(&home, "sea").await;
    stage::provisioned_cluster(&home, "sea").await;
    assert!(play.spec("w1").is_some(), "a paused machine stays");

    // A network that something else looks after.
    let foreign = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "LocalCluster",
        "metadata": {"name": "theirs", "annotations": {"cluster.x-k8s.io/managed-by": "somebody"}}, "spec": {},
    });
    home.apply_yaml(&foreign.to_string()).await;

    locals
        .delete("sky", &DeleteParams::default())
        .await
        .unwrap();
    patch(&clusters, "sky", &json!({"spec": {"paused": false}})).await;
    wait_until_gone(&machines, "w1").await;
    wait_until_gone(&locals, "sky").await;
    {
        let held = play.held();
        assert!(held.machines.is_empty() && held.attached.is_empty());
        assert!(held.faults.is_empty(), "{:?}", held.faults);
    }
    let theirs: LocalCluster = home.get("theirs").await;
    assert!(
        theirs.status.is_none() && theirs.finalizers().is_empty(),
        "{theirs:?}"
    );
}

#[tokio::test]
async fn a_network_waits_for_its_machines_and_says_so() {
    let server = stage::server().await;
    let home = server.namespace("team").await;
    let play = Play::new();
    let _provider = stage::provider(server.client(), &play);
    stage::cluster(&home, "sky").await;
    stage::provisioned_cluster(&home, "sky").await;
    stage::machine(&home, "sky", "w1", &json!({})).await;
    stage::bootstrap(&home, "w1", DATA).await;
    stage::reason(&home, "w1", "Ready", "Running").await;
    let locals = home.api::<LocalCluster>();
    locals
        .delete("sky", &DeleteParams::default())
        .await
        .unwrap();
    let waiting = wait_for_condition(&locals, "sky", "Ready", "False").await;
    let said = &waiting.status.unwrap().conditions[0].message;
    assert!(said.contains("machines w1"), "{said}");
    assert!(
        waiting
            .metadata
            .finalizers
            .unwrap()
            .contains(&FINALIZER.to_owned())
    );
    home.api::<LocalMachine>()
        .delete("w1", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&locals, "sky").await;
    assert!(play.held().networks.is_empty());
    assert!(play.held().faults.is_empty(), "{:?}", play.held().faults);
}

#[tokio::test]
async fn a_restarted_provider_writes_nothing_and_may_do_no_more_than_its_role_says() {
    let server = stage::server().await;
    for (_, manifests) in rbac::files() {
        for manifest in manifests {
            server
                .apply_yaml(&serde_json::to_string(&manifest).unwrap())
                .await;
        }
    }
    let home = server.namespace("team").await;
    let play = Play::new();
    let account = User::service_account(rbac::NAMESPACE, rbac::ACCOUNT);
    let client = || server.client_for(&account);
    let provider = stage::provider(client(), &play);
    stage::cluster(&home, "sky").await;
    stage::provisioned_cluster(&home, "sky").await;
    stage::machine(&home, "sky", "w1", &json!({})).await;
    stage::bootstrap(&home, "w1", DATA).await;
    stage::reason(&home, "w1", "Ready", "Running").await;
    stage::succeed(&play, "w1");
    stage::reason(&home, "w1", "BootstrapSucceeded", "Succeeded").await;
    wait_for_condition(&home.api::<LocalMachine>(), "w1", "Ready", "True").await;
    drop(provider);

    let mark = server.mark().await;
    let _provider = stage::provider(client(), &play);
    // A second Cluster that gets its network proves that everything was looked at.
    stage::cluster(&home, "sea").await;
    stage::provisioned_cluster(&home, "sea").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let writes = server.writes(mark).await.by_user(account.name());
    let old = writes.only(|write| write.name() != "sea");
    assert_eq!(old.count(), 0, "{old}");
}

#[tokio::test]
async fn a_cluster_with_a_hosted_control_plane_is_provisioned_when_that_serves() {
    let server = stage::server().await;
    let home = server.namespace("team").await;
    let play = Play::new();
    let _provider = stage::provider(server.client(), &play);
    stage::cluster(&home, "sky").await;
    let hosted = json!({"spec": {"controlPlaneRef": {
        "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "StewardControlPlane", "name": "sky",
    }}});
    let clusters = stage::core(&home, "Cluster");
    let params = PatchParams::default();
    clusters
        .patch("sky", &params, &Patch::Merge(&hosted))
        .await
        .unwrap();
    let locals = home.api::<LocalCluster>();
    wait_for(&locals, "sky", "to say why", PATIENCE, |local| {
        let status = local.status.as_ref();
        let mut held = status.iter().flat_map(|status| &status.conditions);
        held.any(|held| held.reason == "WaitingForControlPlane")
    })
    .await;
    // Its network is there all the same: the control plane needs it.
    assert_eq!(play.held().networks.len(), 1);
    let there = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
    clusters
        .patch_status("sky", &params, &Patch::Merge(&there))
        .await
        .unwrap();
    stage::provisioned_cluster(&home, "sky").await;
}
