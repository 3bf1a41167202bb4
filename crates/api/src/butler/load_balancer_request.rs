//! `LoadBalancerRequest`: a load balancer of a cloud in front of a management cluster's control plane.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{cel, common::ObjectRef};

/// A load balancer of a cloud in front of a management cluster's control plane.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "LoadBalancerRequest",
    plural = "loadbalancerrequests",
    shortname = "lbr",
    category = "butler",
    namespaced,
    status = "LoadBalancerRequestStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A load balancer of a cloud in front of a management cluster's control plane.",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoint"),
    printcolumn(
        name = "Targets",
        type_ = "integer",
        json_path = ".status.registeredTargets"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = cel::immutable("clusterName"),
    validation = cel::immutable("providerConfigRef")
)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerRequestSpec {
    /// Name of the management cluster. It cannot be changed.
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub cluster_name: String,
    /// The ProviderConfig that says which cloud. It cannot be changed.
    pub provider_config_ref: ObjectRef,
    /// Port that clients connect to and targets listen on. Defaults to 6443.
    #[serde(default = "api_server_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Port that is probed to see whether a target is alive. Defaults to `port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub health_check_port: Option<i32>,
    /// The machines that traffic goes to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub targets: Vec<LoadBalancerTarget>,
}

fn api_server_port() -> i32 {
    6443
}

/// A machine that traffic goes to. Which of the fields is used depends on the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("has(self.ip) || has(self.instanceID) || has(self.instanceName)")
        .message("a target needs an ip, an instanceID or an instanceName")
)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerTarget {
    /// Address of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub ip: Option<String>,
    /// Id of the machine at the cloud.
    #[serde(
        default,
        rename = "instanceID",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 1, max = 512))]
    pub instance_id: Option<String>,
    /// Name of the machine at the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub instance_name: Option<String>,
}

/// What the cloud reports about the load balancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerRequestStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, Provisioned and TargetsSynced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Where the load balancer is in its life, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<LoadBalancerPhase>,
    /// Host name or address that clients connect to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// How the cloud calls the load balancer.
    #[serde(
        default,
        rename = "resourceID",
        skip_serializing_if = "Option::is_none"
    )]
    pub resource_id: Option<String>,
    /// How many targets the cloud knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_targets: Option<i32>,
    /// Why it failed, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Why it failed, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_updated: Option<Time>,
}

/// The life of a load balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LoadBalancerPhase {
    /// Not asked for yet.
    #[default]
    Pending,
    /// Being made.
    Creating,
    /// Has an endpoint.
    Ready,
    /// Could not be made.
    Failed,
    /// Being removed.
    Deleting,
}
