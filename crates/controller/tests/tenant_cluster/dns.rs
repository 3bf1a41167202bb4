//! A new cluster is called Ready when names are answered in it.

use butler_api::butler::{TenantCluster, tenant_cluster::Phase};
use butler_runtime::conditions;
use butler_testkit::{Options, PATIENCE, wait_for, wait_for_condition};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    DEMO, PROVIDER, clusters,
    driver::Driver,
    join::{home, play_steward},
    stage,
};

const COREDNS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system}
spec:
  replicas: 2
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec: {containers: [{name: coredns, image: coredns}]}
";

/// The message of the condition that tells of addons.
fn said(demo: &TenantCluster) -> &str {
    let mut held = demo.status.iter().flat_map(|status| &status.conditions);
    let held = held.find(|held| held.type_ == "AddonsReady");
    held.map_or("", |held| &held.message)
}

#[tokio::test]
async fn a_new_cluster_is_installing_until_names_are_answered_in_it_and_is_not_asked_again() {
    let server = stage::server(Options::default()).await;
    server.apply_yaml(PROVIDER).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-d"))
        .await;
    let clusters = clusters(&server, "team-d");
    let home = home(&clusters).await;
    play_steward(&server, &home).await;
    let _driver = Driver::start(&server.client());

    let missing = "DNS: CoreDNS is not installed yet";
    let is_missing = |demo: &TenantCluster| said(demo) == missing;
    wait_for(&clusters, "demo", missing, PATIENCE, is_missing).await;
    server.apply_yaml(COREDNS).await;
    let missing = "DNS: 0 of 2 pods of CoreDNS are ready";
    let is_missing = |demo: &TenantCluster| said(demo) == missing;
    let demo = wait_for(&clusters, "demo", missing, PATIENCE, is_missing).await;
    let status = demo.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Installing));
    assert!(!conditions::is_true(&status.conditions, "Ready"));

    let deployments: Api<Deployment> = Api::namespaced(server.client(), "kube-system");
    let serve = async |pods: u32| {
        let status =
            json!({"status": {"replicas": 2, "readyReplicas": pods, "availableReplicas": pods}});
        let (parameters, change) = (PatchParams::default(), Patch::Merge(&status));
        let patched = deployments.patch_status("coredns", &parameters, &change);
        patched.await.unwrap();
    };
    serve(1).await;
    wait_for_condition(&clusters, "demo", "Ready", "True").await;

    serve(0).await;
    let more = json!({"spec": {"workers": {"replicas": 3}}});
    crate::patch(&clusters, more).await;
    wait_for(&clusters, "demo", "three workers", PATIENCE, |demo| {
        let status = demo.status.as_ref();
        let has_three = status.is_some_and(|status| status.worker_nodes_ready == Some(3));
        has_three && said(demo) == "all addons work"
    })
    .await;
}
