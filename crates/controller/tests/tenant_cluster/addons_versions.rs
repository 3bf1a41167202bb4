//! Versions of addons: an upgrade waits for one that runs on the release, and one that comes by itself for a window.

use butler_api::butler::{AddonDefinition, TenantAddon, tenant_cluster::Phase};
use butler_testkit::{PATIENCE, wait_for, wait_for_condition};
use jiff::SignedDuration;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    DEMO,
    addons::{Scene, message},
    clock, clusters,
    day2::later,
    driver::Driver,
    join::look,
    patch,
};

const ADDON: &str = "demo-metrics-server";

async fn amend(definitions: &Api<AddonDefinition>, spec: Value) {
    let change = Patch::Merge(json!({ "spec": spec }));
    let parameters = PatchParams::default();
    let amended = definitions.patch("metrics-server", &parameters, &change);
    amended.await.unwrap();
}

#[tokio::test]
async fn an_upgrade_out_of_the_range_of_an_addon_waits_until_a_version_runs_that_suits_it() {
    const RANGE: &str = ">=1.30 <1.35";
    let scene = Scene::new("team-u").await;
    scene
        .define("metrics-server", "observability", &json!({}))
        .await;
    let definitions: Api<AddonDefinition> = Api::all(scene.server.client());
    let ranges =
        json!({"kubernetesVersions": RANGE, "chart": {"kubernetesVersions": {"2.0.0": ">=1.33"}}});
    amend(&definitions, ranges).await;
    let _controllers = scene.run();
    let asked = json!({"kubernetesVersion": "v1.34.4", "addons": {"monitoring": {"provider": "metrics-server"}}});
    scene.make(&asked).await;
    scene.until("Ready", "True", "Ready").await;

    scene
        .change(json!({"spec": {"kubernetesVersion": "v1.35.4"}}))
        .await;
    let demo = scene.until("Ready", "True", "ActionNeeded").await;
    let said = message(&demo, "Ready");
    for word in [ADDON, "1.0.0", RANGE, "give the addon a version"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let status = demo.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Ready));
    let seen = status.observed_state.unwrap().kubernetes_version;
    assert_eq!(seen.as_deref(), Some("v1.34.4"));
    // It works all the while: what only is wanted is nothing to judge it by.
    let addon = scene.addons().get(ADDON).await.unwrap();
    let conditions = addon.status.unwrap().conditions;
    assert!(butler_runtime::conditions::is_true(&conditions, "Ready"));

    scene
        .change(json!({"spec": {"addons": {"monitoring": {"version": "2.0.0"}}}}))
        .await;
    let what = "the upgrade";
    wait_for(&scene.clusters(), "demo", what, PATIENCE, |demo| {
        let status = demo.status.clone().unwrap_or_default();
        let seen = status
            .observed_state
            .and_then(|seen| seen.kubernetes_version);
        seen.as_deref() == Some("v1.35.4") && status.phase == Some(Phase::Ready)
    })
    .await;
    assert_eq!(
        scene.installed("metrics-server").await.as_deref(),
        Some("2.0.0")
    );
}

/// Plays what installs: the addon has the version that it was asked to have.
async fn install(addons: &Api<TenantAddon>) {
    let addon = wait_for(addons, ADDON, "the addon", PATIENCE, |_| true).await;
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "Played", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = Patch::Merge(json!({"status": {
        "observedGeneration": addon.metadata.generation, "phase": "Installed",
        "installedVersion": addon.spec.version, "conditions": [ready],
    }}));
    let parameters = PatchParams::default();
    let played = addons.patch_status(ADDON, &parameters, &status);
    played.await.unwrap();
}

#[tokio::test]
async fn a_version_that_comes_by_itself_waits_for_the_window_and_one_that_is_asked_for_does_not() {
    let server = crate::stage().await;
    let (clock, _controllers) = clock::run(&server);
    let _driver = Driver::start(&server.client());
    let definition = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "AddonDefinition",
        "metadata": {"name": "metrics-server"},
        "spec": {
            "displayName": "Metrics", "description": "small", "category": "observability",
            "chart": {"repository": "https://charts.example.com", "name": "small", "defaultVersion": "1.0.0"},
        },
    });
    server.apply_yaml(&definition.to_string()).await;
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-w"))
        .await;
    let clusters = clusters(&server, "team-w");
    let (schedule, opens) = later(6);
    let asked = json!({
        "maintenance": {"windows": [{"schedule": schedule, "duration": "1h"}]},
        "addons": {"monitoring": {"provider": "metrics-server"}},
    });
    patch(&clusters, json!({ "spec": asked })).await;
    let addons: Api<TenantAddon> = Api::namespaced(server.client(), "team-w");
    install(&addons).await;
    wait_for_condition(&clusters, "demo", "Ready", "True").await;
    let version = || async { addons.get(ADDON).await.unwrap().spec.version };
    assert_eq!(version().await.as_deref(), Some("1.0.0"));

    let definitions: Api<AddonDefinition> = Api::all(server.client());
    amend(&definitions, json!({"chart": {"defaultVersion": "1.1.0"}})).await;
    let waits = format!("version 1.1.0 waits for the maintenance window that opens at {opens}");
    wait_for(&clusters, "demo", &waits, PATIENCE, |demo| {
        message(demo, "Ready").contains(&waits)
    })
    .await;
    assert_eq!(version().await.as_deref(), Some("1.0.0"));

    clock.reach(opens + SignedDuration::from_mins(5));
    look(&clusters, "the window is open").await;
    let has = |wanted: &'static str| {
        move |addon: &TenantAddon| addon.spec.version.as_deref() == Some(wanted)
    };
    wait_for(&addons, ADDON, "the new version", PATIENCE, has("1.1.0")).await;
    install(&addons).await;

    clock.reach(opens + SignedDuration::from_hours(2));
    let own = json!({"spec": {"addons": {"monitoring": {"version": "3.0.0"}}}});
    patch(&clusters, own).await;
    wait_for(&addons, ADDON, "the user's version", PATIENCE, has("3.0.0")).await;
}
