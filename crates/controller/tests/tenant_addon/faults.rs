//! Controllers that are killed, and writes that go wrong.

use std::time::Duration;

use butler_testkit::{Options, PATIENCE, wait_for};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{scene::Scene, stage};

#[tokio::test]
async fn a_controller_killed_in_the_middle_of_an_installation_ten_times_still_ends_healthy() {
    let scene = Scene::new(stage::server(Options::default()).await).await;
    scene.add("web", &json!({})).await;
    let mut pending = 0;
    for turn in 0..10_u64 {
        let version = ["1.0.0", "2.0.0"][usize::try_from(turn % 2).unwrap()];
        scene
            .change("web", &json!({"spec": {"version": version}}))
            .await;
        let controllers = scene.run();
        // Killed at another moment each time: that is what is tested, nothing waits for this.
        tokio::time::sleep(Duration::from_millis(60 + 45 * turn)).await;
        drop(controllers);
        let listed = scene.helm(&["list", "--all-namespaces", "--pending"]);
        pending += usize::from(listed.contains("pending-"));
    }
    println!("left pending {pending} times of 10");
    let _controllers = scene.run();
    let addon = scene.until("web", "Ready", "Ready").await;
    assert_eq!(
        addon.status.unwrap().installed_version.as_deref(),
        Some("2.0.0")
    );
}

#[tokio::test]
async fn a_release_that_a_killed_controller_left_pending_is_recovered() {
    let scene = Scene::new(stage::server(Options::default()).await).await;
    scene.add("web", &json!({})).await;
    let controllers = scene.run();
    scene.until("web", "Ready", "Ready").await;
    drop(controllers);
    // As one is found whose controller died between its first and its last word.
    let (secrets, record) = (scene.secrets("web"), "sh.helm.release.v1.web.v1");
    let pending = Patch::Merge(json!({"metadata": {"labels": {"status": "pending-upgrade"}}}));
    let parameters = PatchParams::default();
    let planted = secrets.patch(record, &parameters, &pending);
    planted.await.unwrap();
    let _controllers = scene.run();
    let is_recovered = |secret: &Secret| {
        let status = secret.labels().get("status");
        status.is_some_and(|status| !status.starts_with("pending"))
    };
    wait_for(&secrets, record, "the record", PATIENCE, is_recovered).await;
    scene.until("web", "Ready", "Ready").await;
    let pending = scene.helm(&["list", "--all-namespaces", "--pending"]);
    assert!(!pending.contains("pending-"), "{pending}");
}
