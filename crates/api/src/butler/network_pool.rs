//! `NetworkPool`: a range of addresses that Butler hands out to tenants.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A range of addresses for tenants: load balancers and nodes draw from it, never twice.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "NetworkPool",
    plural = "networkpools",
    shortname = "np",
    category = "butler",
    namespaced,
    status = "NetworkPoolStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A range of addresses that Butler hands out to tenants.",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "CIDR", type_ = "string", json_path = ".spec.cidr"),
    printcolumn(name = "Size", type_ = "integer", json_path = ".status.totalIPs"),
    printcolumn(name = "Used", type_ = "integer", json_path = ".status.allocatedIPs"),
    printcolumn(name = "Free", type_ = "integer", json_path = ".status.availableIPs"),
    printcolumn(
        name = "Largest",
        type_ = "integer",
        json_path = ".status.largestFreeBlock"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!has(self.reserved) || self.reserved.all(r, cidr(self.cidr).containsCIDR(r.cidr))")
        .message("every reserved range must lie inside the pool")
        .field_path(".reserved"),
    validation = Rule::new("cidr(oldSelf.cidr) == cidr(self.cidr) || cidr(self.cidr).containsCIDR(oldSelf.cidr)")
        .message("a pool may only grow: the new range must contain the old one")
        .field_path(".cidr")
)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPoolSpec {
    /// The whole range of the pool.
    #[schemars(schema_with = "crate::schema::cidr")]
    pub cidr: String,
    /// Ranges inside the pool that are never handed out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub reserved: Vec<ReservedRange>,
}

/// A range that is never handed out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservedRange {
    /// The range.
    #[schemars(schema_with = "crate::schema::cidr")]
    pub cidr: String,
    /// Why it is reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub description: Option<String>,
}

/// What the allocator last found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPoolStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the pool: Ready, and the capacity tiers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Addresses that tenants may use.
    #[serde(default, rename = "totalIPs", skip_serializing_if = "Option::is_none")]
    pub total_ips: Option<i64>,
}
