//! What is left alone: a cluster that is paused, and an upgrade before which a tenant does not answer.

use butler_api::butler::TenantCluster;
use butler_testkit::{PATIENCE, Server, wait_for, wait_for_condition, wait_until_gone};
use kube::{Api, api::DeleteParams};
use serde_json::{Value, json};

use crate::{
    DEMO, clusters,
    driver::{self, Driver, object},
    join::play_steward,
    patch, stage,
};

fn says(demo: &TenantCluster, kind: &str, text: &str) -> bool {
    let conditions = demo.status.iter().flat_map(|status| &status.conditions);
    let mut found = conditions.filter(|held| held.type_ == kind);
    found.any(|held| held.message.contains(text))
}

fn runs(demo: &TenantCluster, version: &str) -> bool {
    let state = demo.status.as_ref();
    let state = state.and_then(|status| status.observed_state.as_ref());
    state.and_then(|state| state.kubernetes_version.as_deref()) == Some(version)
}

async fn demo(server: &Server, team: &str) -> (Api<TenantCluster>, String) {
    server.apply_yaml(&DEMO.replace("NAMESPACE", team)).await;
    let clusters = clusters(server, team);
    let demo = wait_for_condition(&clusters, "demo", "Ready", "True").await;
    (clusters, demo.status.unwrap().tenant_namespace.unwrap())
}

async fn replicas(server: &Server, home: &str) -> Value {
    let pool = object(server, home, "MachineDeployment", "demo-workers").await;
    pool.unwrap()["spec"]["replicas"].clone()
}

#[tokio::test]
async fn a_paused_cluster_is_left_alone_until_it_is_resumed_and_can_be_removed_while_it_is_paused()
{
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    let (clusters, home) = demo(&server, "team-s").await;
    let still = json!({"spec": {"paused": true, "workers": {"replicas": 3}}});
    patch(&clusters, still).await;
    wait_for(&clusters, "demo", "the pause", PATIENCE, |demo| {
        says(demo, "Paused", "spec.paused") && says(demo, "Ready", "the cluster is paused")
    })
    .await;
    let is_paused = |cluster: &Value| cluster["spec"]["paused"] == true;
    driver::until(&server, &home, "Cluster", "demo", is_paused).await;
    assert_eq!(replicas(&server, &home).await, 2, "nothing is changed");
    // What somebody else changes is left alone as well.
    let change = json!({"spec": {"replicas": 1}});
    driver::patch(&server, &home, "MachineDeployment", "demo-workers", &change).await;
    wait_for(&clusters, "demo", "one worker", PATIENCE, |demo| {
        let status = demo.status.as_ref();
        status.is_some_and(|status| status.worker_nodes_ready == Some(1))
    })
    .await;
    assert_eq!(replicas(&server, &home).await, 1, "nothing is put right");

    patch(&clusters, json!({"spec": {"paused": false}})).await;
    let is_back = |pool: &Value| pool["spec"]["replicas"] == 3;
    driver::until(&server, &home, "MachineDeployment", "demo-workers", is_back).await;
    let goes_on = |cluster: &Value| cluster["spec"]["paused"] != true;
    driver::until(&server, &home, "Cluster", "demo", goes_on).await;

    patch(&clusters, json!({"spec": {"paused": true}})).await;
    driver::until(&server, &home, "Cluster", "demo", is_paused).await;
    // As Cluster API does: a Cluster that is paused keeps its finalizer.
    let keep = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    driver::patch(&server, &home, "Cluster", "demo", &keep).await;
    let none = DeleteParams::default();
    clusters.delete("demo", &none).await.unwrap();
    driver::until(&server, &home, "Cluster", "demo", goes_on).await;
    let let_go = json!({"metadata": {"finalizers": null}});
    driver::patch(&server, &home, "Cluster", "demo", &let_go).await;
    wait_until_gone(&clusters, "demo").await;
}

#[tokio::test]
async fn an_upgrade_begins_once_the_tenant_has_said_what_is_called_in_it() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    let (clusters, home) = demo(&server, "team-v").await;
    let broken = json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"admin.conf": "nothing"},
        "metadata": {"name": "demo-admin-kubeconfig", "namespace": home},
    });
    server.apply_yaml(&broken.to_string()).await;
    patch(&clusters, json!({"spec": {"kubernetesVersion": "v1.35.4"}})).await;
    let demo = wait_for(&clusters, "demo", "the question", PATIENCE, |demo| {
        says(demo, "Ready", "the cluster was asked in vain")
    });
    assert!(runs(&demo.await, "v1.34.4"));

    play_steward(&server, &home).await;
    let look = json!({"metadata": {"annotations": {"example.com/look": "again"}}});
    patch(&clusters, look).await;
    wait_for(&clusters, "demo", "the upgrade", PATIENCE, |demo| {
        runs(demo, "v1.35.4")
    })
    .await;
}
