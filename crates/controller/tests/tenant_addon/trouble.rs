//! Bad input, and what others do.

use butler_testkit::{Options, wait_until_gone};
use kube::api::DeleteParams;
use serde_json::json;

use crate::{scene::Scene, stage};

async fn scene() -> Scene {
    Scene::new(stage::server(Options::default()).await).await
}

#[tokio::test]
async fn every_mistake_has_a_reason_of_its_own_and_holds_up_nobody_else() {
    let scene = scene().await;
    let _controllers = scene.run();
    let digest = format!("sha256:{}", "0".repeat(64));
    let cases = [
        (
            "missing",
            json!({"spec": {"version": "9.9.9"}}),
            "ChartNotFound",
        ),
        (
            "digest",
            json!({"spec": {"helm": {"digest": digest}}}),
            "WrongDigest",
        ),
        (
            "schema",
            json!({"spec": {"values": {"greeting": 7}}}),
            "InvalidValues",
        ),
        (
            "down",
            json!({"spec": {"helm": {"repository": "http://127.0.0.1:1"}}}),
            "RepositoryUnavailable",
        ),
        (
            "locked",
            json!({"spec": {"helm": {"credentialsRef": null}}}),
            "RepositoryForbidden",
        ),
        (
            "half",
            json!({"spec": {"helm": {"credentialsRef": {"name": "half"}}}}),
            "InvalidCredentials",
        ),
        (
            "no-secret",
            json!({"spec": {"valuesFrom": [{"secret": "nope"}]}}),
            "SecretNotFound",
        ),
        (
            "not-for-it",
            json!({"spec": {"valuesFrom": [{"secret": "saturn-kubeconfig", "key": "admin.conf"}]}}),
            "SecretNotForAddons",
        ),
    ];
    let half = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"username": "ada"},
        "metadata": {"name": "half", "namespace": scene.namespace,
            "labels": {"butler.butlerlabs.dev/for-addons": "true"}}});
    scene.server.apply_yaml(&half.to_string()).await;
    for (name, more, _) in &cases {
        scene.add(name, more).await;
    }
    scene.add("fine", &json!({})).await;
    scene.until("fine", "Ready", "Ready").await;
    for (name, _, reason) in &cases {
        let addon = scene.until(name, "Installed", reason).await;
        let said = serde_json::to_string(&addon.status).unwrap();
        assert!(!said.contains("sesame-open"), "a secret in {said}");
    }
}

#[tokio::test]
async fn addons_wait_for_what_they_depend_on_and_circles_are_named() {
    let scene = scene().await;
    let _controllers = scene.run();
    scene
        .add(
            "upper",
            &json!({"spec": {"dependsOn": [{"name": "lower"}]}}),
        )
        .await;
    scene
        .until("upper", "DependenciesMet", "DependencyMissing")
        .await;
    scene.add("lower", &json!({})).await;
    scene.until("upper", "Ready", "Ready").await;
    scene
        .add("egg", &json!({"spec": {"dependsOn": [{"name": "hen"}]}}))
        .await;
    scene
        .add("hen", &json!({"spec": {"dependsOn": [{"name": "egg"}]}}))
        .await;
    let addon = scene
        .until("egg", "DependenciesMet", "DependencyCycle")
        .await;
    let message = addon.status.unwrap().message.unwrap();
    assert!(message.contains("egg -> hen -> egg"), "{message}");
}

#[tokio::test]
async fn one_release_has_one_owner_and_that_of_somebody_else_is_refused_until_adopted() {
    let scene = scene().await;
    let release = json!({"spec": {"helm": {"releaseName": "web", "namespace": "web"}}});
    let by_hand = tempfile::tempdir().unwrap();
    std::fs::create_dir(by_hand.path().join("templates")).unwrap();
    std::fs::write(
        by_hand.path().join("Chart.yaml"),
        "{apiVersion: v2, name: hand, version: 0.1.0}",
    )
    .unwrap();
    let chart = by_hand.path().to_str().unwrap();
    scene.helm(&[
        "install",
        "web",
        chart,
        "--namespace",
        "web",
        "--create-namespace",
    ]);
    let _controllers = scene.run();
    scene.add("first", &release).await;
    let addon = scene.until("first", "Installed", "ReleaseOfOthers").await;
    assert!(
        addon
            .status
            .unwrap()
            .message
            .unwrap()
            .contains("adopt-release=true")
    );
    let adopt =
        json!({"metadata": {"annotations": {"butler.butlerlabs.dev/adopt-release": "true"}}});
    scene.change("first", &adopt).await;
    scene.until("first", "Ready", "Ready").await;

    scene.add("second", &release).await;
    let addon = scene.until("second", "Installed", "ReleaseTaken").await;
    assert!(
        addon
            .status
            .unwrap()
            .message
            .unwrap()
            .contains("TenantAddon first")
    );
    scene
        .addons()
        .delete("second", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&scene.addons(), "second").await;
    let listed = scene.helm(&["list", "--namespace", "web"]);
    assert!(
        listed.contains("small-1.0.0"),
        "the first keeps its release: {listed}"
    );
}

#[tokio::test]
async fn an_addon_whose_cluster_is_gone_goes_without_it() {
    let scene = scene().await;
    let _controllers = scene.run();
    scene.add("web", &json!({})).await;
    scene.until("web", "Ready", "Ready").await;
    let clusters: kube::Api<butler_api::butler::TenantCluster> =
        kube::Api::namespaced(scene.server.client(), &scene.namespace);
    clusters
        .delete("saturn", &DeleteParams::default())
        .await
        .unwrap();
    scene.until("web", "ClusterReady", "ClusterNotFound").await;
    scene
        .addons()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&scene.addons(), "web").await;
}

#[tokio::test]
async fn values_that_the_catalogue_does_not_accept_are_named_by_their_place_before_helm_runs() {
    let scene = scene().await;
    let _controllers = scene.run();
    let definition = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "AddonDefinition",
        "metadata": {"name": "typed"},
        "spec": {
            "displayName": "Typed", "description": "Has a schema.", "category": "other",
            "chart": {"repository": scene.repository.url(), "name": "small", "defaultVersion": "1.0.0"},
            "valuesSchema": {"type": "object", "properties": {
                "auth": {"type": "object", "properties": {"password": {"type": "string", "minLength": 12}}},
            }},
        },
    });
    scene.server.apply_yaml(&definition.to_string()).await;
    let addon = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantAddon",
        "metadata": {"name": "typed", "namespace": scene.namespace},
        "spec": {"clusterRef": {"name": "saturn"}, "addon": "typed",
            "values": {"auth": {"password": "hunter2"}}},
    });
    scene.server.apply_yaml(&addon.to_string()).await;
    let addon = scene.until("typed", "Installed", "InvalidValues").await;
    let message = addon.status.unwrap().message.unwrap();
    assert!(
        message.contains("/auth/password") && !message.contains("hunter2"),
        "{message}"
    );
    assert_eq!(scene.repository.fetched(), 0, "Helm was not asked");
}
