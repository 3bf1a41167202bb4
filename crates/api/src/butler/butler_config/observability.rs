//! Where logs, metrics and traces of tenant clusters go.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::{common::NamespacedRef, schema};

/// Logs, metrics and traces of tenant clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Observability {
    /// Where they are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
    /// What is collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<Collection>,
}

/// Where logs, metrics and traces are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pipeline {
    /// TenantCluster that runs the stores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<NamespacedRef>,
    /// Where agents send logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "endpoint")]
    pub log_endpoint: Option<String>,
    /// Where agents send metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "endpoint")]
    pub metric_endpoint: Option<String>,
    /// Where agents send traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "endpoint")]
    pub trace_endpoint: Option<String>,
}

fn endpoint(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        2048,
        "self.matches('^([a-z]+://)?[^ /]+')",
        "must be an address such as https://logs.example.com or otel.example.com:4317",
    )
}

/// What is collected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Collection {
    /// Agents that new clusters get by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_enroll: Option<AutoEnroll>,
    /// Logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<LogCollection>,
    /// Metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<MetricCollection>,
}

/// Agents that new clusters get by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoEnroll {
    /// Vector, for logs. Default: false.
    #[serde(default)]
    pub vector_agent: bool,
    /// Prometheus, for metrics. Default: false.
    #[serde(default)]
    pub prometheus: bool,
    /// The OpenTelemetry collector, for traces. Default: false.
    #[serde(default)]
    pub otel_collector: bool,
}

/// Which logs are collected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogCollection {
    /// Of pods. Default: false.
    #[serde(default)]
    pub pod_logs: bool,
    /// Of the machines' journals. Default: false.
    #[serde(default)]
    pub journald: bool,
    /// Kubernetes events. Default: false.
    #[serde(default)]
    pub kubernetes_events: bool,
}

/// Which metrics are collected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetricCollection {
    /// Whether any are. Default: false.
    #[serde(default)]
    pub enabled: bool,
    /// How long they are kept, such as `15d`. Default: as the store says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "retention")]
    pub retention: Option<String>,
}

fn retention(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        32,
        "self.matches('^([0-9]+(ms|s|m|h|d|w|y))+$')",
        "must be a length of time such as 15d or 12h",
    )
}
