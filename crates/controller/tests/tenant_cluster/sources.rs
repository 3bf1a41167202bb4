//! What clusters are made from: providers that they may use, and credentials that change.

use butler_api::butler::{ProviderConfig, TenantCluster};
use butler_testkit::{Options, PATIENCE, Server, wait_for, wait_for_condition};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    DEMO, PROVIDER, clusters,
    driver::{self, Driver},
    join::install,
    stage,
};

/// A provider whose kinds nobody installed: what it needs beside them can be seen all the same.
pub(crate) const NUTANIX: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: butler-system}
---
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata: {name: local, namespace: butler-system}
spec:
  provider: nutanix
  credentialsRef: {name: prism}
  nutanix:
    endpoint: https://prism.example.com/
    clusterUUID: 0005b6f1-8f43-0000-0000-000000000000
    subnetUUID: c7938dc6-7659-453e-a688-e26020c68e43
    imageUUID: a8938dc6-7659-453e-a688-e26020c68e43
";

/// A server with such a provider, and with its kinds, as loose as can be.
pub(crate) async fn nutanix() -> Server {
    let server = stage::server(Options::default().with_controller_manager()).await;
    server.apply_yaml(NUTANIX).await;
    for kind in ["NutanixCluster", "NutanixMachineTemplate"] {
        install(&server, kind).await;
    }
    server
}

async fn message(clusters: &Api<TenantCluster>, reason: &str) -> String {
    let demo = wait_for(clusters, "demo", reason, PATIENCE, |demo| {
        let conditions = demo.status.iter().flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .any(|it| it.type_ == "Ready" && it.reason == reason)
    });
    let demo = demo.await;
    let conditions = demo.status.unwrap().conditions;
    let ready = conditions.into_iter().find(|it| it.type_ == "Ready");
    ready.unwrap().message
}

pub(crate) async fn set_password(server: &Server, password: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "prism", "namespace": "butler-system"},
        "stringData": {"username": "butler", "password": password},
    });
    server.apply_yaml(&secret.to_string()).await;
}

/// Waits until the credentials in a cluster's namespace have a password.
async fn holds(server: &Server, home: &str, password: &str) {
    let secrets: Api<Secret> = Api::namespaced(server.client(), home);
    let has_it = |secret: &Secret| {
        let mut data = secret.data.iter().flatten();
        data.any(|(_, value)| String::from_utf8_lossy(&value.0).contains(password))
    };
    wait_for(&secrets, "demo-nutanix-creds", password, PATIENCE, has_it).await;
}

#[tokio::test]
async fn credentials_reach_a_cluster_and_reach_it_again_when_they_change() {
    let server = stage::server(Options::default().with_controller_manager()).await;
    server.apply_yaml(NUTANIX).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-d"))
        .await;
    let clusters = clusters(&server, "team-d");
    let demo = clusters.get("demo").await.unwrap();
    let home = format!("demo-{}", demo.uid().unwrap().split('-').next().unwrap());

    set_password(&server, "first").await;
    holds(&server, &home, "first").await;
    set_password(&server, "second").await;
    holds(&server, &home, "second").await;

    let said = message(&clusters, "NotFound").await;
    assert!(
        said.contains("NutanixCluster") && said.contains("is the Cluster API provider installed"),
        "{said}"
    );
    assert!(!said.contains("second"), "{said}");
}

#[tokio::test]
async fn a_cluster_that_runs_gets_other_credentials_and_keeps_its_machines() {
    let server = nutanix().await;
    set_password(&server, "first").await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-r"))
        .await;
    let clusters = clusters(&server, "team-r");
    let has_workers = |demo: &TenantCluster| {
        let status = demo.status.as_ref();
        status.is_some_and(|status| status.worker_nodes_ready == Some(2))
    };
    let demo = wait_for(&clusters, "demo", "two workers", PATIENCE, has_workers).await;
    let home = demo.status.unwrap().tenant_namespace.unwrap();
    let machines = || async {
        let machines = driver::api(&server, &home, "Machine");
        let listed = machines.list(&ListParams::default()).await.unwrap();
        let machines = listed.iter().map(kube::ResourceExt::uid);
        machines.collect::<Vec<_>>()
    };
    let before = machines().await;
    set_password(&server, "second").await;
    holds(&server, &home, "second").await;
    assert_eq!(machines().await, before);
}

#[tokio::test]
async fn a_provider_of_another_team_is_denied_and_its_opening_heals() {
    let server = stage::server(Options::default().with_controller_manager()).await;
    let theirs = "spec: {provider: local, scope: {type: team, teamRef: {name: others}}}";
    let provider = PROVIDER.replace("spec: {provider: local}", theirs);
    server.apply_yaml(&provider).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-e"))
        .await;
    let clusters = clusters(&server, "team-e");
    let said = message(&clusters, "ProviderDenied").await;
    assert!(said.contains("butler-system/local"), "{said}");

    let providers: Api<ProviderConfig> = Api::namespaced(server.client(), "butler-system");
    let open = json!({"spec": {"scope": {"type": "platform", "teamRef": null}}});
    providers
        .patch("local", &PatchParams::default(), &Patch::Merge(&open))
        .await
        .unwrap();
    wait_for_condition(&clusters, "demo", "Ready", "True").await;
}
