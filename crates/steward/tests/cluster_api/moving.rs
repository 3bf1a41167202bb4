//! `clusterctl move` from one management cluster to another: the same control plane with the same keys and the same
//! data comes up there, and nothing of it is left here.

use std::collections::BTreeMap;

use butler_api::{controlplane::StewardControlPlane, steward::TenantControlPlane};
use butler_runtime::task::Task;
use butler_testkit::{
    Namespace, PATIENCE, PodOptions, Pods, Server, cluster_api::clusterctl, etcd::TlsEtcd,
    wait_for, wait_for_condition, wait_until_gone,
};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Secret, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    raw,
    stage::{self, SOON},
};

/// Known beforehand, so that nothing but the pause keeps a copy from getting keys.
const ADDRESS: &str = "  network: {serviceAddress: 10.0.0.7}\n";

/// One management cluster.
struct Side {
    server: Server,
    _steward: Task,
}

async fn side(etcd: &TlsEtcd) -> Side {
    let server = stage::server().await;
    label_definitions(&server).await;
    Side {
        _steward: stage::steward(&server, etcd).await,
        server,
    }
}

/// What `clusterctl init` does to the definitions that it installs; ours have the label from the start.
async fn label_definitions(server: &Server) {
    let all: Api<CustomResourceDefinition> = Api::all(server.client());
    let label = json!({"metadata": {"labels": {"clusterctl.cluster.x-k8s.io": ""}}});
    for name in ["clusters", "clusterclasses", "machines"] {
        let name = format!("{name}.cluster.x-k8s.io");
        let params = PatchParams::default();
        let labelled = all.patch(&name, &params, &Patch::Merge(&label)).await;
        labelled.unwrap();
    }
}

/// What Cluster API's core manager would do to a Cluster: owners, and the word that it is provisioned.
async fn play_core(home: &Namespace, name: &str) {
    let made = stage::clusters(home).get(name).await.unwrap();
    let owner = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": name,
        "uid": made.metadata.uid, "controller": true, "blockOwnerDeletion": true,
    });
    let belongs = Patch::Merge(json!({"metadata": {"ownerReferences": [owner]}}));
    let params = PatchParams::default();
    let planes = home.api::<StewardControlPlane>();
    planes.patch(name, &params, &belongs).await.unwrap();
    let local = home.api::<butler_api::infrastructure::LocalCluster>();
    local.patch(name, &params, &belongs).await.unwrap();
    let condition = json!({
        "type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({"status": {
        "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
        "conditions": [condition],
    }});
    let clusters = stage::clusters(home);
    clusters
        .patch_status(name, &params, &Patch::Merge(&status))
        .await
        .unwrap();
}

/// Moves everything in the namespace and returns the namespace over there.
async fn move_over(home: &Namespace, there: &Server) {
    let to = there.kubeconfig();
    let to = to.to_str().unwrap();
    let arguments = ["move", "-n", home.name(), "--to-kubeconfig", to, "-v", "1"];
    let output = clusterctl(home.server(), &arguments).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
}

/// The Secrets of the namespace that have an owner, by name.
async fn secrets(api: &Api<Secret>) -> BTreeMap<String, Value> {
    let all = api.list(&ListParams::default()).await.unwrap();
    let owned = all
        .items
        .into_iter()
        .filter(|secret| !secret.owner_references().is_empty());
    owned
        .map(|secret| (secret.name_any(), json!(secret.data)))
        .collect()
}

fn there<K>(side: &Side, home: &Namespace) -> Api<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    Api::namespaced(side.server.client(), home.name())
}

#[tokio::test]
async fn no_key_is_made_anew_and_nothing_is_touched_before_all_of_it_is_there() {
    let etcd = TlsEtcd::start().await.unwrap();
    let (source, target) = (side(&etcd).await, side(&etcd).await);
    let home = source.server.namespace("clusters").await;
    let before = Box::pin(prepared(&home)).await;
    let written = home.api::<Secret>();
    let keys = secrets(&written).await;
    assert!(keys.len() >= 10, "{:?}", keys.keys());

    let mark = target.server.mark().await;
    move_over(&home, &target.server).await;

    // Over there it is taken over, with what it had.
    let moved: Api<TenantControlPlane> = there(&target, &home);
    let what = "the copy to be worked on";
    let after = wait_for(&moved, "sky", what, SOON, |plane| {
        let owner = plane.owner_references().first().map(|owner| &owner.uid);
        let worked_on_for = plane
            .annotations()
            .get("provider.steward.butlerlabs.dev/worked-on-for");
        worked_on_for == owner
    })
    .await;
    assert_ne!(after.uid(), before.uid());
    assert_eq!(after.spec, before.spec);
    let pods: Api<Deployment> = there(&target, &home);
    wait_for(&pods, "sky", "the pods over there", SOON, |_| true).await;
    let copied = secrets(&there(&target, &home)).await;
    let differ = |name: &&String| copied.get(*name) != keys.get(*name);
    let differ: Vec<&String> = keys.keys().chain(copied.keys()).filter(differ).collect();
    // It names the address of the Service inside its management cluster, which is another one.
    let names = "sky-api-server-certificate".to_owned();
    assert!(differ.iter().all(|name| **name == names), "{differ:?}");
    let writes = target.server.writes(mark).await.by_agent(stage::AGENT);
    let made = writes.of("secrets").only(|write| write.verb == "create");
    assert_eq!(made.count(), 0, "{made}");

    // A field that leaves the plan leaves the copy.
    let less = Patch::Merge(json!({"spec": {"addons": null}}));
    let controls: Api<StewardControlPlane> = there(&target, &home);
    let params = PatchParams::default();
    controls.patch("sky", &params, &less).await.unwrap();
    let what = "no addons";
    let plain = wait_for(&moved, "sky", what, SOON, |plane| {
        plane.spec.addons.is_none()
    })
    .await;
    assert!(!plain.finalizers().is_empty());

    // Over here nothing is left.
    wait_until_gone(&home.api::<StewardControlPlane>(), "sky").await;
    wait_until_gone(&home.api::<TenantControlPlane>(), "sky").await;
    wait_until_gone(&home.api::<Deployment>(), "sky").await;
    wait_until_gone(&home.api::<Service>(), "sky").await;
    let left = secrets(&written).await;
    assert!(left.is_empty(), "{:?}", left.keys());
}

/// A Cluster `sky` whose control plane has its keys and its place in the store; nothing runs.
async fn prepared(home: &Namespace) -> TenantControlPlane {
    home.apply_yaml(&format!("{}{ADDRESS}", stage::cluster("sky", "v1.35.4")))
        .await;
    play_core(home, "sky").await;
    let (secrets, what) = (home.api::<Secret>(), "the Secrets");
    wait_for(&secrets, "sky-kubeconfig", what, SOON, |_| true).await;
    let (planes, what) = (home.api(), "the place of its data");
    let plane = wait_for(&planes, "sky", what, SOON, |plane: &TenantControlPlane| {
        plane.spec.data_store.is_some()
    })
    .await;
    wait_for(&home.api::<Deployment>(), "sky", "the pods", SOON, |_| true).await;
    plane
}

/// What a move has brought when it comes to the control plane, and before it comes to the Secrets.
async fn half_moved(home: &Namespace) {
    let cluster = stage::cluster("sky", "v1.35.4");
    let cluster = cluster.replacen("spec:\n", "spec:\n  paused: true\n", 1);
    home.apply_yaml(&format!("{cluster}{ADDRESS}")).await;
    play_core(home, "sky").await;
    let owner: StewardControlPlane = home.get("sky").await;
    let plane = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1",
        "kind": "TenantControlPlane",
        "metadata": {
            "name": "sky",
            "ownerReferences": [owner.controller_owner_ref(&()).unwrap()],
            "annotations": {"provider.steward.butlerlabs.dev/worked-on-for": "somebody-elsewhere"},
            "finalizers": ["finalizer.steward.butlerlabs.dev"],
        },
        "spec": {
            "controlPlane": {"service": {"serviceType": "LoadBalancer"}},
            "kubernetes": {"version": "v1.35.4"},
            "networkProfile": {"address": "10.0.0.7"},
            "dataStoreSchema": "steward-from-elsewhere",
            "addons": {"coreDNS": {}},
        },
    });
    let plane: TenantControlPlane = serde_json::from_value(plane).unwrap();
    // What it writes from a directory stays its own, field by field.
    let params = PostParams {
        field_manager: Some("clusterctl".to_owned()),
        ..PostParams::default()
    };
    let planes = home.api::<TenantControlPlane>();
    planes.create(&params, &plane).await.unwrap();
}

#[tokio::test]
async fn a_copy_stands_still_until_the_pause_of_its_cluster_ends() {
    let etcd = TlsEtcd::start().await.unwrap();
    let side = side(&etcd).await;
    let home = side.server.namespace("clusters").await;
    let mark = side.server.mark().await;
    half_moved(&home).await;
    wait_for_condition(&home.api::<StewardControlPlane>(), "sky", "Paused", "True").await;
    // One that nobody holds, and that comes later, proves that this one was seen and left alone.
    let witness = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1",
        "kind": "TenantControlPlane",
        "metadata": {"name": "witness"},
        "spec": {
            "controlPlane": {"service": {"serviceType": "ClusterIP"}},
            "kubernetes": {"version": "v1.35.4"},
        },
    });
    home.apply_yaml(&witness.to_string()).await;
    let secrets = home.api::<Secret>();
    let name = "witness-admin-kubeconfig";
    wait_for(&secrets, name, "keys of the witness", SOON, |_| true).await;
    let writes = side.server.writes(mark).await.by_agent(stage::AGENT);
    let held = ["stewardcontrolplanes", "tenantcontrolplanes"];
    let made =
        writes.only(|write| write.name().starts_with("sky") && !held.contains(&write.resource()));
    assert_eq!(made.count(), 0, "{made}");
    assert!(secrets.get_opt("sky-ca").await.unwrap().is_none());

    let go_on = Patch::Merge(json!({"spec": {"paused": null}}));
    let params = PatchParams::default();
    let clusters = stage::clusters(&home);
    clusters.patch("sky", &params, &go_on).await.unwrap();
    let name = "sky-kubeconfig";
    wait_for(&secrets, name, "keys after the pause", SOON, |_| true).await;
    let plane: TenantControlPlane = home.get("sky").await;
    let schema = plane.spec.data_store_schema.as_deref();
    assert_eq!(schema, Some("steward-from-elsewhere"));

    // A field that leaves the plan leaves the copy all the same.
    let less = Patch::Merge(json!({"spec": {"addons": null}}));
    let controls = home.api::<StewardControlPlane>();
    controls.patch("sky", &params, &less).await.unwrap();
    let planes = home.api::<TenantControlPlane>();
    let without = |plane: &TenantControlPlane| plane.spec.addons.is_none();
    let plane = wait_for(&planes, "sky", "no addons", PATIENCE, without).await;
    assert!(
        !plane.finalizers().is_empty(),
        "only the spec was taken over"
    );
}

#[tokio::test]
async fn the_side_that_lets_go_removes_no_data_and_a_deletion_does() {
    let etcd = TlsEtcd::start().await.unwrap();
    let side = side(&etcd).await;
    let home = side.server.namespace("clusters").await;
    let schema = Box::pin(prepared(&home))
        .await
        .spec
        .data_store_schema
        .unwrap();
    let root = raw::User::connect(&etcd.endpoint(), etcd.authority().0, etcd.client("root"));
    let (first, last) = (format!("/{schema}/"), format!("/{schema}0"));
    let keys = async || {
        let found = root.range(first.as_bytes(), last.as_bytes()).await;
        found.unwrap().len()
    };
    root.put(format!("{first}registry/kept"), b"data")
        .await
        .unwrap();

    let planes = home.api::<TenantControlPlane>();
    let controls = home.api::<StewardControlPlane>();
    let params = PatchParams::default();
    let pause = |paused: bool| Patch::Merge(json!({"spec": {"paused": paused}}));
    let clusters = stage::clusters(&home);
    clusters.patch("sky", &params, &pause(true)).await.unwrap();
    wait_for_condition(&controls, "sky", "Paused", "True").await;
    // The worst moment of a move: the annotation that held it is replaced, and the finalizer is still there.
    let leave = json!({"metadata": {"annotations": {
        "clusterctl.cluster.x-k8s.io/delete-for-move": "",
        "provider.steward.butlerlabs.dev/worked-on-for": null,
    }}});
    planes
        .patch("sky", &params, &Patch::Merge(&leave))
        .await
        .unwrap();
    planes
        .delete("sky", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&planes, "sky").await;
    assert_eq!(keys().await, 1);

    // The same object, made again from its Cluster, finds its data; and a real end removes it.
    clusters.patch("sky", &params, &pause(false)).await.unwrap();
    let what = "the control plane again, with its place";
    let again = wait_for(&planes, "sky", what, SOON, |plane| {
        plane.spec.data_store.is_some()
    })
    .await;
    assert_eq!(again.spec.data_store_schema, Some(schema));
    controls
        .delete("sky", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&controls, "sky").await;
    assert_eq!(keys().await, 0);
}

#[tokio::test]
async fn a_cluster_serves_the_same_data_from_its_new_management_cluster() {
    let etcd = TlsEtcd::start().await.unwrap();
    let (source, target) = (side(&etcd).await, side(&etcd).await);
    let run = || PodOptions::default().reach(etcd.port());
    let _here = Pods::start(&source.server, run()).await.unwrap();
    let _there = Pods::start(&target.server, run()).await.unwrap();
    let home = source.server.namespace("clusters").await;
    home.apply_yaml(&stage::cluster("sky", "v1.35.4")).await;
    play_core(&home, "sky").await;
    ready(&home.api(), "sky").await;
    let here =
        async |arguments: &[&str]| stage::kubectl(&source.server, &home, "sky", arguments).await;
    here(&["create", "namespace", "kept"]).await;
    let uid = ["get", "namespace", "kept", "-o", "jsonpath={.metadata.uid}"];
    let before = here(&uid).await;

    move_over(&home, &target.server).await;
    let planes: Api<StewardControlPlane> = there(&target, &home);
    ready(&planes, "sky").await;
    let after = async || stage::kubectl(&target.server, &home, "sky", &uid).await;
    assert_eq!(after().await, before, "it is the same cluster");
    // Its pods have ended here, and the data survived that.
    wait_until_gone(&home.api::<Deployment>(), "sky").await;
    assert_eq!(after().await, before);
}

async fn ready(planes: &Api<StewardControlPlane>, name: &str) {
    wait_for(planes, name, "condition Ready=True", SOON, |plane| {
        stage::holds(&serde_json::to_value(plane).unwrap(), "Ready")
    })
    .await;
}
