//! Tenant clusters on a real API server: what they become, what is reported, drift, day two, and the way back to
//! nothing. What providers would say is said by a driver.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod access;
mod addons;
mod addons_faults;
mod addons_real;
mod addons_removal;
mod addons_versions;
mod bad_input;
mod changes_faults;
mod clock;
mod day2;
mod definitions;
mod dns;
mod driver;
mod ending;
mod failed;
mod faults;
mod join;
mod load_balancer;
mod machine_addresses;
mod network;
mod pause;
mod phases;
mod quota;
#[path = "../tenant_addon/repository.rs"]
mod repository;
mod sources;
#[path = "../stage/mod.rs"]
mod stage;

use butler_api::butler::{TenantCluster, tenant_cluster::Phase};
use butler_testkit::{Options, PATIENCE, Server, wait_for, wait_for_condition, wait_until_gone};
use driver::{Driver, object};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

pub(crate) const PROVIDER: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: butler-system}
---
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata: {name: local, namespace: butler-system}
spec: {provider: local}
";

pub(crate) const DEMO: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: NAMESPACE}
---
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: TenantCluster
metadata: {name: demo, namespace: NAMESPACE}
spec:
  kubernetesVersion: v1.34.4
  providerConfigRef: {name: local}
  workers: {replicas: 2}
";

async fn stage() -> Server {
    let server = stage::server(Options::default().with_controller_manager()).await;
    server.apply_yaml(PROVIDER).await;
    server
}

fn clusters(server: &Server, namespace: &str) -> Api<TenantCluster> {
    Api::namespaced(server.client(), namespace)
}

async fn patch(clusters: &Api<TenantCluster>, change: serde_json::Value) {
    let parameters = PatchParams::default();
    let change = Patch::Merge(&change);
    clusters.patch("demo", &parameters, &change).await.unwrap();
}

#[tokio::test]
async fn a_cluster_is_made_reported_scaled_upgraded_and_leaves_nothing() {
    let server = stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-a"))
        .await;
    let clusters = clusters(&server, "team-a");

    let demo = wait_for_condition(&clusters, "demo", "Ready", "True").await;
    let status = demo.status.clone().unwrap();
    assert_eq!(status.phase, Some(Phase::Ready));
    assert_eq!(status.observed_generation, demo.metadata.generation);
    assert_eq!(
        (status.worker_nodes_ready, status.worker_nodes_desired),
        (Some(2), Some(2))
    );
    assert_eq!(
        status.control_plane_endpoint.as_deref(),
        Some("10.40.0.200:6443")
    );
    assert_eq!(
        status.kubeconfig_secret_ref.unwrap().name,
        "demo-kubeconfig"
    );
    let home = status.tenant_namespace.unwrap();
    let uid = demo.uid().unwrap();
    assert_eq!(home, format!("demo-{}", &uid[..8]));

    patch(&clusters, json!({"spec": {"workers": {"replicas": 3}}})).await;
    wait_for(&clusters, "demo", "three workers", PATIENCE, |demo| {
        let status = demo.status.as_ref();
        status.is_some_and(|status| status.worker_nodes_ready == Some(3))
    })
    .await;

    patch(&clusters, json!({"spec": {"kubernetesVersion": "v1.35.4"}})).await;
    wait_for(&clusters, "demo", "the upgrade", PATIENCE, |demo| {
        let Some(status) = &demo.status else {
            return false;
        };
        let running = status.observed_state.as_ref();
        let running = running.and_then(|state| state.kubernetes_version.as_deref());
        running == Some("v1.35.4") && status.phase == Some(Phase::Ready)
    })
    .await;
    let pool = object(&server, &home, "MachineDeployment", "demo-workers").await;
    let pool = pool.unwrap();
    assert_eq!(pool["spec"]["template"]["spec"]["version"], "v1.35.4");

    clusters
        .delete("demo", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&clusters, "demo").await;
    let namespaces: Api<Namespace> = Api::all(server.client());
    assert!(namespaces.get_opt(&home).await.unwrap().is_none());
}

#[tokio::test]
async fn what_somebody_changes_or_deletes_is_put_right() {
    let server = stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-b"))
        .await;
    let clusters = clusters(&server, "team-b");
    let demo = wait_for_condition(&clusters, "demo", "Ready", "True").await;
    let home = demo.status.unwrap().tenant_namespace.unwrap();

    let change = json!({"spec": {"replicas": 7}});
    driver::patch(&server, &home, "MachineDeployment", "demo-workers", &change).await;
    driver::until(
        &server,
        &home,
        "MachineDeployment",
        "demo-workers",
        |pool| pool["spec"]["replicas"] == 2,
    )
    .await;
    for (kind, name) in [
        ("MachineHealthCheck", "demo-workers"),
        ("LocalCluster", "demo"),
    ] {
        driver::delete(&server, &home, kind, name).await;
        driver::until(&server, &home, kind, name, |_| true).await;
    }
}

#[tokio::test]
async fn a_missing_provider_is_named_its_arrival_heals_and_its_going_keeps_nobody() {
    let server = stage::server(Options::default().with_controller_manager()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-c"))
        .await;
    let clusters = clusters(&server, "team-c");
    let demo = wait_for_condition(&clusters, "demo", "Ready", "False").await;
    let conditions = demo.status.unwrap().conditions;
    let ready = conditions.iter().find(|it| it.type_ == "Ready").unwrap();
    assert_eq!(ready.reason, "ProviderNotFound");
    assert!(
        ready.message.contains("butler-system/local"),
        "{}",
        ready.message
    );
    server.apply_yaml(PROVIDER).await;
    wait_for_condition(&clusters, "demo", "Ready", "True").await;

    let providers: Api<butler_api::butler::ProviderConfig> =
        Api::namespaced(server.client(), "butler-system");
    providers
        .delete("local", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&providers, "local").await;
    clusters
        .delete("demo", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&clusters, "demo").await;
}
