//! Addresses of machines come from a pool, by Cluster API's contract.

use std::sync::Arc;

use butler_api::addresses::{IPAddress, IPAddressClaim};
use butler_runtime::task;
use butler_testkit::{Namespace, PATIENCE, wait_for};
use kube::{ResourceExt as _, api::DeleteParams};
use serde_json::json;

use crate::{
    DATA,
    stage::{self, Play},
};

/// Answers a claim as a provider of addresses does.
async fn grant(home: &Namespace, claim: &IPAddressClaim, address: &str) {
    let owner = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim", "controller": true,
        "name": claim.name_any(), "uid": claim.metadata.uid,
    });
    let pool = json!({"apiGroup": "butler.butlerlabs.dev", "kind": "NetworkPool", "name": "lab"});
    let made = json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
        "kind": "IPAddress",
        "metadata": {"name": claim.name_any(), "ownerReferences": [owner]},
        "spec": {
            "address": address, "prefix": 25, "poolRef": pool, "claimRef": {"name": claim.name_any()},
        },
    });
    home.apply_yaml(&made.to_string()).await;
}

#[tokio::test]
async fn a_machine_waits_for_the_address_that_its_pool_gives_and_keeps_it() {
    let server = stage::server().await;
    let home = server.namespace("team").await;
    let play = Play::new();
    let start = || {
        let work = stage::work_with(server.client(), Arc::clone(&play), Some("lab".to_owned()));
        task::spawn("local provider", work)
    };
    let provider = start();
    stage::cluster(&home, "sky").await;
    stage::provisioned_cluster(&home, "sky").await;
    stage::machine(&home, "sky", "w1", &json!({})).await;
    let claims = home.api::<IPAddressClaim>();
    let claim = wait_for(&claims, "w1", "a claim", PATIENCE, |_| true).await;
    let pool = &claim.spec.pool_ref;
    assert_eq!(
        (pool.kind.as_str(), pool.name.as_str()),
        ("NetworkPool", "lab")
    );
    assert_eq!(claim.spec.cluster_name.as_deref(), Some("sky"));
    assert_eq!(claim.owner_references()[0].kind, "LocalMachine");

    // Everything else is there, and no address: it is not started.
    stage::bootstrap(&home, "w1", DATA).await;
    stage::reason(&home, "w1", "Ready", "WaitingForAddress").await;
    assert!(play.spec("w1").is_none());

    grant(&home, &claim, "10.40.0.77").await;
    stage::reason(&home, "w1", "BootstrapSucceeded", "Working").await;
    let given = |play: &Play| play.spec("w1").unwrap().address.to_string();
    assert_eq!(given(&play), "10.40.0.77");

    // A provider that starts again asks for nothing new.
    drop(provider);
    let _provider = start();
    stage::succeed(&play, "w1");
    stage::reason(&home, "w1", "Ready", "Running").await;
    let again = claims.get("w1").await.unwrap();
    assert_eq!(again.metadata.uid, claim.metadata.uid);

    // An address that somebody removed is missed and not replaced by another.
    let addresses = home.api::<IPAddress>();
    addresses
        .delete("w1", &DeleteParams::default())
        .await
        .unwrap();
    stage::reason(&home, "w1", "Ready", "WaitingForAddress").await;
    grant(&home, &claim, "10.40.0.77").await;
    stage::reason(&home, "w1", "Ready", "Running").await;
}
