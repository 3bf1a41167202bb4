//! `IPAllocation`: a claim of one tenant cluster on addresses of a pool.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    cel,
    common::{LocalRef, NamespacedRef},
};

/// A claim of one tenant cluster on addresses of a pool.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "IPAllocation",
    plural = "ipallocations",
    shortname = "ipa",
    category = "butler",
    namespaced,
    status = "IPAllocationStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A claim of one tenant cluster on addresses of a NetworkPool.",
    crates(kube_core = "::kube_core"),
    selectable = ".spec.poolRef.name",
    printcolumn(name = "Pool", type_ = "string", json_path = ".spec.poolRef.name"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.tenantClusterRef.name"
    ),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Start", type_ = "string", json_path = ".status.startAddress"),
    printcolumn(name = "End", type_ = "string", json_path = ".status.endAddress"),
    printcolumn(
        name = "Count",
        type_ = "integer",
        json_path = ".status.allocatedCount",
        priority = 1
    ),
    printcolumn(
        name = "Namespace",
        type_ = "string",
        json_path = ".spec.tenantClusterRef.namespace",
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
    validation = cel::immutable("poolRef"),
    validation = cel::immutable("tenantClusterRef"),
    validation = cel::immutable("type")
)]
#[serde(rename_all = "camelCase")]
pub struct IPAllocationSpec {
    /// The NetworkPool to draw from, in the same namespace. It cannot be changed.
    pub pool_ref: LocalRef,
    /// The TenantCluster that gets the addresses. It cannot be changed.
    pub tenant_cluster_ref: NamespacedRef,
    /// What the addresses are for: `loadbalancer` or `nodes`. It cannot be changed.
    #[serde(rename = "type")]
    pub type_: AllocationType,
    /// How many addresses. Defaults to the number that the pool gives to a tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub count: Option<i32>,
    /// Exactly these addresses, in place of any `count` of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned_range: Option<PinnedRange>,
    /// Whether several ranges will do where no single one has enough addresses. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_multiple_ranges: Option<bool>,
}

/// What addresses are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AllocationType {
    /// Machines of the cluster.
    Nodes,
    /// Services of type `LoadBalancer` in the cluster.
    #[default]
    Loadbalancer,
}

/// A range of addresses that must be had as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new(cel::in_order("self.startAddress", "self.endAddress"))
        .message("startAddress must not come after endAddress, and both must be IPv4 or both IPv6")
        .field_path(".startAddress")
)]
#[serde(rename_all = "camelCase")]
pub struct PinnedRange {
    /// First address, such as `10.40.1.100`.
    #[schemars(schema_with = "crate::schema::ip")]
    pub start_address: String,
    /// Last address, such as `10.40.1.107`.
    #[schemars(schema_with = "crate::schema::ip")]
    pub end_address: String,
}

/// What the allocator gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IPAllocationStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, with the reason when no addresses could be had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Where the claim is in its life, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<AllocationPhase>,
    /// First address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_address: Option<String>,
    /// Last address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_address: Option<String>,
    /// The addresses as one range: `10.40.1.8/29`, or `10.40.1.8-10.40.1.12` where that is not possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// The addresses as ranges such as `10.40.1.8-10.40.1.12`: one, or several where the claim allows it. With
    /// several, startAddress, endAddress and cidr are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4096), inner(length(max = 80)))]
    pub ranges: Vec<String>,
    /// UID of the cluster that has them: one that is made later under the same name does not.
    #[serde(default, rename = "ownerUID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub owner_uid: Option<String>,
    /// Every address, one by one, of claims of at most 4096.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 65536), inner(length(max = 39)))]
    pub addresses: Vec<String>,
    /// How many addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_count: Option<i32>,
    /// When they were given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub allocated_at: Option<Time>,
    /// Who gave them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_by: Option<String>,
    /// When they were given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub released_at: Option<Time>,
}

/// The life of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AllocationPhase {
    /// Waits for the allocator.
    #[default]
    Pending,
    /// Has its addresses.
    Allocated,
    /// Gave them back.
    Released,
    /// The pool has no such addresses; it is tried again.
    Failed,
}
