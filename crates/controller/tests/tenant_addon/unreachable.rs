//! A tenant that does not answer.

use butler_testkit::Options;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    scene::{Scene, tenant_named},
    stage,
};

/// Gives the tenant's kubeconfig another address.
async fn move_to(scene: &Scene, server: &str) {
    let kubeconfig = std::fs::read_to_string(scene.server.kubeconfig()).unwrap();
    let moved = kubeconfig.replace(scene.server.url().trim_end_matches('/'), server);
    let secrets: Api<Secret> = Api::namespaced(scene.server.client(), &scene.namespace);
    let change = Patch::Merge(json!({"stringData": {"admin.conf": moved}}));
    let parameters = PatchParams::default();
    let patched = secrets.patch("saturn-kubeconfig", &parameters, &change);
    patched.await.unwrap();
}

#[tokio::test]
async fn an_addon_of_a_tenant_that_does_not_answer_says_so_holds_up_nobody_and_heals_by_itself() {
    let scene = Scene::new(stage::server(Options::default()).await).await;
    tenant_named(&scene.server, &scene.namespace, "jupiter").await;
    let _controllers = scene.run();
    scene.add("web", &json!({})).await;
    scene.until("web", "Ready", "Ready").await;

    move_to(&scene, "https://127.0.0.1:1").await;
    scene
        .change("web", &json!({"spec": {"values": {"greeting": "hi"}}}))
        .await;
    let addon = scene
        .until("web", "ClusterReady", "ClusterUnreachable")
        .await;
    let status = addon.status.unwrap();
    assert_eq!(
        status.installed_version.as_deref(),
        Some("1.0.0"),
        "what was seen before still counts"
    );
    let elsewhere = json!({"spec": {"clusterRef": {"name": "jupiter"}}});
    scene.add("other", &elsewhere).await;
    scene.until("other", "Ready", "Ready").await;

    let home = scene.server.url();
    move_to(&scene, home.trim_end_matches('/')).await;
    let addon = scene.until("web", "Ready", "Ready").await;
    let release = addon.status.unwrap().helm_release.unwrap();
    assert_eq!(release.revision, Some(2), "the change reached it");
}
