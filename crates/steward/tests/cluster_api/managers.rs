//! Clusters under Cluster API's own core manager: what it reads from a control plane, and what it makes of it.

use butler_api::{
    controlplane::StewardControlPlane, infrastructure::LocalCluster, steward::TenantControlPlane,
};
use butler_runtime::task::Task;
use butler_testkit::{
    Namespace, PodOptions, Pods, cluster_api::ClusterApi, etcd::TlsEtcd, wait_for,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::stage::{self, SOON, holds};

/// In the order in which they have to end: the webhooks of a manager that is gone would refuse every write.
struct Platform {
    home: Namespace,
    _steward: Task,
    _infrastructure: Task,
    _pods: Pods,
    _etcd: TlsEtcd,
    _cluster_api: ClusterApi,
}

async fn platform() -> Platform {
    let server = stage::server().await;
    let etcd = TlsEtcd::start().await.unwrap();
    let options = PodOptions::default().reach(etcd.port());
    let pods = Pods::start(&server, options).await.unwrap();
    let cluster_api = ClusterApi::start(&server).await.unwrap();
    Platform {
        home: server.namespace("clusters").await,
        _steward: stage::steward(&server, &etcd).await,
        _infrastructure: stage::infrastructure(server.client()),
        _pods: pods,
        _etcd: etcd,
        _cluster_api: cluster_api,
    }
}

fn endpoint(object: &Value) -> Value {
    object["spec"]["controlPlaneEndpoint"].clone()
}

#[tokio::test]
async fn a_cluster_becomes_available_and_goes_in_order() {
    let platform = platform().await;
    let home = &platform.home;
    home.apply_yaml(&stage::cluster("blue", "v1.35.4")).await;
    let cluster = stage::cluster_until(home, "blue", "Available", |cluster| {
        holds(cluster, "Available")
    })
    .await;
    for type_ in [
        "ControlPlaneInitialized",
        "ControlPlaneAvailable",
        "InfrastructureReady",
        "RemoteConnectionProbe",
    ] {
        assert!(holds(&cluster, type_), "{type_} in {cluster:#}");
    }
    let status = &cluster["status"];
    assert_eq!(status["phase"], "Provisioned");
    assert_eq!(status["controlPlane"]["desiredReplicas"], 1);
    for count in ["replicas", "readyReplicas", "upToDateReplicas"] {
        assert_eq!(status["controlPlane"][count], 1, "{count}");
    }
    for type_ in ["RollingOut", "ScalingUp", "ScalingDown"] {
        assert!(!holds(&cluster, type_), "{type_} in {cluster:#}");
    }

    // The address is the same everywhere, and it is the one that works.
    let plane: StewardControlPlane = home.get("blue").await;
    let local: LocalCluster = home.get("blue").await;
    let plane = serde_json::to_value(plane).unwrap();
    assert_eq!(endpoint(&cluster), endpoint(&plane));
    let local = serde_json::to_value(local).unwrap();
    assert_eq!(endpoint(&cluster), endpoint(&local));
    let said = stage::kubectl(home.server(), home, "blue", &["version"]).await;
    assert!(said.contains("Server Version: v1.35.4"), "{said}");
    // Its authority is Steward's own Secret here, and still one by the rules.
    let authority: Secret = home.get("blue-ca").await;
    assert_eq!(authority.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
    assert_eq!(authority.labels()["cluster.x-k8s.io/cluster-name"], "blue");
    assert_eq!(authority.owner_references()[0].kind, "TenantControlPlane");

    let params = DeleteParams::default();
    stage::clusters(home).delete("blue", &params).await.unwrap();
    butler_testkit::wait_until_gone(&stage::clusters(home), "blue").await;
    let left = home.api::<TenantControlPlane>().get_opt("blue").await;
    assert!(
        left.unwrap().is_none(),
        "what is below a Cluster goes first"
    );
}

fn class() -> Value {
    let template = |kind: &str, group: &str| json!({"apiVersion": format!("{group}.cluster.x-k8s.io/v1alpha1"), "kind": kind, "name": "small"});
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "ClusterClass",
        "metadata": {"name": "small"},
        "spec": {
            "infrastructure": {"templateRef": template("LocalClusterTemplate", "infrastructure")},
            "controlPlane": {"templateRef": template("StewardControlPlaneTemplate", "controlplane")},
        },
    })
}

fn topology(version: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "sky"},
        "spec": {"topology": {
            "classRef": {"name": "small"},
            "version": version,
            "controlPlane": {"replicas": 1, "metadata": {"labels": {"tier": "gold"}}},
        }},
    })
}

const TEMPLATES: &str = "
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: LocalClusterTemplate
metadata: {name: small}
spec: {template: {spec: {}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1alpha1
kind: StewardControlPlaneTemplate
metadata: {name: small}
spec: {template: {metadata: {annotations: {example.com/class: small}}, spec: {addons: {coreDNS: {}}}}}
";

#[tokio::test]
async fn a_class_makes_control_planes_and_a_new_version_of_the_topology_rolls_them() {
    let platform = platform().await;
    let home = &platform.home;
    home.apply_yaml(TEMPLATES).await;
    home.apply_yaml(&class().to_string()).await;
    home.apply_yaml(&topology("v1.34.4").to_string()).await;
    let settled =
        |cluster: &Value| holds(cluster, "Available") && holds(cluster, "TopologyReconciled");
    stage::cluster_until(home, "sky", "Available", settled).await;

    let planes = home.api::<StewardControlPlane>();
    let made = planes.list(&ListParams::default()).await.unwrap().items;
    let [plane] = made.as_slice() else {
        panic!("one control plane is made: {made:?}")
    };
    let name = plane.name_any();
    assert_eq!(plane.spec.version, "v1.34.4");
    assert_eq!(plane.labels()["tier"], "gold");
    assert_eq!(plane.annotations()["example.com/class"], "small");
    let said = stage::kubectl(home.server(), home, "sky", &["version"]).await;
    assert!(said.contains("Server Version: v1.34.4"), "{said}");

    let upgrade = json!({"spec": {"topology": {"version": "v1.35.4"}}});
    let params = PatchParams::default();
    let clusters = stage::clusters(home);
    clusters
        .patch("sky", &params, &Patch::Merge(&upgrade))
        .await
        .unwrap();
    let what = "the new version in status";
    let upgraded = wait_for(&planes, &name, what, SOON, |plane| {
        let status = plane.status.as_ref();
        status.and_then(|status| status.version.as_deref()) == Some("v1.35.4")
    })
    .await;
    assert_eq!(upgraded.uid(), plane.uid(), "it was not replaced");
    stage::cluster_until(
        home,
        "sky",
        "a settled Cluster after the upgrade",
        |cluster| settled(cluster) && !holds(cluster, "RollingOut"),
    )
    .await;
    let said = stage::kubectl(home.server(), home, "sky", &["version"]).await;
    assert!(said.contains("Server Version: v1.35.4"), "{said}");
}
