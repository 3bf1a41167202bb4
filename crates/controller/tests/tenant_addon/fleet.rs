//! A new version of the catalogue on a fleet of tenants, each with an API server of its own.

use butler_api::butler::{AddonDefinition, TenantAddon};
use butler_testkit::{Options, PATIENCE, Server, wait_for};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{scene::Scene, stage};

/// A tenant beside the first one, and its addon.
async fn add_tenant(scene: &Scene, name: &str, api: &Server, stage: &str) {
    let kubeconfig = std::fs::read_to_string(api.kubeconfig()).unwrap();
    let secret = format!("{name}-kubeconfig");
    let objects = [
        json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"admin.conf": kubeconfig},
            "metadata": {"name": secret, "namespace": scene.namespace}}),
        json!({"apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": name, "namespace": scene.namespace, "labels": {"stage": stage}},
            "spec": {"kubernetesVersion": "v1.35.4", "workers": {"replicas": 1}}}),
        json!({"apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantAddon",
            "metadata": {"name": format!("{name}-small"), "namespace": scene.namespace},
            "spec": {"clusterRef": {"name": name}, "addon": "small"}}),
    ];
    for object in objects {
        scene.server.apply_yaml(&object.to_string()).await;
    }
    let status = json!({"status": {"phase": "Ready", "tenantNamespace": scene.namespace,
        "kubeconfigSecretRef": {"name": secret}}});
    let clusters: Api<butler_api::butler::TenantCluster> =
        Api::namespaced(scene.server.client(), &scene.namespace);
    let params = PatchParams::default();
    clusters
        .patch_status(name, &params, &Patch::Merge(&status))
        .await
        .unwrap();
}

fn definitions(scene: &Scene) -> Api<AddonDefinition> {
    Api::all(scene.server.client())
}

async fn publish(scene: &Scene, version: &str) {
    let change = json!({"spec": {"chart": {"defaultVersion": version}}});
    let params = PatchParams::default();
    definitions(scene)
        .patch("small", &params, &Patch::Merge(&change))
        .await
        .unwrap();
}

/// Waits until the rollout of a version says so.
async fn until(scene: &Scene, version: &str, reason: &str) -> AddonDefinition {
    let what = format!("{reason} about version {version}");
    wait_for(&definitions(scene), "small", &what, PATIENCE, |entry| {
        let status = entry.status.clone().unwrap_or_default();
        let about = status
            .rollout
            .is_some_and(|rollout| rollout.version == version);
        let current = status.observed_generation == entry.metadata.generation;
        about && current && status.conditions.iter().any(|held| held.reason == reason)
    })
    .await
}

fn version(addon: &TenantAddon) -> Option<&str> {
    addon.status.as_ref()?.installed_version.as_deref()
}

#[tokio::test]
async fn a_new_version_goes_wave_by_wave_and_no_further_than_its_first_failure() {
    let scene = Scene::new(stage::server(Options::default()).await).await;
    let others = [
        stage::server(Options::default()).await,
        stage::server(Options::default()).await,
    ];
    let password = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "repository", "namespace": "butler-system"},
        "stringData": {"username": "ada", "password": "sesame-open"}});
    let definition = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "AddonDefinition",
        "metadata": {"name": "small"},
        "spec": {
            "displayName": "Small", "description": "A small chart.", "category": "other",
            "chart": {"repository": scene.repository.url(), "name": "small", "defaultVersion": "1.0.0",
                "credentialsRef": {"name": "repository"}},
            "rollout": {"waves": [{"name": "canary", "matchLabels": {"stage": "canary"}}]},
        },
    });
    for object in [password, definition] {
        scene.server.apply_yaml(&object.to_string()).await;
    }
    let _controllers = scene.run();
    // Named so that the canary would be the last one by its name.
    add_tenant(&scene, "jupiter", &others[0], "").await;
    add_tenant(&scene, "mars", &others[1], "").await;
    add_tenant(&scene, "zeus", &scene.server, "canary").await;
    for name in ["jupiter-small", "mars-small", "zeus-small"] {
        let addon = scene.until(name, "Ready", "Ready").await;
        assert_eq!(version(&addon), Some("1.0.0"), "{name}");
    }
    until(&scene, "1.0.0", "Done").await;

    publish(&scene, "2.0.0").await;
    let addons = scene.addons();
    let first = wait_for(&addons, "zeus-small", "2.0.0", PATIENCE, |addon| {
        version(addon) == Some("2.0.0")
    });
    first.await;
    let entry = until(&scene, "2.0.0", "Done").await;
    let rollout = entry.status.unwrap().rollout.unwrap();
    assert_eq!((rollout.total, rollout.updated, rollout.failed), (3, 3, 0));
    let order = ["zeus-small", "jupiter-small", "mars-small"];
    let mut moved = Vec::new();
    for name in order {
        let addon = addons.get(name).await.unwrap();
        assert_eq!(version(&addon), Some("2.0.0"), "{name}");
        moved.push(addon.status.unwrap().last_transition_time.unwrap().0);
    }
    assert!(moved.is_sorted(), "one after the other: {moved:?}");

    publish(&scene, "9.9.9").await;
    let entry = until(&scene, "9.9.9", "Stopped").await;
    let status = entry.status.unwrap();
    let said = &status.conditions[0].message;
    assert!(
        said.contains("planets/zeus-small: ChartNotFound") && said.contains("0 of 3"),
        "{said}"
    );
    for name in ["jupiter-small", "mars-small"] {
        let addon = addons.get(name).await.unwrap();
        assert_eq!(version(&addon), Some("2.0.0"), "{name} was left alone");
    }
    publish(&scene, "2.0.0").await;
    until(&scene, "2.0.0", "Done").await;
}
