//! How far a bootstrap is.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far the bootstrap is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterBootstrapStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, Progressing and Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The step it is at, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<BootstrapPhase>,
    /// Host and port of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<String>,
    /// Address of the console.
    #[serde(
        default,
        rename = "consoleURL",
        skip_serializing_if = "Option::is_none"
    )]
    pub console_url: Option<String>,
    /// The machines, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub machines: Vec<BootstrapMachine>,
    /// Which addons are installed already, so that a restart goes on where it was.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub addons_installed: BTreeMap<String, bool>,
    /// Not written: a status can be read by many. The kubeconfig is in a Secret. Kept for objects of
    /// earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<String>,
    /// Not written: a status can be read by many. The talosconfig is in a Secret. Kept for objects of
    /// earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talosconfig: Option<String>,
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

/// The steps of a bootstrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BootstrapPhase {
    /// Not started.
    #[default]
    Pending,
    /// Machines are being made.
    ProvisioningMachines,
    /// Machines get their configuration.
    ConfiguringTalos,
    /// The first control plane machine starts etcd and Kubernetes.
    BootstrappingCluster,
    /// The platform is being installed.
    InstallingAddons,
    /// The new cluster takes over its own management.
    Pivoting,
    /// Done.
    Ready,
    /// Cannot go on; the conditions say why.
    Failed,
}

/// A machine of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapMachine {
    /// Name of its MachineRequest.
    #[schemars(length(max = 253))]
    pub name: String,
    /// `control-plane` or `worker`.
    pub role: String,
    /// Phase of its MachineRequest.
    pub phase: String,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// Whether it has its configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talos_configured: Option<bool>,
    /// Whether its Node is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
}
