//! What is known about the addons of a hosted control plane.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    addons::AgentMode,
    status::{GatewayStatus, ObjectStatus, SecretStatus, ServiceStatus},
};

/// What is installed in the tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonsStatus {
    /// `CoreDNS`.
    #[serde(default, rename = "coreDNS", skip_serializing_if = "Option::is_none")]
    pub core_dns: Option<AddonStatus>,
    /// kube-proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<AddonStatus>,
    /// The tunnel to nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub konnectivity: Option<KonnectivityStatus>,
    /// The proxy to the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_proxy: Option<TcpProxyStatus>,
    /// What nodes with their own bootstrap need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_bootstrap: Option<WorkerBootstrapStatus>,
}

/// An addon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonStatus {
    /// Whether it is installed.
    #[serde(default)]
    pub enabled: bool,
    /// When that last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_update: Option<Time>,
}

/// The tunnel to nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KonnectivityStatus {
    /// Whether it is installed.
    #[serde(default)]
    pub enabled: bool,
    /// `ConfigMap` that sends the API server's traffic into the tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ObjectStatus>,
    /// Secret with the server's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<SecretStatus>,
    /// Secret with the server's kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<SecretStatus>,
    /// Service account of the agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sa: Option<ObjectStatus>,
    /// What lets the server check agents.
    #[serde(
        default,
        rename = "clusterrolebinding",
        skip_serializing_if = "Option::is_none"
    )]
    pub cluster_role_binding: Option<ObjectStatus>,
    /// The agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentStatus>,
    /// Service that agents dial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceStatus>,
    /// Route that agents dial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayStatus>,
}

/// The agents of the tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// Name of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_update: Option<Time>,
    /// What runs the agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<AgentMode>,
}

/// The proxy to the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpProxyStatus {
    /// Whether it is installed.
    #[serde(default)]
    pub enabled: bool,
    /// Its Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<ObjectStatus>,
    /// Its Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ObjectStatus>,
    /// Its service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ObjectStatus>,
    /// What it may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_role: Option<ObjectStatus>,
    /// What lets it do that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_role_binding: Option<ObjectStatus>,
}

/// What nodes with their own bootstrap need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerBootstrapStatus {
    /// Whether it runs.
    #[serde(default)]
    pub enabled: bool,
    /// Operating system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Secret with its certificates and token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretStatus>,
    /// Address that nodes dial, as `host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Service that nodes dial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceStatus>,
}
