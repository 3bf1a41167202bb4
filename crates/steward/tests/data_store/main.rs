//! Stores on a real management API server, with real etcds behind them.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod drift;
mod faults;
mod members;
mod metering;
#[path = "../store/raw.rs"]
#[allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "another test uses the rest"
)]
mod raw;
mod settings;
mod stage;

use butler_api::steward::TenantControlPlane;
use butler_testkit::{etcd::TlsEtcd, wait_until_gone};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use stage::{FAST, SLOW};

#[tokio::test]
async fn a_store_in_use_waits_for_its_users_and_goes_with_the_last_of_them() {
    let (server, etcd) = (stage::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server, SLOW);
    server
        .apply_yaml(&etcd.data_store("main").to_string())
        .await;
    for name in ["blue", "green"] {
        home.apply_yaml(&stage::control_plane(name, "main")).await;
        stage::plane_is(&home, name, "StoreReady", "True", "Ready").await;
    }
    let stores = stage::stores(&server);
    stores
        .delete("main", &DeleteParams::default())
        .await
        .unwrap();
    let waits = stage::store_is(&server, "main", "Deleting", "True", "InUse").await;
    let both = format!("{0}/blue, {0}/green;", home.name());
    assert!(waits.message.contains(&both), "{}", waits.message);
    // It still serves those that are in it, and nobody new.
    stage::store_is(&server, "main", "Ready", "True", "Ready").await;
    home.apply_yaml(&stage::control_plane("late", "main")).await;
    stage::plane_is(&home, "late", "StoreReady", "False", "StoreDeleting").await;

    let planes = home.api::<TenantControlPlane>();
    planes
        .delete("blue", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&planes, "blue").await;
    let one = format!("here: {}/green;", home.name());
    butler_testkit::wait_for(
        &stores,
        "main",
        "one user",
        butler_testkit::PATIENCE,
        |store| {
            let conditions = store.status.iter().flat_map(|status| &status.conditions);
            conditions
                .into_iter()
                .any(|held| held.message.contains(&one))
        },
    )
    .await;
    planes
        .delete("green", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&stores, "main").await;
    stage::plane_is(&home, "late", "StoreReady", "False", "StoreNotFound").await;
    assert_eq!(stage::root(&etcd).everything().await, []);
}

#[tokio::test]
async fn a_store_that_nobody_uses_goes_at_once() {
    let (server, etcd) = (stage::server().await, TlsEtcd::start().await.unwrap());
    let _steward = stage::steward(&server, SLOW);
    server
        .apply_yaml(&etcd.data_store("main").to_string())
        .await;
    stage::store_is(&server, "main", "Ready", "True", "Ready").await;
    let stores = stage::stores(&server);
    stores
        .delete("main", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&stores, "main").await;
}

#[tokio::test]
async fn a_namespace_that_is_let_in_later_gets_its_place_then() {
    let (server, etcd) = (stage::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server, SLOW);
    let mut store = etcd.data_store("main");
    store["spec"]["allowedNamespaces"] = json!(["somewhere-else"]);
    server.apply_yaml(&store.to_string()).await;
    home.apply_yaml(&stage::control_plane("blue", "main")).await;
    let (_, refused) =
        stage::plane_is(&home, "blue", "StoreReady", "False", "NamespaceNotAllowed").await;
    assert!(refused.message.contains(home.name()), "{}", refused.message);
    store["spec"]["allowedNamespaces"] = json!([home.name()]);
    server.apply_yaml(&store.to_string()).await;
    stage::plane_is(&home, "blue", "StoreReady", "True", "Ready").await;
}

#[tokio::test]
async fn a_dedicated_store_has_one_tenant_and_says_whose_it_is() {
    let (server, etcd) = (stage::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server, SLOW);
    let mut store = etcd.data_store("alone");
    store["spec"]["tenancy"] = json!("Dedicated");
    server.apply_yaml(&store.to_string()).await;
    home.apply_yaml(&stage::control_plane("blue", "alone"))
        .await;
    stage::plane_is(&home, "blue", "StoreReady", "True", "Ready").await;
    home.apply_yaml(&stage::control_plane("green", "alone"))
        .await;
    let (_, refused) = stage::plane_is(&home, "green", "StoreReady", "False", "Conflict").await;
    let owner = format!("belongs to tenant {}/blue", home.name());
    assert!(refused.message.contains(&owner), "{}", refused.message);
    let planes = home.api::<TenantControlPlane>();
    planes
        .delete("blue", &DeleteParams::default())
        .await
        .unwrap();
    stage::plane_is(&home, "green", "StoreReady", "True", "Ready").await;
}

#[tokio::test]
async fn a_tenant_whose_store_is_gone_says_so_and_ends_by_force() {
    let (server, mut etcd) = (stage::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server, FAST);
    server
        .apply_yaml(&etcd.data_store("main").to_string())
        .await;
    home.apply_yaml(&stage::control_plane("blue", "main")).await;
    stage::plane_is(&home, "blue", "StoreReady", "True", "Ready").await;
    etcd.stop(0).await.unwrap();
    stage::store_is(&server, "main", "Ready", "False", "Unreachable").await;
    let (_, unready) = stage::plane_is(&home, "blue", "StoreReady", "False", "Unreachable").await;
    assert!(
        unready.message.contains("DataStore main"),
        "{}",
        unready.message
    );

    let planes = home.api::<TenantControlPlane>();
    planes
        .delete("blue", &DeleteParams::default())
        .await
        .unwrap();
    let (_, waits) =
        stage::plane_is(&home, "blue", "WorkloadReady", "False", "DataNotDeleted").await;
    for words in ["\"main\"", "steward.butlerlabs.dev/force-delete"] {
        assert!(waits.message.contains(words), "{}", waits.message);
    }
    let force = json!({"metadata": {"annotations": {"steward.butlerlabs.dev/force-delete": ""}}});
    let params = PatchParams::default();
    planes
        .patch("blue", &params, &Patch::Merge(&force))
        .await
        .unwrap();
    wait_until_gone(&planes, "blue").await;
}
