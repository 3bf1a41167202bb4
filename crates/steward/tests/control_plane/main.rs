//! Hosted control planes on a real management API server and a real etcd.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod audit;
mod authority;
mod changes;
mod encryption;
mod exposure;
mod faults;
mod faults_of_changes;
mod freeze;
mod overrides;
#[path = "../store/raw.rs"]
#[allow(dead_code, unreachable_pub, reason = "other tests use the rest of it")]
mod raw;
mod serving;
mod stage;
mod taken;
mod tunnel;

use butler_api::steward::{DataStore, TenantControlPlane};
use butler_testkit::{
    Options, PATIENCE, Server, etcd::TlsEtcd, wait_for, wait_for_condition, wait_until_gone,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Secret, Service},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};

async fn server() -> Server {
    Server::start(Options::default().with_controller_manager())
        .await
        .expect("an API server starts")
}

#[tokio::test]
async fn a_control_plane_gets_its_place_its_certificates_and_its_pods() {
    let (server, etcd) = (server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server);
    stage::store(&server, "default", &etcd).await;
    let stores: Api<DataStore> = Api::all(server.client());
    wait_for_condition(&stores, "default", "Ready", "True").await;

    home.apply_yaml(&stage::control_plane("blue", "")).await;
    let planes = home.api::<TenantControlPlane>();
    let waiting = wait_for_condition(&planes, "blue", "EndpointReady", "False").await;
    assert_eq!(
        waiting.metadata.finalizers.unwrap(),
        ["finalizer.steward.butlerlabs.dev"]
    );
    wait_for(
        &home.api::<Service>(),
        "blue",
        "its Service",
        PATIENCE,
        |_| true,
    )
    .await;
    stage::give_address(&home, "blue", "127.0.0.77").await;
    let plane = wait_for_condition(&planes, "blue", "CertificatesReady", "True").await;
    wait_for(
        &home.api::<Deployment>(),
        "blue",
        "its pods",
        PATIENCE,
        |_| true,
    )
    .await;
    let status = plane.status.unwrap();
    assert_eq!(
        status.control_plane_endpoint.as_deref(),
        Some("127.0.0.77:6443")
    );
    let setup = status.storage.unwrap().setup.unwrap();
    assert!(
        setup.schema.unwrap().contains(&plane.metadata.uid.unwrap()),
        "named by UID"
    );
    let secrets = home
        .api::<Secret>()
        .list(&ListParams::default())
        .await
        .unwrap();
    let names: Vec<String> = secrets.iter().map(ResourceExt::name_any).collect();
    for name in [
        "blue-ca",
        "blue-admin-kubeconfig",
        "blue-api-server-certificate",
        "blue-datastore-certificate",
    ] {
        assert!(
            names.iter().any(|held| held == name),
            "{name} is missing in {names:?}"
        );
    }
    let stores = wait_for(&stores, "default", "its user", PATIENCE, |store| {
        store
            .status
            .as_ref()
            .is_some_and(|status| status.used_by.len() == 1)
    });
    assert_eq!(
        stores.await.status.unwrap().used_by,
        [format!("{}/blue", home.name())]
    );

    planes
        .delete("blue", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&planes, "blue").await;
    wait_until_gone(&home.api::<Secret>(), "blue-ca").await;
}

#[tokio::test]
async fn nothing_is_written_while_pods_never_become_ready_nor_after_a_restart() {
    let (server, etcd) = (server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let steward = stage::steward(&server);
    stage::store(&server, "default", &etcd).await;
    home.apply_yaml(&stage::control_plane("blue", "")).await;
    wait_for(
        &home.api::<Service>(),
        "blue",
        "its Service",
        PATIENCE,
        |_| true,
    )
    .await;
    stage::give_address(&home, "blue", "127.0.0.77").await;
    let planes = home.api::<TenantControlPlane>();
    wait_for(
        &planes,
        "blue",
        "a pod that is not there",
        PATIENCE,
        |plane| {
            let resources = plane
                .status
                .as_ref()
                .and_then(|status| status.kubernetes_resources.as_ref());
            let deployment = resources.and_then(|resources| resources.deployment.as_ref());
            // Kubernetes counts in steps; this is the last one.
            deployment.is_some_and(|deployment| {
                (deployment.updated_replicas, deployment.unavailable_replicas) == (Some(1), Some(1))
            })
        },
    )
    .await;
    drop(steward);
    let mark = server.mark().await;
    let _steward = stage::steward(&server);
    // Another control plane that gets as far proves that the restarted process went over everything.
    home.apply_yaml(&stage::control_plane("green", "")).await;
    wait_for(
        &home.api::<Service>(),
        "green",
        "its Service",
        PATIENCE,
        |_| true,
    )
    .await;
    stage::give_address(&home, "green", "127.0.0.78").await;
    wait_for_condition(&planes, "green", "CertificatesReady", "True").await;
    let writes = server.writes(mark).await.by_agent(stage::AGENT);
    let about_blue = writes.only(|write| write.name().starts_with("blue"));
    assert_eq!(about_blue.count(), 0, "{about_blue}");
}

#[tokio::test]
async fn a_missing_store_is_named_and_its_arrival_heals() {
    let (server, etcd) = (server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server);
    home.apply_yaml(&stage::control_plane("blue", "dataStore: late"))
        .await;
    let planes = home.api::<TenantControlPlane>();
    let waiting = wait_for_condition(&planes, "blue", "StoreReady", "False").await;
    let held = waiting.status.unwrap().conditions;
    let store = held.iter().find(|held| held.type_ == "StoreReady").unwrap();
    assert_eq!(store.reason, "StoreNotFound");
    assert!(store.message.contains("late"), "{}", store.message);
    stage::store(&server, "late", &etcd).await;
    wait_for_condition(&planes, "blue", "StoreReady", "True").await;
}
