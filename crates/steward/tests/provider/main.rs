//! The control-plane contract of Cluster API, on a real API server with its kinds.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod faults;
mod rules;
mod stage;

use butler_api::{controlplane::StewardControlPlane, steward::TenantControlPlane};
use butler_runtime::task;
use butler_testkit::{Namespace, PATIENCE, User, wait_for, wait_for_condition, wait_until_gone};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

async fn replicas_reach(home: &Namespace, name: &str, wanted: i32) {
    let what = format!("{wanted} replicas");
    wait_for(
        &home.api::<TenantControlPlane>(),
        name,
        &what,
        PATIENCE,
        |plane| plane.spec.control_plane.deployment.replicas == wanted,
    )
    .await;
}

fn text(secret: &Secret, key: &str) -> String {
    let data = secret.data.as_ref().unwrap();
    String::from_utf8(data[key].0.clone()).unwrap()
}

#[tokio::test]
async fn a_cluster_gets_its_address_its_secrets_and_its_word() {
    let server = stage::server().await;
    let home = server.namespace("clusters").await;
    let _steward = stage::steward(&server);
    let owner = stage::cluster(&home, "sky", "blue").await;
    stage::control_plane(&home, "blue", &owner).await;

    let tenant = stage::tenant(&home, "blue").await;
    let profile = &tenant.spec.network_profile;
    assert_eq!(profile.port, 40443);
    assert_eq!(profile.service_cidr, "10.10.0.0/16");
    assert_eq!(profile.pod_cidr, "10.20.0.0/16");
    assert_eq!(profile.cluster_domain, "sky.local");
    let planes = home.api::<StewardControlPlane>();
    let waiting = wait_for_condition(&planes, "blue", "Available", "False").await;
    let status = waiting.status.unwrap();
    assert_eq!(
        status.initialization.unwrap().control_plane_initialized,
        Some(false)
    );
    assert_eq!(status.external_managed_control_plane, Some(true));

    stage::serve(&home, "blue", "[fd00::7]:40443").await;
    let plane = stage::initialized(&home, "blue").await;
    let endpoint = plane.spec.control_plane_endpoint.unwrap();
    assert_eq!((endpoint.host.as_str(), endpoint.port), ("fd00::7", 40443));
    let status = plane.status.unwrap();
    assert_eq!(status.version.as_deref(), Some("v1.35.4"));
    assert_eq!(status.replicas, Some(2));
    assert_eq!(status.ready_replicas, Some(2));
    assert_eq!(status.available_replicas, Some(2));
    assert_eq!(status.up_to_date_replicas, Some(2));
    assert_eq!(
        status.selector.as_deref(),
        Some("steward.butlerlabs.dev/name=blue")
    );
    let settled = wait_for_condition(&planes, "blue", "Ready", "True").await;
    let held = settled.status.unwrap().conditions;
    assert!(
        held.iter()
            .any(|held| held.type_ == "Paused" && held.status == "False")
    );

    // Both stand by the time that initialization is reported.
    let uid = settled.metadata.uid.unwrap();
    for (name, key, value) in [
        ("sky-kubeconfig", "value", "kubeconfig one"),
        ("sky-ca", "tls.crt", "certificate"),
        ("sky-ca", "tls.key", "key"),
    ] {
        let secret: Secret = home.get(name).await;
        assert_eq!(text(&secret, key), value);
        assert_eq!(secret.labels()[CLUSTER_NAME], "sky");
        assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
        assert_eq!(secret.owner_references()[0].uid, uid);
    }
    let group = "infrastructure.cluster.x-k8s.io";
    let local = stage::objects(&home, group, "v1alpha1", "LocalCluster")
        .get("sky")
        .await
        .unwrap();
    let told = json!({"host": "fd00::7", "port": 40443});
    assert_eq!(local.data["spec"]["controlPlaneEndpoint"], told);
    wait_for_condition(&planes, "blue", "InfrastructureClusterPatched", "True").await;
}

#[tokio::test]
async fn a_renewed_kubeconfig_a_new_size_and_sleep_are_followed() {
    let server = stage::server().await;
    let home = server.namespace("clusters").await;
    let _steward = stage::steward(&server);
    let owner = stage::cluster(&home, "blue", "blue").await;
    stage::control_plane(&home, "blue", &owner).await;
    stage::tenant(&home, "blue").await;
    stage::serve(&home, "blue", "10.0.0.7:40443").await;
    stage::initialized(&home, "blue").await;
    // Called like its Cluster: the authority is there already, and stays what it is.
    let authority: Secret = home.get("blue-ca").await;
    assert_eq!(authority.labels()[CLUSTER_NAME], "blue");
    assert_eq!(text(&authority, "ca.key"), "key");
    assert!(authority.owner_references().is_empty());

    stage::secrets(&home, "blue", "kubeconfig two").await;
    let renewed = json!({"status": {"kubeconfig": {"admin": {"checksum": "two"}}}});
    let tenants = home.api::<TenantControlPlane>();
    let params = PatchParams::default();
    tenants
        .patch_status("blue", &params, &Patch::Merge(&renewed))
        .await
        .unwrap();
    let secrets = home.api::<Secret>();
    wait_for(
        &secrets,
        "blue-kubeconfig",
        "the renewed kubeconfig",
        PATIENCE,
        |secret| text(secret, "value") == "kubeconfig two",
    )
    .await;

    stage::change(&home, "blue", &json!({"spec": {"replicas": 5}})).await;
    replicas_reach(&home, "blue", 5).await;
    stage::change(&home, "blue", &json!({"spec": {"replicas": 0}})).await;
    replicas_reach(&home, "blue", 0).await;
    stage::state(&home, "blue", "10.0.0.7:40443", "Sleeping", 0).await;
    let planes = home.api::<StewardControlPlane>();
    let asleep = wait_for_condition(&planes, "blue", "Available", "False").await;
    let status = asleep.status.unwrap();
    let available = status
        .conditions
        .iter()
        .find(|held| held.type_ == "Available")
        .unwrap();
    assert_eq!(available.reason, "Sleeping");
    assert_eq!(
        status.initialization.unwrap().control_plane_initialized,
        Some(true)
    );
    assert_eq!(status.replicas, Some(0));
}

#[tokio::test]
async fn a_paused_cluster_stops_everything_and_deletion_ends_in_order() {
    let server = stage::server().await;
    let home = server.namespace("clusters").await;
    let _steward = stage::steward(&server);
    let owner = stage::cluster(&home, "sky", "blue").await;
    stage::control_plane(&home, "blue", &owner).await;
    stage::tenant(&home, "blue").await;
    stage::serve(&home, "blue", "10.0.0.7:65535").await;
    stage::initialized(&home, "blue").await;

    let planes = home.api::<StewardControlPlane>();
    stage::pause(&home, "sky", true).await;
    wait_for_condition(&planes, "blue", "Paused", "True").await;
    let mark = server.mark().await;
    stage::change(&home, "blue", &json!({"spec": {"replicas": 3}})).await;
    // Another control plane that is worked on proves that the change was seen.
    let other = stage::cluster(&home, "sea", "green").await;
    stage::control_plane(&home, "green", &other).await;
    stage::tenant(&home, "green").await;
    let writes = server.writes(mark).await.by_agent(stage::AGENT);
    // Only the condition moves on to the generation that it was seen in.
    let carried_out =
        writes.only(|write| write.name() == "blue" && write.subresource() != "status");
    assert_eq!(carried_out.count(), 0, "{carried_out}");

    stage::pause(&home, "sky", false).await;
    replicas_reach(&home, "blue", 3).await;
    wait_for_condition(&planes, "blue", "Paused", "False").await;

    planes
        .delete("blue", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&planes, "blue").await;
    let left = home
        .api::<TenantControlPlane>()
        .get_opt("blue")
        .await
        .unwrap();
    assert!(left.is_none(), "the hosted control plane goes first");
    wait_until_gone(&home.api::<Secret>(), "sky-kubeconfig").await;
}

#[tokio::test]
async fn what_belongs_to_others_is_left_alone() {
    let server = stage::server().await;
    let home = server.namespace("clusters").await;
    let _steward = stage::steward(&server);
    let planes = home.api::<StewardControlPlane>();
    let foreign = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1",
        "kind": "TenantControlPlane",
        "metadata": {"name": "red", "annotations": {"steward.butlerlabs.dev/paused": ""}},
        "spec": {
            "controlPlane": {"service": {"serviceType": "ClusterIP"}},
            "kubernetes": {"version": "v1.34.0"},
        },
    });
    home.apply_yaml(&foreign.to_string()).await;
    let owner = stage::cluster(&home, "sky", "red").await;
    stage::control_plane(&home, "red", &owner).await;
    let refused = wait_for_condition(&planes, "red", "Ready", "False").await;
    assert_eq!(refused.status.unwrap().conditions[0].reason, "NameTaken");
    assert!(refused.spec.control_plane_endpoint.is_none());
    let red: TenantControlPlane = home.get("red").await;
    assert_eq!(red.spec.kubernetes.version, "v1.34.0");

    // The authority of another tenant that happens to be called like the Cluster.
    stage::secrets(&home, "sea", "kubeconfig").await;
    let theirs = json!({"stringData": {"tls.crt": "another"}});
    let secrets = home.api::<Secret>();
    secrets
        .patch("sea-ca", &PatchParams::default(), &Patch::Merge(&theirs))
        .await
        .unwrap();
    let owner = stage::cluster(&home, "sea", "green").await;
    stage::control_plane(&home, "green", &owner).await;
    stage::tenant(&home, "green").await;
    stage::serve(&home, "green", "10.0.0.8:6443").await;
    wait_for(
        &planes,
        "green",
        "the Secret that is taken",
        PATIENCE,
        |plane| {
            let status = plane.status.as_ref();
            status.is_some_and(|status| {
                status
                    .conditions
                    .iter()
                    .any(|held| held.reason == "SecretTaken")
            })
        },
    )
    .await;
    let kept: Secret = home.get("sea-ca").await;
    assert_eq!(text(&kept, "tls.crt"), "another");
    secrets
        .delete("sea-ca", &DeleteParams::default())
        .await
        .unwrap();
    stage::initialized(&home, "green").await;
}

#[tokio::test]
async fn a_control_plane_waits_for_its_cluster_without_asking() {
    let server = stage::server().await;
    let home = server.namespace("clusters").await;
    let _steward = stage::steward(&server);
    let plane = json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1",
        "kind": "StewardControlPlane",
        "metadata": {"name": "blue", "annotations": {"steward.butlerlabs.dev/paused": ""}},
        "spec": {"version": "v1.35.4"},
    });
    home.apply_yaml(&plane.to_string()).await;
    let planes = home.api::<StewardControlPlane>();
    let waiting = wait_for_condition(&planes, "blue", "Available", "False").await;
    assert_eq!(
        waiting.status.unwrap().conditions[0].reason,
        "WaitingForCluster"
    );
    let owner = stage::cluster(&home, "sky", "blue").await;
    stage::change(
        &home,
        "blue",
        &json!({"metadata": {"ownerReferences": [owner]}}),
    )
    .await;
    stage::tenant(&home, "blue").await;
}

#[tokio::test]
async fn a_restart_writes_nothing_about_what_stands() {
    let server = stage::server().await;
    let home = server.namespace("clusters").await;
    let steward = stage::steward(&server);
    let owner = stage::cluster(&home, "sky", "blue").await;
    stage::control_plane(&home, "blue", &owner).await;
    stage::tenant(&home, "blue").await;
    stage::serve(&home, "blue", "10.0.0.7:40443").await;
    let planes = home.api::<StewardControlPlane>();
    stage::initialized(&home, "blue").await;
    wait_for_condition(&planes, "blue", "Ready", "True").await;
    wait_for(&planes, "blue", "a settled status", PATIENCE, |plane| {
        let observed = plane.status.as_ref().unwrap().observed_generation;
        observed == plane.metadata.generation
    })
    .await;
    drop(steward);
    let mark = server.mark().await;
    let _steward = stage::steward(&server);
    // Another that gets as far proves that the restarted process went over everything.
    let other = stage::cluster(&home, "sea", "green").await;
    stage::control_plane(&home, "green", &other).await;
    stage::tenant(&home, "green").await;
    stage::serve(&home, "green", "10.0.0.8:40443").await;
    stage::initialized(&home, "green").await;
    let writes = server.writes(mark).await.by_agent(stage::AGENT);
    let about_blue =
        writes.only(|write| ["blue", "sky-ca", "sky-kubeconfig", "sky"].contains(&write.name()));
    assert_eq!(about_blue.count(), 0, "{about_blue}");
}

#[tokio::test]
async fn its_own_permissions_are_enough_and_reach_a_cluster_from_end_to_end() {
    let server = stage::server().await;
    let home = server.namespace("clusters").await;
    let (_, manifests) = butler_steward::rbac::files().remove(0);
    for manifest in manifests {
        let manifest = serde_json::to_string(&manifest).unwrap();
        server.apply_yaml(&manifest).await;
    }
    let account = User::service_account(
        butler_steward::rbac::NAMESPACE,
        butler_steward::rbac::ACCOUNT,
    );
    let _steward = task::spawn("steward", stage::work(server.client_for(&account)));
    let owner = stage::cluster(&home, "blue", "blue").await;
    stage::control_plane(&home, "blue", &owner).await;
    stage::tenant(&home, "blue").await;
    stage::serve(&home, "blue", "10.0.0.7:40443").await;
    stage::initialized(&home, "blue").await;
    let planes = home.api::<StewardControlPlane>();
    wait_for_condition(&planes, "blue", "InfrastructureClusterPatched", "True").await;
    planes
        .delete("blue", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&planes, "blue").await;
}

#[tokio::test]
async fn another_store_than_the_one_with_the_data_is_told_and_not_passed_on() {
    let home = stage::shared().namespace("stores").await;
    stage::serving(&home).await;
    let stays = |tenant: &TenantControlPlane| tenant.spec.data_store.as_deref() == Some("first");
    let storage = json!({"status": {"storage": {"dataStoreName": "first"}}});
    stage::report(&home, "blue", &storage).await;
    stage::tenant_until(&home, "blue", "its store in its spec", stays).await;
    stage::change(&home, "blue", &json!({"spec": {"dataStoreName": "second"}})).await;
    let said = |plane: &serde_json::Value| {
        let held = plane["status"]["conditions"].as_array();
        let mut held = held.into_iter().flatten();
        held.any(|held| {
            held["type"] == "StoreAsWanted" && held["reason"] == "MigrationNotSupported"
        })
    };
    stage::until(&home, "blue", "a word about its store", said).await;
    assert!(stays(&stage::tenant(&home, "blue").await));
    stage::change(&home, "blue", &json!({"spec": {"dataStoreName": "first"}})).await;
    stage::until(&home, "blue", "no word any more", |plane| !said(plane)).await;
}
