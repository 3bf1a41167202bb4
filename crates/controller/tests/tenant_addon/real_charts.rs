//! The charts of Cilium and cert-manager as their makers publish them, installed by the entries of our catalogue. Their
//! images cannot be had here: everything else must work, and the missing image must be named.

use std::{fs, path::Path};

use butler_api::butler::{TenantAddon, TenantCluster};
use butler_testkit::{
    Options, PATIENCE,
    pods::{PodOptions, Pods},
    wait_for, wait_until_gone,
};
use butler_toolchain::Toolchain;
use k8s_openapi::{
    api::{
        apps::v1::DaemonSet,
        core::v1::{ConfigMap, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{repository::helm, scene::Scene, stage};

/// Real workloads on a node that has no images.
async fn scene() -> (Scene, Pods) {
    let server = stage::server(Options::default().with_controller_manager()).await;
    let pods = Pods::start(&server, PodOptions::default()).await.unwrap();
    let scene = Scene::new(server).await;
    let password = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "repository", "namespace": "butler-system"},
        "stringData": {"username": "ada", "password": "sesame-open"}});
    scene.server.apply_yaml(&password.to_string()).await;
    (scene, pods)
}

/// Installs an entry of the catalogue, whose chart comes from the test's own repository.
async fn install(scene: &Scene, name: &str, version: &str, values: &Value) {
    let toolchain = Toolchain::locate().unwrap();
    scene
        .repository
        .add(&toolchain.chart(name).unwrap(), version);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/butler-addons");
    let file = folder.join("definitions").join(format!("{name}.yaml"));
    let mut entry: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    entry["spec"]["chart"]["repository"] = scene.repository.url().into();
    entry["spec"]["chart"]["credentialsRef"] = json!({"name": "repository"});
    scene.server.apply_yaml(&entry.to_string()).await;
    let addon = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantAddon",
        "metadata": {"name": name, "namespace": scene.namespace},
        "spec": {"clusterRef": {"name": "saturn"}, "addon": name, "version": version, "values": values},
    });
    scene.server.apply_yaml(&addon.to_string()).await;
}

/// Waits until everything was accepted and the condition names an image that is not there.
async fn until_the_image_is_missing(scene: &Scene, name: &str, image: &str) {
    let said = |addon: &TenantAddon, type_: &str| {
        let conditions = addon.status.iter().flat_map(|status| &status.conditions);
        let mut found = conditions.into_iter().filter(|held| held.type_ == type_);
        found
            .next()
            .map(|held| (held.status.clone(), held.message.clone()))
            .unwrap_or_default()
    };
    let what = format!("Healthy=False because of {image}");
    wait_for(&scene.addons(), name, &what, PATIENCE, |addon| {
        let (installed, _) = said(addon, "Installed");
        let (healthy, why) = said(addon, "Healthy");
        installed == "True"
            && healthy == "False"
            && why.contains("ErrImagePull")
            && why.contains(image)
    })
    .await;
}

async fn remove(scene: &Scene, name: &str, namespace: &str) {
    // The platform's own go by agreement.
    let clusters: Api<TenantCluster> = Api::namespaced(scene.server.client(), &scene.namespace);
    let agree = json!({"metadata": {"annotations": {"butler.butlerlabs.dev/remove-addons": name}}});
    let parameters = PatchParams::default();
    let agree = Patch::Merge(&agree);
    let agreed = clusters.patch("saturn", &parameters, &agree).await;
    agreed.unwrap();
    let addons = scene.addons();
    addons.delete(name, &DeleteParams::default()).await.unwrap();
    wait_until_gone(&addons, name).await;
    let records = ListParams::default().labels("owner=helm");
    let records = scene.secrets(namespace).list(&records).await.unwrap();
    assert!(records.items.is_empty(), "records are left");
    let all: Api<Pod> = Api::all(scene.server.client());
    for pod in all.list(&ListParams::default()).await.unwrap() {
        wait_until_gone(
            &Api::<Pod>::namespaced(scene.server.client(), &pod.metadata.namespace.unwrap()),
            &pod.metadata.name.unwrap(),
        )
        .await;
    }
}

#[tokio::test]
async fn the_real_cilium_chart_is_installed_as_far_as_its_image_allows_and_goes_without_a_rest() {
    let (scene, _pods) = scene().await;
    let _controllers = scene.run();
    let values = json!({"k8sServiceHost": "api.saturn.example", "k8sServicePort": 6443});
    install(&scene, "cilium", "1.20.2", &values).await;
    until_the_image_is_missing(&scene, "cilium", "quay.io/cilium/").await;
    let agents: Api<DaemonSet> = Api::namespaced(scene.server.client(), "kube-system");
    let agent = serde_json::to_string(&agents.get("cilium").await.unwrap().spec).unwrap();
    assert!(
        agent.contains("api.saturn.example"),
        "values reach the chart"
    );
    let settings: Api<ConfigMap> = Api::namespaced(scene.server.client(), "kube-system");
    let settings = settings.get("cilium-config").await.unwrap().data.unwrap();
    assert_eq!(settings["kube-proxy-replacement"], "true");
    assert_eq!(settings["ipam"], "kubernetes");
    remove(&scene, "cilium", "kube-system").await;
    let left = agents.list(&ListParams::default()).await.unwrap();
    assert!(left.items.is_empty(), "the DaemonSets are gone");
}

#[tokio::test]
async fn the_real_cert_manager_chart_is_installed_as_far_as_its_image_allows_and_keeps_its_kinds() {
    let (scene, _pods) = scene().await;
    let _controllers = scene.run();
    install(&scene, "cert-manager", "v1.21.2", &json!({})).await;
    until_the_image_is_missing(&scene, "cert-manager", "quay.io/jetstack/").await;
    remove(&scene, "cert-manager", "cert-manager").await;
    let kinds: Api<CustomResourceDefinition> = Api::all(scene.server.client());
    // The chart asks for that: with them every certificate would go.
    let kept = kinds.get("certificates.cert-manager.io").await.unwrap();
    assert_eq!(kept.metadata.deletion_timestamp, None);

    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/linkerd-certificates");
    let rendered = std::process::Command::new(helm())
        .args(["template", "certificates", "--namespace", "linkerd"])
        // The namespace of cert-manager went with it.
        .args(["--set", "trustNamespace=linkerd"])
        .arg(chart)
        .env("HOME", scene.folder.path())
        .output()
        .unwrap();
    let rendered = String::from_utf8(rendered.stdout).unwrap();
    scene
        .server
        .apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: linkerd}}")
        .await;
    let certificates: Vec<&str> = rendered
        .split("\n---\n")
        .filter(|object| object.contains("apiVersion: cert-manager.io/v1"))
        .collect();
    assert_eq!(certificates.len(), 4, "{rendered}");
    scene.server.apply_yaml(&certificates.join("\n---\n")).await;
}
