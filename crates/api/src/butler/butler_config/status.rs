//! What the platform last found out about itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::ExposureMode;

/// What the platform last found out about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ButlerConfigStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds: Ready, Configured, NamespaceReady.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Teams on the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_count: Option<i32>,
    /// Tenant clusters on the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_count: Option<i32>,
    /// How API servers are exposed now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_exposure_mode: Option<ExposureMode>,
    /// Whether tenants need tcp-proxy, because their API servers are reached by host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_proxy_required: Option<bool>,
    /// Whether the Git service answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_provider: Option<GitProviderStatus>,
    /// How many clusters send logs, metrics or traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observability: Option<ObservabilityStatus>,
}

/// Whether the Git service answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitProviderStatus {
    /// Whether the token was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// Whose token it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// When it was last tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_validated: Option<Time>,
    /// What the service said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How many clusters send logs, metrics or traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservabilityStatus {
    /// Whether the stores can take them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_ready: Option<bool>,
    /// Clusters with agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolled_count: Option<i32>,
    /// All clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_count: Option<i32>,
}
