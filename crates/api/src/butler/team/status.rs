//! What the platform last found out about a team.

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the platform last found out about a team.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the team is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TeamPhase>,
    /// What holds: Ready, NamespaceReady, RBACReady, QuotaExceeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Namespace of the team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Clusters of the team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_count: Option<i32>,
    /// People and groups with access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_count: Option<i32>,
    /// What the team uses of its limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_usage: Option<ResourceUsage>,
    /// OK, Warning or Exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_status: Option<QuotaStatus>,
    /// Which limit is near or exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_message: Option<String>,
}

/// Where a team is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TeamPhase {
    /// Waits to be looked at.
    Pending,
    /// Namespace and roles are there.
    Ready,
    /// Is being removed.
    Terminating,
    /// Stopped; the conditions say why.
    Failed,
}

/// How a team stands to its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QuotaStatus {
    /// Within all limits.
    #[serde(rename = "OK")]
    Ok,
    /// Near a limit.
    Warning,
    /// Above a limit.
    Exceeded,
}

/// What a team uses. Percentages are above 100 when a limit was lowered below what is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// Clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<i32>,
    /// Workers of all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_nodes: Option<i32>,
    /// CPUs of all workers.
    #[serde(rename = "totalCPU", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub total_cpu: Option<IntOrString>,
    /// Memory of all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub total_memory: Option<IntOrString>,
    /// Disks of all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub total_storage: Option<IntOrString>,
    /// Percentage of the limit on clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cluster_utilization: Option<i32>,
    /// Percentage of the limit on workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub node_utilization: Option<i32>,
    /// Percentage of the limit on CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cpu_utilization: Option<i32>,
    /// Percentage of the limit on memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub memory_utilization: Option<i32>,
}
