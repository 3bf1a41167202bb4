//! Where charts come from, and addons that are left alone.

use butler_testkit::{Options, wait_until_gone};
use kube::api::DeleteParams;
use serde_json::json;

use crate::{registry::Registry, scene::Scene, stage};

async fn scene() -> Scene {
    Scene::new(stage::server(Options::default()).await).await
}

#[tokio::test]
async fn a_chart_is_asked_of_the_mirror_of_its_repository() {
    let scene = scene().await;
    let _controllers = scene.run_mirrored("http://charts.invalid/stable", &scene.repository.url());
    let elsewhere = json!({"spec": {"helm": {"repository": "http://charts.invalid/stable"}}});
    scene.add("web", &elsewhere).await;
    scene.until("web", "Ready", "Ready").await;
    assert_eq!(scene.repository.fetched(), 1);
}

#[tokio::test]
async fn a_chart_comes_from_a_registry_without_tls_only_if_that_is_said() {
    let scene = scene().await;
    let registry = Registry::start(&scene.repository.archive(), None).await;
    let _controllers = scene.run();
    let from = |plain: bool| json!({"spec": {"helm": {"repository": registry.url(), "plainHttp": plain, "credentialsRef": null}}});
    scene.add("plain", &from(true)).await;
    scene.until("plain", "Ready", "Ready").await;
    scene.add("strict", &from(false)).await;
    let addon = scene
        .until("strict", "Installed", "RepositoryUnavailable")
        .await;
    assert_eq!(addon.status.unwrap().helm_release, None);
}

#[tokio::test]
async fn a_registry_with_an_authority_of_its_own_is_trusted_by_the_secret_that_names_it() {
    let scene = scene().await;
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let pair = Some((certificate.as_str(), key.as_str()));
    let registry = Registry::start(&scene.repository.archive(), pair).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"ca.crt": certificate},
        "metadata": {"name": "authority", "namespace": scene.namespace,
            "labels": {"butler.butlerlabs.dev/for-addons": "true"}}});
    scene.server.apply_yaml(&secret.to_string()).await;
    let _controllers = scene.run();
    let from = json!({"spec": {"helm": {"repository": registry.url(), "credentialsRef": {"name": "authority"}}}});
    scene.add("trusted", &from).await;
    scene.until("trusted", "Ready", "Ready").await;
    let unknown = json!({"spec": {"helm": {"repository": registry.url(), "credentialsRef": null}}});
    scene.add("unknown", &unknown).await;
    scene
        .until("unknown", "Installed", "RepositoryUnavailable")
        .await;
}

#[tokio::test]
async fn a_paused_addon_is_left_as_it_is_until_it_goes_on() {
    let scene = scene().await;
    let _controllers = scene.run();
    scene.add("web", &json!({})).await;
    scene.until("web", "Ready", "Ready").await;
    let change = json!({"spec": {"paused": true, "version": "2.0.0"}});
    scene.change("web", &change).await;
    let addon = scene.until("web", "Ready", "Paused").await;
    let status = addon.status.unwrap();
    assert_eq!(
        status.installed_version.as_deref(),
        Some("1.0.0"),
        "it still runs"
    );
    assert!(
        scene
            .helm(&["list", "--namespace", "web"])
            .contains("small-1.0.0")
    );
    scene
        .change("web", &json!({"spec": {"paused": false}}))
        .await;
    scene.until("web", "Ready", "Ready").await;
    assert!(
        scene
            .helm(&["list", "--namespace", "web"])
            .contains("small-2.0.0")
    );
}

#[tokio::test]
async fn a_cluster_that_is_only_looked_at_keeps_what_it_has_and_its_addons_say_what_differs() {
    let scene = scene().await;
    let clusters: kube::Api<butler_api::butler::TenantCluster> =
        kube::Api::namespaced(scene.server.client(), &scene.namespace);
    let follow = async |mode: &str| {
        let change = kube::api::Patch::Merge(json!({"spec": {"managementPolicy": {"mode": mode}}}));
        let parameters = kube::api::PatchParams::default();
        let changed = clusters.patch("saturn", &parameters, &change).await;
        changed.unwrap();
    };
    // By a tool of its own: installed once, and not changed after.
    follow("GitOps").await;
    let _controllers = scene.run();
    scene.add("web", &json!({})).await;
    scene.until("web", "Installed", "Observed").await;
    scene
        .change("web", &json!({"spec": {"version": "2.0.0"}}))
        .await;
    let addon = scene.until("web", "Installed", "Observed").await;
    let status = addon.status.unwrap();
    assert_eq!(status.installed_version.as_deref(), Some("1.0.0"));
    let said = status.message.unwrap();
    assert!(
        said.starts_with("another version or other values are installed"),
        "{said}"
    );
    scene.add("old", &json!({})).await;
    scene.until("old", "Installed", "Observed").await;
    let addons = scene.addons();
    addons
        .delete("old", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&addons, "old").await;
    assert_eq!(
        scene.helm(&["list", "--all-namespaces", "--short"]),
        "old\nweb\n",
        "the tool in the cluster has it now"
    );
    scene.helm(&["uninstall", "old", "--namespace", "old"]);
    follow("Observe").await;
    scene.add("new", &json!({})).await;
    let addon = scene.until("new", "Installed", "Observed").await;
    assert!(
        addon
            .status
            .unwrap()
            .message
            .unwrap()
            .starts_with("it is not installed")
    );
    assert_eq!(
        scene.helm(&["list", "--all-namespaces", "--short"]).trim(),
        "web"
    );
    follow("Active").await;
    scene.until("new", "Ready", "Ready").await;
    scene.until("web", "Ready", "Ready").await;
    assert!(
        scene
            .helm(&["list", "--namespace", "web"])
            .contains("small-2.0.0")
    );
}
