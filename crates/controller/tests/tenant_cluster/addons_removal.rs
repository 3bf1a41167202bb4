//! Addons of a cluster whose `TenantAddon` somebody deletes while the cluster lives.

use butler_api::butler::TenantAddon;
use butler_testkit::{PATIENCE, wait_for, wait_until_gone};
use k8s_openapi::api::{core::v1::ConfigMap, events::v1::Event};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

use crate::addons::Scene;

const STORAGE: &str = "demo-local-path-provisioner";

async fn delete(scene: &Scene, name: &str) {
    let deleted = scene.addons().delete(name, &DeleteParams::default()).await;
    deleted.unwrap();
}

fn agree(names: &str) -> serde_json::Value {
    json!({"metadata": {"annotations": {"butler.butlerlabs.dev/remove-addons": names}}})
}

/// Waits until an addon that is on its way out says a word.
async fn until_it_says(scene: &Scene, name: &str, word: &str) {
    wait_for(&scene.addons(), name, word, PATIENCE, |addon| {
        let status = addon.status.clone().unwrap_or_default();
        let said = status.message.unwrap_or_default();
        addon.metadata.deletion_timestamp.is_some() && said.contains(word)
    })
    .await;
}

#[tokio::test]
async fn an_addon_of_a_cluster_that_somebody_deletes_comes_again_and_its_release_stays() {
    let scene = Scene::new("team-t").await;
    scene
        .define("local-path-provisioner", "storage", &json!({}))
        .await;
    let _controllers = scene.run();
    scene.make(&json!({"addons": {"storage": {}}})).await;
    scene.until("Ready", "True", "Ready").await;
    let maps: Api<ConfigMap> =
        Api::namespaced(scene.server.client(), "local-path-provisioner-system");
    let installed = maps.get("local-path-provisioner").await.unwrap();
    let first = scene.addons().get(STORAGE).await.unwrap();
    // A leftover of an earlier removal: the cluster wants the addon again, so it agrees to nothing.
    scene.change(agree("local-path-provisioner")).await;

    delete(&scene, STORAGE).await;
    let is_new = |addon: &TenantAddon| addon.uid() != first.uid();
    let is_ready = |addon: &TenantAddon| {
        let status = addon.status.iter().flat_map(|status| &status.conditions);
        let mut ready = status.filter(|held| held.type_ == "Ready" && held.status == "True");
        is_new(addon) && ready.next().is_some()
    };
    wait_for(&scene.addons(), STORAGE, "a new one", PATIENCE, is_ready).await;
    let now = maps.get("local-path-provisioner").await.unwrap();
    assert_eq!(now.uid(), installed.uid(), "nothing was uninstalled");
    scene.until("Ready", "True", "Ready").await;
    let events: Api<Event> = Api::namespaced(scene.server.client(), "team-t");
    let events = events.list(&ListParams::default()).await.unwrap();
    let mut told = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("ReleaseKept"));
    let note = told.next().unwrap().note.clone().unwrap_or_default();
    assert!(note.contains("TenantCluster demo"), "{note}");
}

#[tokio::test]
async fn an_addon_that_is_no_longer_named_stays_until_it_is_switched_off_and_agreed_to() {
    let scene = Scene::new("team-u").await;
    scene
        .define("local-path-provisioner", "storage", &json!({}))
        .await;
    let _controllers = scene.run();
    scene.make(&json!({"addons": {"storage": {}}})).await;
    scene.until("Ready", "True", "Ready").await;
    scene.change(json!({"spec": {"addons": null}})).await;
    delete(&scene, STORAGE).await;
    until_it_says(&scene, STORAGE, "enabled: false").await;
    assert_eq!(scene.records("local-path-provisioner").await, 1);

    let off = json!({"spec": {"addons": {"storage": {"enabled": false}}}});
    scene.change(off).await;
    scene.change(agree("local-path-provisioner")).await;
    wait_until_gone(&scene.addons(), STORAGE).await;
    assert_eq!(scene.records("local-path-provisioner").await, 0);
}

#[tokio::test]
async fn an_addon_of_a_user_that_the_catalogue_calls_the_platforms_is_removed_by_agreement_only() {
    let scene = Scene::new("team-v").await;
    scene
        .define("metrics-server", "observability", &json!({}))
        .await;
    let _controllers = scene.run();
    scene.make(&json!({})).await;
    scene.until("Ready", "True", "Ready").await;
    for name in ["own", "late"] {
        let own = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantAddon",
            "metadata": {"name": name, "namespace": "team-v"},
            "spec": {"clusterRef": {"name": "demo"}, "addon": "metrics-server"},
        });
        scene.server.apply_yaml(&own.to_string()).await;
        wait_for(&scene.addons(), name, "a word", PATIENCE, |addon| {
            let status = addon.status.clone().unwrap_or_default();
            let conditions = status.conditions.iter();
            let mut reasons = conditions.map(|held| held.reason.as_str());
            status.installed_version.is_some() || reasons.any(|reason| reason == "ReleaseTaken")
        })
        .await;
    }
    delete(&scene, "late").await;
    wait_until_gone(&scene.addons(), "late").await;
    delete(&scene, "own").await;
    until_it_says(&scene, "own", "remove-addons=metrics-server").await;
    assert_eq!(scene.records("metrics-server").await, 1);
    scene.change(agree("metrics-server")).await;
    wait_until_gone(&scene.addons(), "own").await;
    assert_eq!(scene.records("metrics-server").await, 0);
}
