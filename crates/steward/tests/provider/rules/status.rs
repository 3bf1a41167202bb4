//! The rules about what a control plane says of itself.

use butler_api::{controlplane::StewardControlPlane, steward::TenantControlPlane};
use butler_testkit::wait_for_condition;
use serde_json::json;

use super::{condition, count, verdict};
use crate::stage;

#[tokio::test]
async fn control_plane_endpoint_it_surfaces_in_spec_as_soon_as_it_is_known_and_not_before() {
    let home = stage::shared().namespace("rules").await;
    let owner = stage::cluster(&home, "sky", "blue").await;
    stage::control_plane(&home, "blue", &owner).await;
    stage::tenant(&home, "blue").await;
    let waiting = stage::until(&home, "blue", "a reason to wait", |plane| {
        verdict(plane, "Available") == ("False", "WaitingForEndpoint")
    })
    .await;
    assert!(waiting["spec"]["controlPlaneEndpoint"].is_null());

    let early = json!({"status": {"controlPlaneEndpoint": "[fd00::7]:40443"}});
    stage::report(&home, "blue", &early).await;
    let known = stage::until(&home, "blue", "the address", |plane| {
        plane["spec"]["controlPlaneEndpoint"] == json!({"host": "fd00::7", "port": 40443})
    })
    .await;
    let initialized = &known["status"]["initialization"]["controlPlaneInitialized"];
    assert_eq!(*initialized, false, "the address comes first");

    let moved = json!({"status": {"controlPlaneEndpoint": "api.example.com:6443"}});
    stage::report(&home, "blue", &moved).await;
    stage::until(&home, "blue", "the new address", |plane| {
        plane["spec"]["controlPlaneEndpoint"] == json!({"host": "api.example.com", "port": 6443})
    })
    .await;
}

#[tokio::test]
async fn control_plane_replicas_every_count_is_said_and_the_scale_sub_resource_works() {
    let home = stage::shared().namespace("rules").await;
    stage::serving(&home).await;
    let get = ["get", "--raw"];
    let path = format!(
        "/apis/controlplane.cluster.x-k8s.io/v1alpha1/namespaces/{}/stewardcontrolplanes/blue/scale",
        home.name()
    );
    let scale = home.server().kubectl(&[&get[..], &[&path]].concat()).await;
    let scale: serde_json::Value = serde_json::from_str(&scale).unwrap();
    assert_eq!(scale["spec"]["replicas"], 2);
    assert_eq!(scale["status"]["replicas"], 2);
    let selector = "steward.butlerlabs.dev/name=blue";
    assert_eq!(scale["status"]["selector"], selector);

    let name = "stewardcontrolplane/blue";
    let more = ["scale", name, "-n", home.name(), "--replicas", "3"];
    home.server().kubectl(&more).await;
    stage::tenant_until(&home, "blue", "3 replicas", |tenant| {
        tenant.spec.control_plane.deployment.replicas == 3
    })
    .await;
    let pods =
        json!({"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "updatedReplicas": 0});
    let growing = json!({"status": {"kubernetesResources": {"deployment": pods}}});
    stage::report(&home, "blue", &growing).await;
    let said = stage::until(&home, "blue", "3 pods", |plane| {
        plane["status"]["replicas"] == 3
    })
    .await;
    let status = &said["status"];
    assert_eq!(status["readyReplicas"], 2);
    assert_eq!(status["availableReplicas"], 1);
    assert_eq!(
        status["upToDateReplicas"], 0,
        "a zero is said, not left out"
    );
    // For readers of the v1beta1 contract.
    assert_eq!(status["updatedReplicas"], 0);
    assert_eq!(status["unavailableReplicas"], 2);
}

#[tokio::test]
async fn control_plane_version_the_wanted_one_gets_its_v_and_the_running_one_is_reported() {
    let home = stage::shared().namespace("rules").await;
    stage::serving(&home).await;
    stage::change(&home, "blue", &json!({"spec": {"version": "1.36.0"}})).await;
    stage::tenant_until(&home, "blue", "the wanted version", |tenant| {
        tenant.spec.kubernetes.version == "v1.36.0"
    })
    .await;
    let upgrading = json!({"version": "v1.35.4", "status": "Upgrading"});
    let upgrading = json!({"status": {"kubernetesResources": {"version": upgrading}}});
    stage::report(&home, "blue", &upgrading).await;
    let said = stage::until(&home, "blue", "the upgrade", |plane| {
        verdict(plane, "RollingOut").0 == "True"
    })
    .await;
    assert_eq!(
        said["status"]["version"], "v1.35.4",
        "what runs, not what is wanted"
    );
    assert_eq!(verdict(&said, "Available").0, "True", "it serves meanwhile");

    let done = json!({"version": "v1.36.0", "status": "Ready"});
    let done = json!({"status": {"kubernetesResources": {"version": done}}});
    stage::report(&home, "blue", &done).await;
    stage::until(&home, "blue", "the running version", |plane| {
        plane["status"]["version"] == "v1.36.0" && verdict(plane, "RollingOut").0 == "False"
    })
    .await;
}

#[tokio::test]
async fn control_plane_machines_there_are_none_and_it_says_so() {
    let home = stage::shared().namespace("rules").await;
    let plane = stage::serving(&home).await;
    let status = plane.status.unwrap();
    assert_eq!(status.external_managed_control_plane, Some(true));
    let machines = stage::objects(&home, "cluster.x-k8s.io", "v1beta2", "Machine");
    assert_eq!(count(&machines).await, 0);
}

#[tokio::test]
async fn control_plane_initialization_completed_with_the_first_answer_and_for_good() {
    let home = stage::shared().namespace("rules").await;
    let owner = stage::cluster(&home, "sky", "blue").await;
    stage::control_plane(&home, "blue", &owner).await;
    stage::tenant(&home, "blue").await;
    let said = |plane: &serde_json::Value, answer: bool| {
        let status = &plane["status"];
        status["initialization"]["controlPlaneInitialized"] == answer
            && status["initialized"] == answer
    };
    // It answers, but nobody could reach it: the Secrets are missing.
    stage::state(&home, "blue", "10.0.0.7:40443", "Ready", 2).await;
    stage::until(&home, "blue", "the wait for Secrets", |plane| {
        verdict(plane, "Ready") == ("False", "WaitingForSecrets") && said(plane, false)
    })
    .await;
    stage::secrets(&home, "blue", "kubeconfig").await;
    // One of two replicas is enough.
    let one = json!({"readyReplicas": 1, "availableReplicas": 1});
    let one = json!({"status": {"kubernetesResources": {"deployment": one}}});
    stage::report(&home, "blue", &one).await;
    stage::until(&home, "blue", "initialization", |plane| said(plane, true)).await;
    stage::state(&home, "blue", "10.0.0.7:40443", "NotReady", 0).await;
    stage::until(&home, "blue", "initialization that stays", |plane| {
        verdict(plane, "Available").0 == "False" && said(plane, true)
    })
    .await;
}

#[tokio::test]
async fn control_plane_conditions_available_is_mirrored_and_the_others_are_cluster_apis_own() {
    let home = stage::shared().namespace("rules").await;
    stage::serving(&home).await;
    let said = stage::until(&home, "blue", "the settled conditions", |plane| {
        verdict(plane, "Available") == ("True", "Available")
            && verdict(plane, "Ready").0 == "True"
            && condition(plane, "Available")["observedGeneration"]
                == plane["metadata"]["generation"]
    })
    .await;
    for (type_, reason) in [
        ("Paused", "NotPaused"),
        ("RollingOut", "NotRollingOut"),
        ("ScalingUp", "NotScalingUp"),
        ("ScalingDown", "NotScalingDown"),
        ("Deleting", "NotDeleting"),
    ] {
        assert_eq!(verdict(&said, type_), ("False", reason), "{type_}");
        assert!(!condition(&said, type_)["lastTransitionTime"].is_null());
    }
    // Some disruption is no outage.
    let one = json!({"readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1});
    let one = json!({"status": {"kubernetesResources": {"deployment": one}}});
    stage::report(&home, "blue", &one).await;
    stage::change(&home, "blue", &json!({"spec": {"replicas": 4}})).await;
    let said = stage::until(&home, "blue", "the disruption", |plane| {
        verdict(plane, "RollingOut").0 == "True" && verdict(plane, "ScalingUp").0 == "True"
    })
    .await;
    assert_eq!(verdict(&said, "Available").0, "True");
}

#[tokio::test]
async fn control_plane_terminal_failures_are_conditions_with_a_reason_and_a_way_out() {
    let home = stage::shared().namespace("rules").await;
    let owner = stage::cluster(&home, "sky", "blue").await;
    let elsewhere = json!({"externalClusterReference": {
        "kubeconfigSecretName": "x", "kubeconfigSecretKey": "y", "deploymentNamespace": "z",
    }});
    let plane = json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1",
        "kind": "StewardControlPlane",
        "metadata": {"name": "blue", "ownerReferences": [owner]},
        "spec": {"version": "v1.35.4", "deployment": elsewhere},
    });
    home.apply_yaml(&plane.to_string()).await;
    let planes = home.api::<StewardControlPlane>();
    let refused = wait_for_condition(&planes, "blue", "Available", "False").await;
    let refused = serde_json::to_value(refused).unwrap();
    let (_, reason) = verdict(&refused, "Available");
    assert_eq!(reason, "ExternalClusterUnsupported");
    let message = condition(&refused, "Available")["message"].as_str();
    assert!(
        message
            .unwrap()
            .contains("spec.deployment.externalClusterReference")
    );
    for field in ["failureReason", "failureMessage"] {
        assert!(refused["status"][field].is_null(), "{field} is of the past");
    }
    let made = home.api::<TenantControlPlane>().get_opt("blue").await;
    assert!(made.unwrap().is_none());
}

#[tokio::test]
async fn min_ready_seconds_and_up_to_date_propagation_the_counts_tell_ready_from_available_and_current()
 {
    let home = stage::shared().namespace("rules").await;
    stage::serving(&home).await;
    // There are no Machines to carry a condition: pods that were ready for long enough and run what is wanted are counted.
    let pods =
        json!({"replicas": 3, "readyReplicas": 3, "availableReplicas": 2, "updatedReplicas": 1});
    let pods = json!({"status": {"kubernetesResources": {"deployment": pods}}});
    stage::report(&home, "blue", &pods).await;
    stage::until(&home, "blue", "three different counts", |plane| {
        let status = &plane["status"];
        let counts = ["readyReplicas", "availableReplicas", "upToDateReplicas"];
        counts.map(|field| status[field].as_i64()) == [Some(3), Some(2), Some(1)]
    })
    .await;
}
