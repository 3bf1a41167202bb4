//! The addons of a cluster as files for Flux, read by the real kustomize.

use std::{fs, path::Path};

use butler_toolchain::Toolchain;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::program::{Desk, run};

/// Two addons: one of the catalogue, one with a chart of its own and a password.
async fn desk() -> Desk {
    let desk = Desk::with(json!({})).await;
    let space = &desk.namespace;
    // Definitions have no namespace: this one belongs to the test by its name.
    let name = format!("net-{}", space.name());
    let definition = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "AddonDefinition",
        "metadata": {"name": name},
        "spec": {"displayName": "n", "description": "d", "category": "cni", "platform": true,
            "chart": {"repository": "https://charts.example.com", "name": "net", "defaultVersion": "1.2.3"},
            "defaults": {"namespace": "kube-system", "releaseName": "net", "values": {"mode": "on"}}},
    });
    let addon = |name: &str, spec: Value| {
        let mut whole = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantAddon",
            "metadata": {"name": name}, "spec": {"clusterRef": {"name": "my-cluster"}},
        });
        butler_addons::values::lay_over(&mut whole, &json!({ "spec": spec }));
        whole
    };
    let shop = json!({
        "helm": {"repository": "oci://registry.example.com/charts", "chart": "shop"}, "version": "2.0.0",
        "values": {"replicas": 2}, "valuesFrom": [{"secret": "shop"}], "dependsOn": [{"name": "net"}],
    });
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop"},
        "stringData": {"values.yaml": "password: hunter2"}});
    for object in [
        definition,
        secret,
        addon("net", json!({"addon": name, "values": {"port": "0080"}})),
        addon("shop", shop),
    ] {
        space.apply_yaml(&object.to_string()).await;
    }
    desk
}

async fn kustomize(folder: &Path) -> Vec<Value> {
    let kubectl = Toolchain::locate().unwrap().binary("kubectl", None);
    let mut command = Command::new(kubectl.unwrap());
    command.arg("kustomize").arg(folder);
    serde_saphyr::from_multiple(&run(command).await.good()).unwrap()
}

#[tokio::test]
async fn a_cluster_is_written_into_a_checkout_that_kustomize_reads_and_written_again_over_itself() {
    let desk = desk().await;
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().to_str().unwrap();
    let export = ["export", "my-cluster", "--output-dir", target];
    let ran = desk.cluster_command(&export).await;
    assert!(
        ran.err
            .contains("note: HelmRelease shop reads values from Secret shop"),
        "{ran:#?}"
    );
    let listed = ran.good();
    assert!(
        listed.contains("clusters/my-cluster/infrastructure.yaml\n"),
        "{listed}"
    );

    let below = kustomize(&folder.path().join("infrastructure/my-cluster")).await;
    let kinds: Vec<&Value> = below.iter().map(|object| &object["kind"]).collect();
    assert_eq!(kinds, ["HelmRelease", "HelmRepository"]);
    let spec = &below[0]["spec"];
    assert_eq!(spec["releaseName"], "net");
    assert_eq!(
        spec["storageNamespace"], "kube-system",
        "where its records are"
    );
    assert_eq!(spec["values"], json!({"mode": "on", "port": "0080"}));
    let above = kustomize(&folder.path().join("apps/my-cluster")).await;
    assert_eq!(above.len(), 3, "{above:#?}");
    let whole = fs::read_to_string(folder.path().join("clusters/my-cluster/apps.yaml")).unwrap();
    assert!(whole.contains("- name: infrastructure\n"), "{whole}");

    desk.cluster_command(&export).await.good();
    let file = folder.path().join("apps/my-cluster/release-shop.yaml");
    fs::write(&file, "kind: Mine\n").unwrap();
    let said = desk.cluster_command(&export).await.bad(6);
    assert!(
        said.contains("release-shop.yaml was not written by an export"),
        "{said}"
    );
}

#[tokio::test]
async fn objects_go_to_standard_output_without_the_content_of_any_secret() {
    let desk = desk().await;
    let text = desk.cluster_command(&["export", "my-cluster"]).await.good();
    assert!(!text.contains("hunter2"), "{text}");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let kinds: Vec<&str> = objects
        .iter()
        .map(|object| object["kind"].as_str().unwrap())
        .collect();
    let expected = [
        "HelmRepository",
        "HelmRelease",
        "HelmRepository",
        "ConfigMap",
        "HelmRelease",
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn a_cluster_without_addons_and_a_folder_outside_are_refused() {
    let desk = Desk::with(json!({})).await;
    let said = desk.cluster_command(&["export", "my-cluster"]).await.bad(3);
    assert!(said.contains("it has no TenantAddons"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().to_str().unwrap();
    let outside = ["export", "my-cluster", "-d", target, "--path", "../up"];
    let said = desk.cluster_command(&outside).await.bad(2);
    assert!(said.contains("is no folder of a repository"), "{said}");
}
