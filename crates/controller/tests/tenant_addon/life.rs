//! Install, upgrade, drift, roll back, remove.

use butler_testkit::{Options, PATIENCE, wait_for, wait_until_gone};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Secret},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{scene::Scene, stage};

async fn scene() -> Scene {
    Scene::new(stage::server(Options::default()).await).await
}

#[tokio::test]
async fn an_addon_is_installed_upgraded_and_removed_as_helm_knows_it_and_secrets_stay_secret() {
    let scene = scene().await;
    let _controllers = scene.run();
    let values = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "values", "namespace": scene.namespace,
            "labels": {"butler.butlerlabs.dev/for-addons": "true"}},
        "stringData": {"password": "hunter2-hunter2"}});
    scene.server.apply_yaml(&values.to_string()).await;
    let from = json!([{"secret": "values", "key": "password", "targetPath": "password"}]);
    scene
        .add(
            "web",
            &json!({"spec": {"values": {"greeting": "hi"}, "valuesFrom": from}}),
        )
        .await;
    let addon = scene.until("web", "Ready", "Ready").await;
    let status = addon.status.clone().unwrap();
    assert_eq!(status.installed_version.as_deref(), Some("1.0.0"));
    let listed = scene.helm(&["list", "--all-namespaces"]);
    assert!(
        listed.contains("web") && listed.contains("small-1.0.0"),
        "{listed}"
    );
    let maps: Api<ConfigMap> = Api::namespaced(scene.server.client(), "web");
    assert_eq!(
        maps.get("web").await.unwrap().data.unwrap()["greeting"],
        "hi"
    );
    let secret = scene.secrets("web").get("web").await.unwrap();
    assert_eq!(secret.data.unwrap()["password"].0, b"hunter2-hunter2");

    scene
        .change("web", &json!({"spec": {"version": "2.0.0"}}))
        .await;
    let addon = scene.until("web", "Ready", "Ready").await;
    let release = addon.status.clone().unwrap().helm_release.unwrap();
    assert_eq!(
        (release.revision, release.version.as_deref()),
        (Some(2), Some("2.0.0"))
    );
    assert_eq!(
        maps.get("web").await.unwrap().data.unwrap()["version"],
        "2.0.0"
    );
    let history = scene.helm(&["history", "web", "--namespace", "web"]);
    assert!(
        history.contains("superseded") && history.contains("deployed"),
        "{history}"
    );
    let seen = serde_json::to_string(&addon).unwrap();
    assert!(!seen.contains("hunter2"), "a secret in {seen}");

    scene
        .addons()
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&scene.addons(), "web").await;
    let left = scene
        .secrets("web")
        .list(&ListParams::default())
        .await
        .unwrap();
    assert!(left.items.is_empty(), "{:?}", left.items);
    assert!(maps.get_opt("web").await.unwrap().is_none());
    let private = std::fs::read_dir(scene.folder.path().join("private")).unwrap();
    assert_eq!(private.count(), 0, "files with credentials are left");
    let home = std::fs::read_dir(scene.folder.path().join("home")).unwrap();
    let kept: Vec<_> = home.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        !kept.contains(&".kube".into()),
        "{kept:?} stay for a tenant"
    );
}

#[tokio::test]
async fn a_namespace_that_was_made_for_an_addon_goes_with_it_unless_somebody_uses_it() {
    let scene = scene().await;
    let _controllers = scene.run();
    let given = "{apiVersion: v1, kind: Namespace, metadata: {name: given}}";
    scene.server.apply_yaml(given).await;
    for name in ["web", "used", "given"] {
        scene.add(name, &json!({})).await;
        scene.until(name, "Ready", "Ready").await;
    }
    let own = "{apiVersion: v1, kind: Secret, metadata: {name: own, namespace: used}}";
    scene.server.apply_yaml(own).await;
    for name in ["web", "used", "given"] {
        let addons = scene.addons();
        addons.delete(name, &DeleteParams::default()).await.unwrap();
        wait_until_gone(&addons, name).await;
    }
    let namespaces: Api<Namespace> = Api::all(scene.server.client());
    let mut going = Vec::new();
    for name in ["web", "used", "given"] {
        // Nobody finishes the removal on this server.
        let held = namespaces.get(name).await.unwrap();
        going.push(held.metadata.deletion_timestamp.is_some());
    }
    assert_eq!(going, [true, false, false]);
    scene.add("web", &json!({})).await;
    let addon = scene.until("web", "Ready", "ReleaseBusy").await;
    let said = addon.status.unwrap().message.unwrap();
    assert!(said.contains("namespace web is being removed"), "{said}");
}

#[tokio::test]
async fn ten_addons_of_one_chart_fetch_it_once_and_a_quiet_addon_writes_nothing() {
    let scene = scene().await;
    let _controllers = scene.run();
    for index in 0..10 {
        scene.add(&format!("copy-{index}"), &json!({})).await;
    }
    for index in 0..10 {
        scene
            .until(&format!("copy-{index}"), "Ready", "Ready")
            .await;
    }
    assert_eq!(scene.repository.fetched(), 1);
    let mark = scene.server.mark().await;
    // A pass over an addon that stands: looked at, and left as it is.
    scene
        .change("copy-3", &json!({"metadata": {"labels": {"looked": "at"}}}))
        .await;
    scene.add("last", &json!({})).await;
    scene.until("last", "Ready", "Ready").await;
    let writes = scene.server.writes(mark).await.to_string();
    let about = |line: &&str| line.contains("copy-") && !line.contains("tenantaddons/copy-3");
    let again: Vec<&str> = writes.lines().filter(about).collect();
    assert!(again.is_empty(), "{again:?}");
}

#[tokio::test]
async fn what_somebody_changes_or_deletes_is_put_back_and_reported_where_that_is_wanted() {
    let scene = scene().await;
    let controllers = scene.run();
    scene.add("web", &json!({})).await;
    scene
        .add("loose", &json!({"spec": {"drift": "report"}}))
        .await;
    scene.until("web", "Ready", "Ready").await;
    scene.until("loose", "Ready", "Ready").await;
    drop(controllers);
    let maps = |namespace: &str| Api::<ConfigMap>::namespaced(scene.server.client(), namespace);
    let vandal = PatchParams::apply("vandal").force();
    for name in ["web", "loose"] {
        let change =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"greeting": "go away"}});
        maps(name)
            .patch(name, &vandal, &Patch::Apply(&change))
            .await
            .unwrap();
    }
    let secrets = scene.secrets("web");
    secrets
        .delete("web", &DeleteParams::default())
        .await
        .unwrap();
    let _controllers = scene.run();
    wait_for(&maps("web"), "web", "the greeting", PATIENCE, |map| {
        map.data
            .as_ref()
            .is_some_and(|data| data["greeting"] == "hello")
    })
    .await;
    let made = wait_for::<Secret>(&scene.secrets("web"), "web", "it", PATIENCE, |_| true).await;
    let marks = made.metadata.annotations.unwrap();
    assert_eq!(marks["meta.helm.sh/release-name"], "web");
    let told = wait_for(
        &scene.addons(),
        "loose",
        "a word about drift",
        PATIENCE,
        |addon| {
            let message = addon
                .status
                .as_ref()
                .and_then(|status| status.message.as_deref());
            message.is_some_and(|message| message.contains("changed by somebody"))
        },
    )
    .await;
    let message = told.status.unwrap().message.unwrap();
    assert!(message.contains("ConfigMap loose"), "{message}");
    assert_eq!(
        maps("loose").get("loose").await.unwrap().data.unwrap()["greeting"],
        "go away"
    );
    let history = scene.helm(&["history", "web", "--namespace", "web", "-o", "json"]);
    assert_eq!(
        history.matches("revision").count(),
        1,
        "a correction is no upgrade: {history}"
    );
}

#[tokio::test]
async fn what_somebody_changes_is_neither_put_back_nor_said_where_nobody_shall_look() {
    let scene = scene().await;
    let _controllers = scene.run();
    scene.add("web", &json!({"spec": {"drift": "off"}})).await;
    scene.until("web", "Ready", "Ready").await;
    let maps = Api::<ConfigMap>::namespaced(scene.server.client(), "web");
    let change = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"greeting": "go away"}});
    let vandal = PatchParams::apply("vandal").force();
    let changed = maps.patch("web", &vandal, &Patch::Apply(&change)).await;
    changed.unwrap();
    // A pass over it that changes nothing of the release.
    scene
        .change("web", &json!({"spec": {"historyLimit": 5}}))
        .await;
    let addon = scene.until("web", "Ready", "Ready").await;
    let said = addon.status.unwrap().message.unwrap();
    assert!(!said.contains("changed by somebody"), "{said}");
    let kept = maps.get("web").await.unwrap().data.unwrap();
    assert_eq!(kept["greeting"], "go away");
}

#[tokio::test]
async fn an_upgrade_that_does_not_become_healthy_is_rolled_back_and_not_tried_again() {
    let scene = scene().await;
    let _controllers = scene.run();
    scene.add("web", &json!({})).await;
    scene.until("web", "Ready", "Ready").await;
    let ill = json!({"spec": {"timeout": "2s", "values": {"workload": "nowhere"}}});
    scene.change("web", &ill).await;
    let addon = scene.until("web", "Installed", "RolledBack").await;
    let message = addon.status.unwrap().message.unwrap();
    assert!(message.contains("butler.butlerlabs.dev/retry"), "{message}");
    let history = scene.helm(&["history", "web", "--namespace", "web"]);
    assert!(history.contains("Rollback to 1"), "{history}");
    let deployments: Api<Deployment> = Api::namespaced(scene.server.client(), "web");
    assert!(deployments.get_opt("web").await.unwrap().is_none());
    scene
        .change("web", &json!({"spec": {"values": null}}))
        .await;
    scene.until("web", "Ready", "Ready").await;
}

#[tokio::test]
async fn progress_is_counted_and_health_is_noted_when_it_comes() {
    let scene = scene().await;
    let _controllers = scene.run();
    scene
        .add("web", &json!({"spec": {"values": {"workload": "app"}}}))
        .await;
    let addon = scene.until("web", "Healthy", "Progressing").await;
    let message = addon.status.unwrap().message.unwrap();
    assert!(
        message.contains("2 of 3 ready; Deployment web"),
        "{message}"
    );
    let deployments: Api<Deployment> = Api::namespaced(scene.server.client(), "web");
    let status = json!({"status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
        "readyReplicas": 1, "availableReplicas": 1}});
    let params = PatchParams::default();
    deployments
        .patch_status("web", &params, &Patch::Merge(&status))
        .await
        .unwrap();
    scene.until("web", "Ready", "Ready").await;
}
