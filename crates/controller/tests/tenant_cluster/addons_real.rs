//! The chart of Cilium as its makers publish it, installed because a cluster asks for it: what the cluster says arrives
//! in what the chart makes of it.

use std::{fs, path::Path};

use butler_testkit::{PATIENCE, wait_for};
use butler_toolchain::Toolchain;
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::ConfigMap};
use kube::Api;
use serde_json::{Value, json};

use crate::addons::Scene;

/// The entry of our catalogue, with the chart from the test's own repository.
async fn define(scene: &Scene, name: &str, version: &str) {
    let chart = Toolchain::locate().unwrap().chart(name).unwrap();
    scene.repository.add(&chart, version);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/butler-addons");
    let file = folder.join("definitions").join(format!("{name}.yaml"));
    let mut entry: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    entry["spec"]["chart"]["repository"] = scene.repository.url().into();
    entry["spec"]["chart"]["credentialsRef"] = json!({"name": "repository"});
    scene.server.apply_yaml(&entry.to_string()).await;
}

#[tokio::test]
async fn the_real_cilium_chart_is_installed_as_the_cluster_says() {
    let scene = Scene::new("team-w").await;
    define(&scene, "cilium", "1.20.2").await;
    let _controllers = scene.run();
    let cni = json!({
        "provider": "cilium", "version": "1.20.2",
        "values": {"cluster": {"name": "blue", "id": 7}, "debug": {"enabled": true}},
    });
    scene.make(&json!({"addons": {"cni": cni}})).await;
    let addons = scene.addons();
    wait_for(&addons, "demo-cilium", "the version", PATIENCE, |addon| {
        let status = addon.status.clone().unwrap_or_default();
        status.installed_version.as_deref() == Some("1.20.2")
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(scene.server.client(), "kube-system");
    let settings = maps.get("cilium-config").await.unwrap().data.unwrap();
    let expected = [
        ("kube-proxy-replacement", "true"),
        ("ipam", "kubernetes"),
        ("enable-ipv4", "true"),
        ("enable-ipv6", "false"),
        ("cluster-name", "blue"),
        ("cluster-id", "7"),
        ("debug", "true"),
    ];
    for (key, value) in expected {
        assert_eq!(settings.get(key).map(String::as_str), Some(value), "{key}");
    }
    let agents: Api<DaemonSet> = Api::namespaced(scene.server.client(), "kube-system");
    let agent = agents.get("cilium").await.unwrap();
    let agent = serde_json::to_string(&agent.spec).unwrap();
    assert!(agent.contains("10.40.0.200"), "where the API server is");
}
