//! Changes that must not be carried out, and what is left alone: another store, other people's objects, bad input.

use std::time::Duration;

use butler_api::steward::TenantControlPlane;
use butler_testkit::{
    Namespace, PATIENCE, etcd::TlsEtcd, pods::PodOptions, wait_for, wait_for_condition,
    wait_until_gone,
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    raw,
    serving::{
        SOON, installed, is_ready, kubectl, platform_with, platform_with_two_stores, try_kubectl,
    },
    stage,
};

fn root(etcd: &TlsEtcd) -> raw::User {
    raw::User::connect(&etcd.endpoint(), etcd.authority().0, etcd.client("root"))
}

/// Everything in an etcd that has this text in it: keys, users and roles.
async fn traces(etcd: &TlsEtcd, text: &str) -> Vec<String> {
    let root = root(etcd);
    let keys = root.everything().await.into_iter();
    let keys = keys.map(|entry| String::from_utf8_lossy(&entry.key).into_owned());
    let (users, roles) = root.users_and_roles().await;
    let all = keys.chain(users).chain(roles);
    all.filter(|name| name.contains(text)).collect()
}

pub(crate) async fn delete(home: &Namespace, name: &str) {
    let planes = home.api::<TenantControlPlane>();
    planes.delete(name, &DeleteParams::default()).await.unwrap();
    wait_until_gone(&planes, name).await;
}

async fn patch(home: &Namespace, name: &str, change: Value) {
    let planes = home.api::<TenantControlPlane>();
    let params = PatchParams::default();
    let patched = planes.patch(name, &params, &Patch::Merge(&change)).await;
    patched.unwrap();
}

/// A control plane that has its place and its pods, though nobody runs them.
pub(crate) async fn placed(
    home: &Namespace,
    name: &str,
    extra: &str,
    address: &str,
) -> TenantControlPlane {
    home.apply_yaml(&stage::control_plane(name, extra)).await;
    let services = home.api::<Service>();
    wait_for(&services, name, "its Service", PATIENCE, |_| true).await;
    stage::give_address(home, name, address).await;
    let deployments = home.api::<Deployment>();
    wait_for(&deployments, name, "its pods", PATIENCE, |_| true).await;
    let planes = home.api::<TenantControlPlane>();
    Box::pin(wait_for_condition(
        &planes,
        name,
        "CertificatesReady",
        "True",
    ))
    .await
}

#[tokio::test]
async fn another_store_in_the_spec_is_refused_in_words_and_the_data_is_served_and_removed_where_it_is()
 {
    let (platform, [first, second]) = platform_with_two_stores().await;
    let home = &platform.home;
    home.apply_yaml(&stage::control_plane("blue", "dataStore: first"))
        .await;
    let plane = is_ready(home, "blue").await;
    let uid = plane.uid().unwrap();
    kubectl(&platform, "blue", &["create", "namespace", "kept"]).await;

    home.apply_yaml(&stage::control_plane("blue", "dataStore: second"))
        .await;
    let message = stage::refused(home, "blue", "StoreAsWanted", "MigrationNotSupported").await;
    assert!(message.contains("back to first"), "{message}");
    let plane = is_ready(home, "blue").await;
    let storage = plane.status.unwrap().storage.unwrap();
    assert_eq!(storage.data_store_name.as_deref(), Some("first"));
    let names = kubectl(&platform, "blue", &["get", "namespaces", "-o", "name"]).await;
    assert!(names.contains("namespace/kept"), "{names}");
    let moved = traces(&second, &uid).await;
    assert!(moved.is_empty(), "{moved:?}");
    assert!(!traces(&first, &uid).await.is_empty());

    delete(home, "blue").await;
    let left = traces(&first, &uid).await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_tenant_whose_spec_went_bad_is_removed_with_its_pods_and_its_data() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server);
    stage::store(&server, "default", &etcd).await;
    let plane = placed(&home, "blue", "", "127.0.0.81").await;
    let uid = plane.uid().unwrap();
    assert!(!traces(&etcd, &uid).await.is_empty());
    let bad = json!({"spec": {"networkProfile": {"certSANs": ["x".repeat(64)]}}});
    patch(&home, "blue", bad).await;
    stage::refused(&home, "blue", "SpecValid", "InvalidSpec").await;

    delete(&home, "blue").await;
    let pods = home.api::<Deployment>().get_opt("blue").await.unwrap();
    assert!(pods.is_none(), "the pods were waited for");
    let left = traces(&etcd, &uid).await;
    assert!(left.is_empty(), "{left:?}");

    // Nothing was made from this one, so nothing is asked of a store that is not there.
    let never = "dataStore: nowhere\n  addons: {tcpProxy: {}}";
    home.apply_yaml(&stage::control_plane("green", never)).await;
    stage::refused(&home, "green", "SpecValid", "NotSupported").await;
    delete(&home, "green").await;
}

#[tokio::test]
async fn retained_data_outlives_its_tenant() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server);
    let mut store = etcd.data_store("default");
    store["spec"]["deletionPolicy"] = json!("Retain");
    server.apply_yaml(&store.to_string()).await;
    let plane = placed(&home, "blue", "", "127.0.0.82").await;
    let storage = plane.status.unwrap().storage.unwrap();
    let key = format!("/{}/word", storage.setup.unwrap().schema.unwrap());
    root(&etcd).put(key.clone(), b"kept").await.unwrap();
    delete(&home, "blue").await;
    let keys = root(&etcd).everything().await;
    let kept = keys.iter().find(|entry| entry.key == key.as_bytes());
    assert_eq!(kept.map(|entry| entry.value.as_slice()), Some(&b"kept"[..]));
}

/// Input that is wrong, the condition and the reason that say so, and its correction.
fn wrong() -> [(&'static str, Value, &'static str, &'static str, Value); 5] {
    let version = |text: &str| json!({"spec": {"kubernetes": {"version": text}}});
    let sans = |names: Value| json!({"spec": {"networkProfile": {"certSANs": names}}});
    let proxy = |wish: Value| json!({"spec": {"addons": {"tcpProxy": wish}}});
    let store = |name: &str| json!({"spec": {"dataStore": name}});
    [
        (
            "sans",
            sans(json!(["x".repeat(64)])),
            "SpecValid",
            "InvalidSpec",
            sans(Value::Null),
        ),
        (
            "old",
            version("v1.20.0"),
            "SpecValid",
            "NotSupported",
            version("v1.35.4"),
        ),
        (
            "impossible",
            version("v1.99.0"),
            "SpecValid",
            "NotSupported",
            version("v1.35.4"),
        ),
        (
            "proxy",
            proxy(json!({})),
            "SpecValid",
            "NotSupported",
            proxy(Value::Null),
        ),
        (
            "store",
            store("nowhere"),
            "StoreReady",
            "StoreNotFound",
            store("default"),
        ),
    ]
}

#[tokio::test]
async fn bad_input_is_named_disturbs_nobody_else_and_heals_when_it_is_corrected() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server);
    stage::store(&server, "default", &etcd).await;
    placed(&home, "healthy", "", "127.0.0.84").await;
    let before: Deployment = home.get("healthy").await;
    let planes = home.api::<TenantControlPlane>();
    for (name, bad, condition, reason, corrected) in wrong() {
        let mut plane: Value =
            serde_saphyr::from_str(&stage::control_plane(name, "")).expect("it is YAML");
        merge(&mut plane, &bad);
        home.apply_yaml(&plane.to_string()).await;
        stage::refused(&home, name, condition, reason).await;
        patch(&home, name, corrected).await;
        wait_for_condition(&planes, name, "StoreReady", "True").await;
    }
    let after: Deployment = home.get("healthy").await;
    assert_eq!(after.metadata.generation, before.metadata.generation);
}

/// Puts one JSON document over another.
fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

#[tokio::test]
async fn a_paused_control_plane_stands_still_until_it_is_resumed() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server);
    stage::store(&server, "default", &etcd).await;
    placed(&home, "blue", "", "127.0.0.85").await;
    let replicas = |held: &Deployment| held.spec.as_ref().and_then(|spec| spec.replicas);
    let paused = "steward.butlerlabs.dev/paused";
    let scaled = json!({"deployment": {"replicas": 3}});
    let change =
        json!({"metadata": {"annotations": {paused: ""}}, "spec": {"controlPlane": scaled}});
    patch(&home, "blue", change).await;
    // Another control plane that gets as far proves that Steward went over the change.
    placed(&home, "green", "", "127.0.0.86").await;
    let held: Deployment = home.get("blue").await;
    assert_eq!(replicas(&held), Some(1));

    let resume = json!({"metadata": {"annotations": {paused: null}}});
    patch(&home, "blue", resume).await;
    let deployments = home.api::<Deployment>();
    wait_for(&deployments, "blue", "three pods", PATIENCE, |held| {
        replicas(held) == Some(3)
    })
    .await;
}

#[tokio::test]
async fn an_upgrade_that_has_to_wait_keeps_the_control_plane_ready_and_nodes_on_the_running_release()
 {
    let platform = platform_with(PodOptions::default()).await;
    let home = &platform.home;
    let wish = "addons: {kubeProxy: {}}";
    let old = stage::control_plane("blue", wish).replace("v1.35.4", "v1.34.4");
    home.apply_yaml(&old).await;
    is_ready(home, "blue").await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mute"}});
    let made = try_kubectl(&platform, "blue", &["create", "-f", "-"], &node.to_string()).await;
    assert!(made.status.success(), "{made:?}");

    home.apply_yaml(&stage::control_plane("blue", wish)).await;
    let message = stage::refused(home, "blue", "UpToDate", "UpgradeWaiting").await;
    assert!(message.contains("mute"), "{message}");
    is_ready(home, "blue").await;
    let proxy = [
        "get",
        "daemonset",
        "kube-proxy",
        "-n",
        "kube-system",
        "-o=jsonpath={.spec.template.spec.containers[0].image}",
    ];
    let config = [
        "get",
        "configmap",
        "kubeadm-config",
        "-n",
        "kube-system",
        "-o=jsonpath={.data}",
    ];
    for question in [&proxy, &config] {
        let told = kubectl(&platform, "blue", question).await;
        assert!(
            told.contains("v1.34.4") && !told.contains("v1.35.4"),
            "{told}"
        );
    }

    kubectl(&platform, "blue", &["delete", "node", "mute"]).await;
    // The tenant is asked again within a minute; a person who cannot wait touches the control plane.
    patch(
        home,
        "blue",
        json!({"metadata": {"annotations": {"look": "again"}}}),
    )
    .await;
    installed(home, "v1.35.4").await;
    let follows = async {
        while !kubectl(&platform, "blue", &proxy).await.contains("v1.35.4") {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let followed = tokio::time::timeout(SOON, follows).await;
    followed.expect("kube-proxy follows the API server");
    let planes = home.api::<TenantControlPlane>();
    wait_for_condition(&planes, "blue", "UpToDate", "True").await;
}
