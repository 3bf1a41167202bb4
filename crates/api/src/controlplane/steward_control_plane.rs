//! `StewardControlPlane`: the Cluster API face of a hosted control plane.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ControlPlaneSettings;
use crate::{
    cel, infrastructure::contract::ApiEndpoint, steward::rules,
    steward::tenant_control_plane::deployment::default_replicas,
};

/// What the control plane of a Cluster should be.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "StewardControlPlane",
    plural = "stewardcontrolplanes",
    shortname = "stcp",
    category = "butler",
    category = "cluster-api",
    category = "steward",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    label("cluster.x-k8s.io/provider", "control-plane-steward"),
    label("clusterctl.cluster.x-k8s.io", ""),
    namespaced,
    status = "StewardControlPlaneStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The control plane of a Cluster API Cluster, hosted by Steward as pods. It becomes a TenantControlPlane of the same name.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    validation = rules::service_name(),
    validation = rules::one_minor_at_a_time("spec.version", "status.version"),
    validation = rules::no_downgrade("spec.version", "status.version"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(
        name = "Initialized",
        type_ = "boolean",
        json_path = ".status.initialization.controlPlaneInitialized"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(
        name = "Up-To-Date",
        type_ = "integer",
        json_path = ".status.upToDateReplicas",
        priority = 1
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".spec.controlPlaneEndpoint.host",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = cel::immutable_optional("dataStoreSchema"),
    validation = cel::immutable_optional("dataStoreUsername"),
    validation = Rule::new("has(self.dataStoreName) || !has(oldSelf.dataStoreName)")
        .message("dataStoreName cannot be removed once it is set: the data stays where it is")
        .field_path(".dataStoreName"),
    validation = Rule::new("(has(self.deployment) && has(self.deployment.externalClusterReference)) == (has(oldSelf.deployment) && has(oldSelf.deployment.externalClusterReference)) && (!has(self.deployment) || !has(self.deployment.externalClusterReference) || self.deployment.externalClusterReference == oldSelf.deployment.externalClusterReference)")
        .message("externalClusterReference cannot be added, changed or removed after creation: a running control plane does not move between clusters")
        .field_path(".deployment")
)]
#[serde(rename_all = "camelCase")]
pub struct StewardControlPlaneSpec {
    /// Kubernetes release to run, such as `v1.35.4`. Upgrades go one minor version at a time, never
    /// down.
    #[schemars(schema_with = "crate::steward::fragments::version")]
    pub version: String,
    /// How many pods run the control plane. Default 2; 0 puts it to sleep and keeps its data.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 32))]
    pub replicas: i32,
    /// Address of the API server. Written by the controller; Cluster API copies it to the Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ApiEndpoint>,
    /// How the control plane is run.
    #[serde(flatten)]
    pub settings: ControlPlaneSettings,
}

/// What was last observed, in the terms of Cluster API's v1beta2 contract.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StewardControlPlaneStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the control plane: Available, Paused and others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Whether the control plane has come up for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ControlPlaneInitialization>,
    /// True: the control plane has no Machines of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_managed_control_plane: Option<bool>,
    /// Version that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub version: Option<String>,
    /// Label selector of the pods, as text, for the scale sub-resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Pods of the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Pods that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Pods that have been ready for long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Pods that run what the spec asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,
    /// Whether the control plane has come up once, for tools that read the v1beta1 contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialized: Option<bool>,
    /// Whether the API server serves, for tools that read the v1beta1 contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Pods that are missing, for tools that read the v1beta1 contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
    /// Pods that run what the spec asks for, for tools that read the v1beta1 contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
}

/// Whether the control plane has come up for the first time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneInitialization {
    /// True once the API server has answered; it never goes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,
}
