//! Claims and pools that are wrong: they say so, nothing is lost, and a correction heals.

use butler_api::butler::NetworkPool;
use butler_testkit::{Options, PATIENCE, wait_for, wait_for_condition};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::{
    scene::{self, TEN, claim, claims, cluster, granted, holders, pools, refused},
    stage,
};

#[tokio::test]
async fn claims_that_cannot_be_served_say_why_and_a_correction_heals() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server.apply_yaml(&claim("early", "count: 1")).await;
    refused(&server, "early", "PoolNotFound").await;
    server.apply_yaml(TEN).await;
    refused(&server, "early", "OwnerMissing").await;
    server.apply_yaml(&cluster("shop")).await;
    granted(&server, "early").await;

    let pinned = |start: &str, end: &str| {
        format!("pinnedRange: {{startAddress: {start}, endAddress: {end}}}")
    };
    for (name, more, reason, says) in [
        (
            "huge",
            "count: 11".to_owned(),
            "PoolTooSmall",
            "the pool has 10 in all",
        ),
        (
            "outside",
            pinned("10.41.0.1", "10.41.0.2"),
            "InvalidRange",
            "10.41.0.1 does not lie inside the pool",
        ),
        (
            "closed",
            pinned("10.40.0.9", "10.40.0.12"),
            "InvalidRange",
            "10.40.0.11 is not for tenants",
        ),
        (
            "taken",
            pinned("10.40.0.1", "10.40.0.1"),
            "RangeInUse",
            "10.40.0.1 is in use",
        ),
        (
            "unequal",
            format!("count: 3, {}", pinned("10.40.0.4", "10.40.0.5")),
            "InvalidRange",
            "spec.count is 3",
        ),
    ] {
        server.apply_yaml(&claim(name, &more)).await;
        let message = refused(&server, name, reason).await;
        assert!(message.contains(says), "{message}");
    }
    let params = PatchParams::default();
    let fix = json!({"spec": {"count": 2}});
    claims(&server)
        .patch("huge", &params, &Patch::Merge(&fix))
        .await
        .unwrap();
    assert_eq!(
        granted(&server, "huge").await.ranges,
        ["10.40.0.2-10.40.0.3"]
    );
    claims(&server)
        .patch("unequal", &params, &Patch::Merge(&fix))
        .await
        .unwrap();
    assert_eq!(
        granted(&server, "unequal").await.ranges,
        ["10.40.0.4-10.40.0.5"]
    );
    claims(&server)
        .delete("early", &DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(
        granted(&server, "taken").await.ranges,
        ["10.40.0.1-10.40.0.1"]
    );
    holders(&server).await;
}

#[tokio::test]
async fn a_pool_that_shrinks_under_live_claims_names_them_and_they_keep_what_they_have() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server.apply_yaml(TEN).await;
    server.apply_yaml(&cluster("shop")).await;
    server.apply_yaml(&claim("one", "count: 8")).await;
    granted(&server, "one").await;
    let less = TEN.replace("end: 10.40.0.10", "end: 10.40.0.4");
    server.apply_yaml(&less).await;
    let shrunk = wait_for_condition(&pools(&server), "ten", "Consistent", "False").await;
    let text = serde_json::to_string(&shrunk.status).unwrap();
    assert!(
        text.contains("HeldOutside") && text.contains("10.40.0.5"),
        "{text}"
    );
    assert_eq!(holders(&server).await.len(), 8);
    server.apply_yaml(TEN).await;
    wait_for_condition(&pools(&server), "ten", "Consistent", "True").await;
}

#[tokio::test]
async fn of_two_pools_with_the_same_addresses_one_is_refused_until_they_part() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server.apply_yaml(TEN).await;
    let other = TEN.replace("name: ten", "name: other");
    server.apply_yaml(&other).await;
    let overlaps = |with: &'static str| {
        move |pool: &NetworkPool| {
            let conditions = pool.status.iter().flat_map(|status| &status.conditions);
            conditions
                .into_iter()
                .any(|held| held.reason == "Overlap" && held.message.contains(with))
        }
    };
    // Of two that were made in the same second either can be the later one.
    let pools = pools(&server);
    let what = "a word about the overlap";
    let (refused_pool, serving) = tokio::select! {
        _ = wait_for(&pools, "other", what, PATIENCE, overlaps("butler-system/ten")) => ("other", "ten"),
        _ = wait_for(&pools, "ten", what, PATIENCE, overlaps("butler-system/other")) => ("ten", "other"),
    };
    server.apply_yaml(&cluster("shop")).await;
    server
        .apply_yaml(&scene::claim_of("shop", refused_pool, "one", "count: 1"))
        .await;
    refused(&server, "one", "PoolNotReady").await;
    wait_for_condition(&pools, serving, "Ready", "True").await;
    let apart = TEN
        .replace("name: ten", &format!("name: {refused_pool}"))
        .replace(
            "start: 10.40.0.1, end: 10.40.0.10",
            "start: 10.40.0.11, end: 10.40.0.20",
        );
    server.apply_yaml(&apart).await;
    assert_eq!(
        granted(&server, "one").await.ranges,
        ["10.40.0.11-10.40.0.11"]
    );
}
