//! Resources that are kept in a second store.

use butler_api::steward::DataStore;
use butler_testkit::{etcd::TlsEtcd, wait_until_gone};
use kube::{Api, api::DeleteParams};

use crate::{
    changes, raw,
    serving::{is_ready, kubectl, platform_with_two_stores},
    stage,
};

const WISH: &str = "dataStoreOverrides: [{resource: /configmaps, dataStore: second}]";

async fn keys(etcd: &TlsEtcd) -> Vec<String> {
    let root = raw::User::connect(&etcd.endpoint(), etcd.authority().0, etcd.client("root"));
    let entries = root.everything().await.into_iter();
    entries
        .map(|entry| String::from_utf8_lossy(&entry.key).into_owned())
        .collect()
}

#[tokio::test]
async fn one_resource_lives_in_a_second_store_and_is_gone_from_both_with_the_tenant() {
    let (platform, [first, second]) = platform_with_two_stores().await;
    let home = &platform.home;
    let wish = format!("dataStore: first\n  {WISH}");
    home.apply_yaml(&stage::control_plane("blue", &wish)).await;
    is_ready(home, "blue").await;
    kubectl(&platform, "blue", &["create", "configmap", "elsewhere"]).await;
    kubectl(&platform, "blue", &["create", "secret", "generic", "here"]).await;
    let holds = |keys: &[String], end: &str| keys.iter().any(|key| key.ends_with(end));
    let (in_first, in_second) = (keys(&first).await, keys(&second).await);
    assert!(
        holds(&in_second, "/configmaps/default/elsewhere"),
        "{in_second:?}"
    );
    assert!(
        !holds(&in_first, "/configmaps/default/elsewhere"),
        "{in_first:?}"
    );
    assert!(holds(&in_first, "/secrets/default/here"), "{in_first:?}");
    assert!(!holds(&in_second, "/secrets/default/here"), "{in_second:?}");

    changes::delete(home, "blue").await;
    for etcd in [&first, &second] {
        let left = keys(etcd).await;
        assert!(!left.iter().any(|key| key.contains("default/")), "{left:?}");
    }
}

#[tokio::test]
async fn a_second_store_with_another_authority_is_refused_in_words() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    let other = TlsEtcd::start().await.unwrap();
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server);
    stage::store(&server, "default", &etcd).await;
    home.apply_yaml(&stage::control_plane("blue", WISH)).await;
    stage::refused(&home, "blue", "StoreReady", "StoreNotFound").await;
    stage::store(&server, "second", &other).await;
    let message = stage::refused(&home, "blue", "StoreReady", "AuthoritiesDiffer").await;
    assert!(message.contains("with one certificate"), "{message}");
}

#[tokio::test]
async fn a_second_store_that_is_deleted_stays_for_its_users_and_takes_no_new_one() {
    let server = crate::server().await;
    let first = TlsEtcd::start().await.unwrap();
    let second = first.start_beside().await.unwrap();
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server);
    stage::store(&server, "default", &first).await;
    stage::store(&server, "second", &second).await;
    changes::placed(&home, "blue", WISH, "127.0.0.87").await;
    let stores: Api<DataStore> = Api::all(server.client());
    let params = DeleteParams::default();
    stores.delete("second", &params).await.unwrap();
    home.apply_yaml(&stage::control_plane("green", WISH)).await;
    let message = stage::refused(&home, "green", "StoreReady", "StoreDeleting").await;
    assert!(message.contains("DataStore second"), "{message}");
    let held = stores.get("second").await.unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    changes::delete(&home, "blue").await;
    wait_until_gone(&stores, "second").await;
}
