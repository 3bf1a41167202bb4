//! The rules about what happens to a control plane over time.

use std::collections::BTreeMap;

use butler_api::{controlplane::StewardControlPlane, steward::TenantControlPlane};
use butler_runtime::task;
use butler_testkit::{PATIENCE, wait_for, wait_for_condition, wait_until_gone};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use super::{count, verdict};
use crate::stage;

const WORKED_ON_FOR: &str = "provider.steward.butlerlabs.dev/worked-on-for";

#[tokio::test]
async fn control_plane_in_place_updates_change_the_one_object_there_is() {
    let home = stage::shared().namespace("rules").await;
    stage::serving(&home).await;
    let before = stage::tenant(&home, "blue").await;
    let change =
        json!({"spec": {"version": "v1.36.0", "replicas": 3, "registry": "mirror.example.com"}});
    stage::change(&home, "blue", &change).await;
    let after = stage::tenant_until(&home, "blue", "the change", |tenant| {
        let deployment = &tenant.spec.control_plane.deployment;
        tenant.spec.kubernetes.version == "v1.36.0"
            && deployment.replicas == 3
            && deployment.registry_settings.registry == "mirror.example.com"
    })
    .await;
    assert_eq!(after.uid(), before.uid());
    let of_machines = |key: &&String| key.starts_with("in-place-updates");
    assert_eq!(after.annotations().keys().find(of_machines), None);
}

#[tokio::test]
async fn machine_placement_pods_are_spread_as_asked_and_failure_domains_of_machines_change_nothing()
{
    let home = stage::shared().namespace("rules").await;
    stage::serving(&home).await;
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
    }]);
    let change = json!({"spec": {"deployment": {"topologySpreadConstraints": spread}}});
    stage::change(&home, "blue", &change).await;
    let placed = stage::tenant_until(&home, "blue", "the constraint", |tenant| {
        let asked = &tenant
            .spec
            .control_plane
            .deployment
            .topology_spread_constraints;
        asked.len() == 1
    })
    .await;
    let domains = json!({"status": {"failureDomains": [{"name": "a", "controlPlane": true}]}});
    let clusters = stage::clusters(&home);
    let params = PatchParams::default();
    clusters
        .patch_status("sky", &params, &Patch::Merge(&domains))
        .await
        .unwrap();
    // A later change proves that the domains were seen.
    stage::change(&home, "blue", &json!({"spec": {"replicas": 3}})).await;
    let later = stage::tenant_until(&home, "blue", "3 replicas", |tenant| {
        tenant.spec.control_plane.deployment.replicas == 3
    })
    .await;
    let mut expected = placed.spec;
    expected.control_plane.deployment.replicas = 3;
    assert_eq!(later.spec, expected);
    let machines = stage::objects(&home, "cluster.x-k8s.io", "v1beta2", "Machine");
    assert_eq!(count(&machines).await, 0);
}

#[tokio::test]
async fn metadata_propagation_labels_and_annotations_go_along_without_a_rollout() {
    let home = stage::shared().namespace("rules").await;
    stage::serving(&home).await;
    let pinned = |tenant: &TenantControlPlane| tenant.metadata.generation;
    let before = stage::tenant(&home, "blue").await;
    let kept = json!({"metadata": {
        "labels": {"tier": "gold"},
        "annotations": {"example.com/note": "kept", "topology.cluster.x-k8s.io/owned": "theirs"},
    }});
    stage::change(&home, "blue", &kept).await;
    let after = stage::tenant_until(&home, "blue", "the label", |tenant| {
        tenant.labels().get("tier").map(String::as_str) == Some("gold")
    })
    .await;
    assert_eq!(after.labels()["cluster.x-k8s.io/cluster-name"], "sky");
    assert_eq!(after.annotations()["example.com/note"], "kept");
    let theirs = after.annotations().get("topology.cluster.x-k8s.io/owned");
    assert_eq!(theirs, None, "what is about the object itself stays there");
    assert_eq!(pinned(&after), pinned(&before), "the spec is as it was");

    let gone = json!({"metadata": {"labels": {"tier": null}}});
    stage::change(&home, "blue", &gone).await;
    stage::tenant_until(&home, "blue", "no label", |tenant| {
        !tenant.labels().contains_key("tier")
    })
    .await;
}

#[tokio::test]
async fn support_for_running_multiple_instances_one_serves_all_namespaces_and_a_second_changes_nothing()
 {
    let server = stage::server().await;
    let (home, other) = (
        server.namespace("clusters").await,
        server.namespace("clusters").await,
    );
    let _first = stage::steward(&server);
    for home in [&home, &other] {
        stage::serving(home).await;
        wait_for_condition(&home.api::<StewardControlPlane>(), "blue", "Ready", "True").await;
    }
    let planes = home.api::<StewardControlPlane>();
    wait_for(&planes, "blue", "a settled status", PATIENCE, |plane| {
        plane.status.as_ref().unwrap().observed_generation == plane.metadata.generation
    })
    .await;
    let mark = server.mark().await;
    let second = "steward-second-instance";
    let _second = task::spawn("second steward", stage::work(server.client_called(second)));
    // Work that both see proves that the second went over everything.
    let third = server.namespace("clusters").await;
    stage::serving(&third).await;
    wait_for_condition(&third.api::<StewardControlPlane>(), "blue", "Ready", "True").await;
    let writes = server.writes(mark).await.in_namespace(&home);
    let by_either = writes.only(|write| write.name() == "blue");
    assert_eq!(by_either.count(), 0, "{by_either}");
}

#[tokio::test]
async fn control_plane_pausing_stops_everything_below_it_too_and_is_said() {
    let home = stage::shared().namespace("rules").await;
    let uid = stage::serving(&home).await.uid().unwrap();
    let worked_on_for =
        |tenant: &TenantControlPlane| tenant.annotations().get(WORKED_ON_FOR).cloned();
    stage::tenant_until(&home, "blue", "its owner", |tenant| {
        worked_on_for(tenant).as_ref() == Some(&uid)
    })
    .await;
    let annotated = |paused: Option<&str>| {
        let annotations = BTreeMap::from([("cluster.x-k8s.io/paused", paused)]);
        json!({"metadata": {"annotations": annotations}})
    };
    for by_annotation in [false, true] {
        let set = async |paused: bool| {
            if by_annotation {
                stage::change(&home, "blue", &annotated(paused.then_some(""))).await;
            } else {
                stage::pause(&home, "sky", paused).await;
            }
        };
        set(true).await;
        stage::until(&home, "blue", "the pause", |plane| {
            verdict(plane, "Paused") == ("True", "Paused")
        })
        .await;
        // Whoever reads the condition may rely on it.
        let held = stage::tenant(&home, "blue").await;
        assert_eq!(worked_on_for(&held).as_deref(), Some("paused"));
        let wanted = if by_annotation { 6 } else { 5 };
        stage::change(&home, "blue", &json!({"spec": {"replicas": wanted}})).await;
        stage::until(&home, "blue", "the pause seen for the change", |plane| {
            let paused = super::condition(plane, "Paused");
            paused["observedGeneration"] == plane["metadata"]["generation"]
        })
        .await;
        let still = stage::tenant(&home, "blue").await;
        assert_eq!(still.spec, held.spec);
        set(false).await;
        stage::tenant_until(&home, "blue", "the change", |tenant| {
            tenant.spec.control_plane.deployment.replicas == wanted
                && worked_on_for(tenant).as_ref() == Some(&uid)
        })
        .await;
        stage::until(&home, "blue", "the end of the pause", |plane| {
            verdict(plane, "Paused").0 == "False"
        })
        .await;
    }
    // A paused one is not even deleted.
    stage::pause(&home, "sky", true).await;
    stage::until(&home, "blue", "the pause", |plane| {
        verdict(plane, "Paused").0 == "True"
    })
    .await;
    let planes = home.api::<StewardControlPlane>();
    let params = DeleteParams::default();
    planes.delete("blue", &params).await.unwrap();
    stage::until(&home, "blue", "the pause seen for the deletion", |plane| {
        let paused = super::condition(plane, "Paused");
        paused["observedGeneration"] == plane["metadata"]["generation"]
    })
    .await;
    let tenant = stage::tenant(&home, "blue").await;
    assert!(tenant.metadata.deletion_timestamp.is_none());
    stage::pause(&home, "sky", false).await;
    wait_until_gone(&planes, "blue").await;
}
