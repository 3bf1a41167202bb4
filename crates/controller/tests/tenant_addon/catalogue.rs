//! Addons of the catalogue: what they wait for, which versions may be had, and which archive.

use butler_testkit::Options;
use serde_json::{Value, json};

use crate::{scene::Scene, stage};

async fn scene() -> Scene {
    let scene = Scene::new(stage::server(Options::default()).await).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "repository", "namespace": "butler-system"},
        "stringData": {"username": "ada", "password": "sesame-open"}});
    scene.server.apply_yaml(&secret.to_string()).await;
    scene
}

/// An entry of the catalogue that installs the small chart.
async fn define(scene: &Scene, name: &str, spec: &Value) {
    let mut entry = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "AddonDefinition",
        "metadata": {"name": name},
        "spec": {"displayName": name, "description": "small", "category": "other",
            "chart": {"repository": scene.repository.url(), "name": "small", "defaultVersion": "1.0.0",
                "credentialsRef": {"name": "repository"}}},
    });
    butler_addons::values::lay_over(&mut entry, &json!({ "spec": spec }));
    scene.server.apply_yaml(&entry.to_string()).await;
}

async fn add(scene: &Scene, name: &str, addon: &str, version: Option<&str>) {
    let mut object = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantAddon",
        "metadata": {"name": name, "namespace": scene.namespace},
        "spec": {"clusterRef": {"name": "saturn"}, "addon": addon},
    });
    if let Some(version) = version {
        object["spec"]["version"] = version.into();
    }
    scene.server.apply_yaml(&object.to_string()).await;
}

#[tokio::test]
async fn an_addon_waits_for_one_of_the_platform_that_nobody_asked_for_and_not_for_what_the_provider_brings()
 {
    let scene = scene().await;
    let local = json!({"apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "ProviderConfig",
        "metadata": {"name": "default", "namespace": "butler-system"}, "spec": {"provider": "local"}});
    scene.server.apply_yaml(&local.to_string()).await;
    let _controllers = scene.run();
    let platform = json!({"platform": true, "category": "certmanager"});
    define(&scene, "cert-manager", &platform).await;
    let network = json!({"platform": true, "category": "cni"});
    define(&scene, "cilium", &network).await;
    define(&scene, "trust", &json!({"dependsOn": ["cert-manager"]})).await;
    define(&scene, "proxy", &json!({"dependsOn": ["cilium"]})).await;
    for name in ["trust", "proxy"] {
        add(&scene, name, name, None).await;
    }
    scene.until("proxy", "Ready", "Ready").await;
    let addon = scene
        .until("trust", "DependenciesMet", "DependencyMissing")
        .await;
    let said = addon.status.unwrap().message.unwrap();
    assert!(said.contains("it needs addon cert-manager"), "{said}");
    add(&scene, "certificates", "cert-manager", None).await;
    scene.until("trust", "Ready", "Ready").await;
}

#[tokio::test]
async fn a_version_or_an_archive_that_the_catalogue_does_not_name_is_refused() {
    let scene = scene().await;
    let _controllers = scene.run();
    let some = json!({"chart": {"availableVersions": ["2.0.0"]}});
    define(&scene, "offered", &some).await;
    add(&scene, "offered", "offered", Some("3.0.0")).await;
    let addon = scene
        .until("offered", "Installed", "VersionNotOffered")
        .await;
    let said = addon.status.unwrap().message.unwrap();
    assert!(said.contains("1.0.0, 2.0.0, not in 3.0.0"), "{said}");
    scene
        .change("offered", &json!({"spec": {"version": "2.0.0"}}))
        .await;
    scene.until("offered", "Ready", "Ready").await;

    let other = format!("sha256:{}", "0".repeat(64));
    let digests = json!({"chart": {"digests": {"1.0.0": other}}});
    define(&scene, "sealed", &digests).await;
    add(&scene, "sealed", "sealed", None).await;
    scene.until("sealed", "Installed", "WrongDigest").await;
}
