//! What the platform last found out about a tenant cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::LocalRef;

/// What the platform last found out about a tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantClusterStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the cluster is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// When the phase last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_transition_time: Option<Time>,
    /// What holds: Ready, InfrastructureReady, ControlPlaneReady, WorkersReady, NetworkReady,
    /// AddonsReady, QuotaSatisfied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Namespace with the objects the cluster is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_namespace: Option<String>,
    /// Host and port of the API server, such as `10.40.0.201:6443`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<String>,
    /// Secret with the administrator's kubeconfig, in the tenant namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_ref: Option<LocalRef>,
    /// Workers that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_nodes_ready: Option<i32>,
    /// Workers that are wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_nodes_desired: Option<i32>,
    /// What was seen inside the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_state: Option<ObservedState>,
    /// IPAllocation with the addresses of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_allocation_ref: Option<LocalRef>,
    /// IPAllocation with the addresses of load balancers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lb_allocation_ref: Option<LocalRef>,
    /// ImageSync that brings the machines' image to the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_sync_ref: Option<LocalRef>,
}

/// Where a cluster is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Waits to be looked at.
    Pending,
    /// The control plane and the machines are being made.
    Provisioning,
    /// Addons are being installed.
    Installing,
    /// The cluster works.
    Ready,
    /// A change is being carried out.
    Updating,
    /// Everything is being removed.
    Deleting,
    /// Stopped; the conditions say why.
    Failed,
}

/// What was seen inside a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedState {
    /// Release the API server runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub kubernetes_version: Option<String>,
    /// The workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<ObservedWorkers>,
    /// The addons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub addons: Vec<ObservedAddon>,
}

/// The workers of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedWorkers {
    /// How many are wanted.
    pub desired: i32,
    /// How many are ready.
    pub ready: i32,
    /// Names of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// One addon of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedAddon {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The version that is installed.
    pub version: String,
    /// How it is.
    pub status: AddonState,
    /// Who installs and upgrades it.
    pub managed_by: AddonManager,
}

/// How an addon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AddonState {
    /// Waits for something else.
    Pending,
    /// Is being installed.
    Installing,
    /// Works.
    Healthy,
    /// Works in part.
    Degraded,
    /// Does not work.
    Failed,
}

/// Who installs and upgrades an addon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AddonManager {
    /// Butler.
    Butler,
    /// Flux.
    Flux,
    /// Argo CD.
    Argocd,
    /// Someone by hand.
    Manual,
}
