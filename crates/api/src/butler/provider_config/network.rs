//! How machines and load balancers of a provider get their addresses.

use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// How machines and load balancers of a provider get their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.mode != 'ipam' || (has(self.poolRefs) && self.poolRefs.size() > 0)")
        .message("mode ipam needs poolRefs, the NetworkPools to draw addresses from")
        .field_path(".poolRefs"),
    validation = Rule::new("self.mode == 'ipam' || !has(self.poolRefs) || self.poolRefs.size() == 0")
        .message("poolRefs go with mode ipam")
        .field_path(".poolRefs"),
    validation = Rule::new(
        "!has(self.gateway) || !has(self.subnet) || !isIP(self.gateway) || !isCIDR(self.subnet) \
         || cidr(self.subnet).containsIP(self.gateway)"
    )
        .message("the gateway must lie inside the subnet")
        .field_path(".gateway")
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderNetwork {
    /// ipam: Butler hands out addresses of NetworkPools. cloud: the provider gives them. Default: cloud.
    #[serde(default)]
    pub mode: NetworkMode,
    /// NetworkPools to draw from, in mode ipam.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub pool_refs: Vec<PoolRef>,
    /// Subnet of the machines, such as `10.40.0.0/22`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::cidr")]
    pub subnet: Option<String>,
    /// Gateway of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub gateway: Option<String>,
    /// Name servers of the machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "addresses")]
    pub dns_servers: Vec<String>,
    /// Time servers of the machines, as host names or addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::hosts")]
    pub time_servers: Vec<String>,
    /// How many load-balancer addresses a cluster gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerAddresses>,
    /// How many addresses one cluster may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_per_tenant: Option<TenantQuota>,
}

fn addresses(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 8, "items": schema::ip(generator) })
}

/// Who hands out addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkMode {
    /// Butler, from its pools.
    Ipam,
    /// The provider.
    #[default]
    Cloud,
}

/// A NetworkPool to draw from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolRef {
    /// Its name.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
    /// Pools with a lower number are used first. Default: 0.
    #[serde(default)]
    pub priority: i32,
}

/// How many load-balancer addresses a cluster gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerAddresses {
    /// static: a fixed number. elastic: more when Services wait for one. Default: static.
    #[serde(default)]
    pub allocation_mode: AllocationMode,
    /// How many a cluster gets in mode static. Default: 8.
    #[serde(default = "eight")]
    #[schemars(range(min = 1, max = 65536))]
    pub default_pool_size: i32,
    /// How many a cluster starts with in mode elastic. Default: 2.
    #[serde(default = "two")]
    #[schemars(range(min = 1, max = 65536))]
    pub initial_pool_size: i32,
    /// How many more it gets at a time in mode elastic. Default: 2.
    #[serde(default = "two")]
    #[schemars(range(min = 1, max = 65536))]
    pub growth_increment: i32,
}

impl Default for LoadBalancerAddresses {
    fn default() -> Self {
        Self {
            allocation_mode: AllocationMode::default(),
            default_pool_size: eight(),
            initial_pool_size: two(),
            growth_increment: two(),
        }
    }
}

fn eight() -> i32 {
    8
}

fn two() -> i32 {
    2
}

/// How the number of load-balancer addresses follows the demand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AllocationMode {
    /// It does not.
    #[default]
    Static,
    /// It grows and shrinks.
    Elastic,
}

/// How many addresses one cluster may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TenantQuota {
    /// For machines.
    #[serde(
        rename = "maxNodeIPs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1))]
    pub max_node_ips: Option<i32>,
    /// For load balancers.
    #[serde(
        rename = "maxLoadBalancerIPs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 1))]
    pub max_load_balancer_ips: Option<i32>,
}
