//! `NetworkPool`: a range of addresses that Butler hands out to tenants.
//!
//! Counters of addresses are `i64` and stop at its maximum: an IPv6 pool can hold more addresses than
//! any integer of the API server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    cel,
    common::{AddressRange, LocalRef, NamespacedRef},
};

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
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    validation = cel::name_at_most(63, "it becomes a label of every allocation"),
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
        name = "Allocations",
        type_ = "integer",
        json_path = ".status.allocationCount",
        priority = 1
    ),
    printcolumn(
        name = "Fragmentation",
        type_ = "integer",
        json_path = ".status.fragmentationPercent",
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
    validation = Rule::new(
        "!has(self.reserved) || !isCIDR(self.cidr) \
         || self.reserved.all(r, !isCIDR(r.cidr) || cidr(self.cidr).containsCIDR(r.cidr))"
    )
        .message("every reserved range must lie inside the pool")
        .field_path(".reserved"),
    validation = Rule::new(
        "!isCIDR(self.cidr) || cidr(oldSelf.cidr) == cidr(self.cidr) \
         || cidr(self.cidr).containsCIDR(oldSelf.cidr)"
    )
        .message("a pool may only grow: the new range must contain the old one")
        .field_path(".cidr"),
    validation = Rule::new(
        "!has(self.tenantAllocation.ranges) || !isCIDR(self.cidr) \
         || self.tenantAllocation.ranges.all(r, (!isIP(r.start) || cidr(self.cidr).containsIP(r.start)) \
         && (!isIP(r.end) || cidr(self.cidr).containsIP(r.end)))"
    )
        .message("every range for tenants must lie inside the pool")
        .field_path(".tenantAllocation.ranges"),
    validation = Rule::new(
        "!has(self.tenantAllocation.start) || !isCIDR(self.cidr) || !isIP(self.tenantAllocation.start) \
         || cidr(self.cidr).containsIP(self.tenantAllocation.start)"
    )
        .message("start must lie inside the pool")
        .field_path(".tenantAllocation.start"),
    validation = Rule::new(
        "!has(self.tenantAllocation.end) || !isCIDR(self.cidr) || !isIP(self.tenantAllocation.end) \
         || cidr(self.cidr).containsIP(self.tenantAllocation.end)"
    )
        .message("end must lie inside the pool")
        .field_path(".tenantAllocation.end"),
    validation = Rule::new(
        "!has(self.gateway) || !isCIDR(self.cidr) || !isIP(self.gateway) || cidr(self.cidr).containsIP(self.gateway)"
    )
        .message("the gateway must lie inside the pool")
        .field_path(".gateway")
)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPoolSpec {
    /// The whole range of the pool, such as `10.40.0.0/16` or `fd00:40::/64`. It may grow, never shrink.
    #[schemars(schema_with = "crate::schema::cidr")]
    pub cidr: String,
    /// Ranges inside the pool that are never handed out, such as those of routers and hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cidr"])
    )]
    pub reserved: Vec<ReservedRange>,
    /// Which part of the pool tenants draw from, and how much each gets. Defaults to the whole pool.
    #[serde(default)]
    pub tenant_allocation: TenantAllocation,
    /// Gateway of the network. It is never handed out, and machines that draw from the pool are told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub gateway: Option<String>,
    /// How many seconds addresses rest after they were given back, before anybody else gets them. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800))]
    pub quarantine_seconds: Option<i32>,
    /// How many seconds a released IPAllocation is kept, to see who had which address. As long as it is kept,
    /// its cluster gets the same addresses again. Default: 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 31_536_000))]
    pub retain_released_seconds: Option<i32>,
}

/// A range that is never handed out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReservedRange {
    /// The range, such as `10.40.0.0/28`.
    #[schemars(schema_with = "crate::schema::cidr")]
    pub cidr: String,
    /// Why it is reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub description: Option<String>,
}

/// Which part of a pool tenants draw from, and how much each gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("has(self.start) == has(self.end)")
        .message("start and end belong together: give both or neither"),
    validation = Rule::new("!has(self.start) || !has(self.ranges) || self.ranges.size() == 0")
        .message("give ranges, or start and end, not both")
        .field_path(".ranges"),
    validation = Rule::new(format!(
        "!has(self.start) || !has(self.end) || {}",
        cel::in_order("self.start", "self.end")
    ))
        .message("start must not come after end, and both must be IPv4 or both IPv6")
        .field_path(".start"),
    validation = Rule::new(format!(
        "!has(self.ranges) || [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14].all(i, i + 1 >= self.ranges.size() \
         || !isIP(self.ranges[i].end) || !isIP(self.ranges[i + 1].start) || {})",
        cel::before("self.ranges[i].end", "self.ranges[i + 1].start")
    ))
        .message("ranges must be sorted and must not overlap")
        .field_path(".ranges")
)]
#[serde(rename_all = "camelCase")]
pub struct TenantAllocation {
    /// The parts of the pool that tenants draw from, sorted, at most 16. Defaults to the whole pool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ranges: Vec<AddressRange>,
    /// First address for tenants. The older way to write a single entry of `ranges`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub start: Option<String>,
    /// Last address for tenants. The older way to write a single entry of `ranges`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub end: Option<String>,
    /// How many addresses a tenant gets that does not ask for a number.
    #[serde(default)]
    pub defaults: AllocationDefaults,
}

/// How many addresses a tenant gets that does not ask for a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocationDefaults {
    /// Addresses for load balancers of one tenant. Defaults to 8.
    #[schemars(range(min = 1, max = 65536))]
    pub lb_pool_per_tenant: i32,
    /// Addresses for nodes of one tenant. Defaults to 5.
    #[schemars(range(min = 1, max = 65536))]
    pub nodes_per_tenant: i32,
}

impl Default for AllocationDefaults {
    fn default() -> Self {
        Self {
            lb_pool_per_tenant: 8,
            nodes_per_tenant: 5,
        }
    }
}

/// What the allocator last found. Numbers too large for 64 bits are shown as 9223372036854775807.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPoolStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, and the tiers of use: CapacityWarning, CapacityCritical, CapacityExhausted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Addresses that tenants may use, whether used or not.
    #[serde(default, rename = "totalIPs", skip_serializing_if = "Option::is_none")]
    pub total_ips: Option<i64>,
    /// Addresses that belong to a tenant now.
    #[serde(
        default,
        rename = "allocatedIPs",
        skip_serializing_if = "Option::is_none"
    )]
    pub allocated_ips: Option<i64>,
    /// Addresses that the next tenants can get.
    #[serde(
        default,
        rename = "availableIPs",
        skip_serializing_if = "Option::is_none"
    )]
    pub available_ips: Option<i64>,
    /// Addresses that were given back and rest before anybody else gets them.
    #[serde(
        default,
        rename = "restingIPs",
        skip_serializing_if = "Option::is_none"
    )]
    pub resting_ips: Option<i64>,
    /// How many allocations hold addresses of this pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation_count: Option<i64>,
    /// Longest run of free addresses: a larger single allocation cannot be served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_free_block: Option<i64>,
    /// Share of the free addresses outside the longest run, in percent. 0 means all of them are in one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub fragmentation_percent: Option<i32>,
    /// Addresses in the whole range of the pool.
    #[serde(
        default,
        rename = "poolSizeIPs",
        skip_serializing_if = "Option::is_none"
    )]
    pub pool_size_ips: Option<i64>,
    /// Addresses in reserved ranges.
    #[serde(
        default,
        rename = "reservedIPs",
        skip_serializing_if = "Option::is_none"
    )]
    pub reserved_ips: Option<i64>,
    /// Addresses of the pool that nodes, machines and services of the platform were seen to use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 4096),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["ip"])
    )]
    pub infrastructure_allocations: Vec<InfrastructureAllocation>,
    /// How many addresses the platform itself uses.
    #[serde(
        default,
        rename = "infrastructureConsumedIPs",
        skip_serializing_if = "Option::is_none"
    )]
    pub infrastructure_consumed_ips: Option<i64>,
    /// Parts of the pool that are neither reserved nor for tenants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub unmanaged_ranges: Vec<UnmanagedRange>,
    /// Addresses in those parts.
    #[serde(
        default,
        rename = "unmanagedScopeIPs",
        skip_serializing_if = "Option::is_none"
    )]
    pub unmanaged_scope_ips: Option<i64>,
    /// Addresses that are being handed out just now: written before the IPAllocation is, so that nobody else
    /// gets them whatever happens in between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), extend("x-kubernetes-list-type" = "atomic"))]
    pub grants: Vec<Grant>,
}

/// Addresses that are being handed out just now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Grant {
    /// Name of the IPAllocation.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its UID.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// The addresses, as ranges such as `10.40.1.8-10.40.1.12`.
    #[schemars(length(max = 4096), inner(length(max = 80)))]
    pub ranges: Vec<String>,
}

/// An address that the platform itself uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureAllocation {
    /// The address.
    #[schemars(length(max = 39))]
    pub ip: String,
    /// Where it was seen: `metallb`, `node` or `machine`.
    #[schemars(length(max = 63))]
    pub source: String,
    /// The Cluster API Machine that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_ref: Option<NamespacedRef>,
    /// The Node that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<LocalRef>,
    /// The Service that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ref: Option<NamespacedRef>,
}

/// A part of the pool that nobody manages, first and last address included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnmanagedRange {
    /// First address.
    #[schemars(length(max = 39))]
    pub start: String,
    /// Last address.
    #[schemars(length(max = 39))]
    pub end: String,
}
