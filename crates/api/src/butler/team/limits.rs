//! What a team may use, and what its new clusters get by default.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{cel, common::InfrastructureProvider, schema};

/// What a team may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = same_amount("maxTotalCPU", "maxCPUCores"),
    validation = same_amount("maxTotalMemory", "maxMemory"),
    validation = same_amount("maxTotalStorage", "maxStorage"),
    validation = Rule::new(
        "!has(self.maxWorkersPerCluster) || !has(self.maxNodesPerCluster) \
         || self.maxWorkersPerCluster == self.maxNodesPerCluster"
    )
        .message("maxWorkersPerCluster and maxNodesPerCluster are the same limit: give one of them, or both with one value")
        .field_path(".maxWorkersPerCluster"),
    validation = Rule::new(
        "!has(self.allowedAddons) || !has(self.deniedAddons) \
         || !self.deniedAddons.exists(d, d in self.allowedAddons)"
    )
        .message("an addon cannot be both allowed and denied")
        .field_path(".deniedAddons")
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceLimits {
    /// How many clusters there may be. Zero means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_clusters: Option<i32>,
    /// How many workers one cluster may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_workers_per_cluster: Option<i32>,
    /// Another word for maxWorkersPerCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_nodes_per_cluster: Option<i32>,
    /// How many workers all clusters may have together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_total_nodes: Option<i32>,
    /// CPUs of all workers together, such as `200`.
    #[serde(
        rename = "maxTotalCPU",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_total_cpu: Option<IntOrString>,
    /// Another word for maxTotalCPU.
    #[serde(
        rename = "maxCPUCores",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_cpu_cores: Option<IntOrString>,
    /// Memory of all workers together, such as `1Ti`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_total_memory: Option<IntOrString>,
    /// Another word for maxTotalMemory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_memory: Option<IntOrString>,
    /// Disks of all workers together, such as `10Ti`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_total_storage: Option<IntOrString>,
    /// Another word for maxTotalStorage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_storage: Option<IntOrString>,
    /// Workers of a cluster that does not say how many. Default: 3.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 1000))]
    pub default_node_count: i32,
    /// CPUs of a worker that does not say how many.
    #[serde(
        rename = "defaultCPUPerNode",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub default_cpu_per_node: Option<IntOrString>,
    /// Memory of a worker that does not say how much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub default_memory_per_node: Option<IntOrString>,
    /// Kubernetes releases clusters may use, such as `v1.35` or `v1.35.4`. Without it, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "releases")]
    pub allowed_kubernetes_versions: Vec<String>,
    /// Providers clusters may use. Without it, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub allowed_providers: Vec<InfrastructureProvider>,
    /// Addons clusters may use, by the names of their AddonDefinitions. Without it, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "addon_names")]
    pub allowed_addons: Vec<String>,
    /// Addons clusters may not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "addon_names")]
    pub denied_addons: Vec<String>,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        serde_json::from_str("{}").expect("every field of the limits is optional")
    }
}

fn three() -> i32 {
    3
}

/// Two spellings of one limit agree.
fn same_amount(one: &str, other: &str) -> Rule {
    let (a, b) = (format!("self.{one}"), format!("self.{other}"));
    let valid = |field: &str| format!("(type({field}) == int || isQuantity({field}))");
    Rule::new(format!(
        "!has({a}) || !has({b}) || !{} || !{} || {}.compareTo({}) == 0",
        valid(&a),
        valid(&b),
        cel::amount(&a),
        cel::amount(&b),
    ))
    .message(&*format!(
        "{one} and {other} are the same limit: give one of them, or both with one value"
    ))
    .field_path(format!(".{one}"))
}

fn releases(_: &mut SchemaGenerator) -> Schema {
    let release = schema::text(
        32,
        "self.matches('^v?[0-9]+[.][0-9]+([.][0-9]+)?$')",
        "must be a Kubernetes release such as v1.35 or v1.35.4",
    );
    json_schema!({ "type": "array", "maxItems": 64, "items": release })
}

fn addon_names(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 64, "items": schema::object_name(generator) })
}

/// What new clusters get where they say nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDefaults {
    /// Kubernetes release, such as `v1.35.4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::kube_version")]
    pub kubernetes_version: Option<String>,
    /// Workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub worker_count: Option<i32>,
    /// CPUs of a worker.
    #[serde(rename = "workerCPU", default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub worker_cpu: Option<i32>,
    /// Memory of a worker, in GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub worker_memory_gi: Option<i32>,
    /// System disk of a worker, in GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10))]
    pub worker_disk_gi: Option<i32>,
    /// Addons, by the names of their AddonDefinitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "addon_names")]
    pub default_addons: Vec<String>,
}
