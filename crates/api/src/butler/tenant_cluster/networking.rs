//! Address ranges and the DNS domain of a tenant cluster.

use kube_derive::KubeSchema;
use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::rules;
use crate::{cel, common::AddressRange, schema};

/// Address ranges and the DNS domain of a tenant cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = cel::immutable("podCIDR"),
    validation = cel::immutable("serviceCIDR"),
    validation = cel::immutable("clusterDomain"),
    validation = rules::set_once("nodeCIDR", "the machines already have addresses in it"),
    validation = Rule::new(
        "!isCIDR(self.podCIDR) || !isCIDR(self.serviceCIDR) \
         || cidr(self.podCIDR).ip().family() == cidr(self.serviceCIDR).ip().family()"
    )
        .message("serviceCIDR and podCIDR must both be IPv4 or both be IPv6")
        .field_path(".serviceCIDR"),
    validation = Rule::new(cel::apart("self.podCIDR", "self.serviceCIDR"))
        .message("serviceCIDR must not overlap podCIDR")
        .field_path(".serviceCIDR"),
    validation = Rule::new(format!(
        "!has(self.nodeCIDR) || {}",
        cel::apart("self.podCIDR", "self.nodeCIDR")
    ))
        .message("nodeCIDR must not overlap podCIDR")
        .field_path(".nodeCIDR"),
    validation = Rule::new(format!(
        "!has(self.nodeCIDR) || {}",
        cel::apart("self.serviceCIDR", "self.nodeCIDR")
    ))
        .message("nodeCIDR must not overlap serviceCIDR")
        .field_path(".nodeCIDR"),
    validation = pool_apart("podCIDR"),
    validation = pool_apart("serviceCIDR"),
    validation = Rule::new("!has(self.loadBalancerPool) || !has(self.lbPoolSize)")
        .message("give loadBalancerPool with your own addresses, or lbPoolSize to draw from a NetworkPool, not both")
        .field_path(".lbPoolSize")
)]
#[serde(rename_all = "camelCase")]
pub struct Networking {
    /// Range that pods get their addresses from; each node takes a /24 of it (IPv6: a /64).
    /// Default: `10.244.0.0/16`. It cannot change.
    #[serde(rename = "podCIDR", default = "pod_cidr")]
    #[schemars(schema_with = "pod_range")]
    pub pod_cidr: String,
    /// Range of Service addresses, from /12 to /28 (IPv6: from /108 to /124). Default: `10.96.0.0/12`.
    /// It cannot change.
    #[serde(rename = "serviceCIDR", default = "service_cidr")]
    #[schemars(schema_with = "service_range")]
    pub service_cidr: String,
    /// Range the machines have their addresses in, such as `10.40.0.0/24`, if it is known. It only
    /// serves to refuse ranges that overlap it, and cannot change once set.
    #[serde(rename = "nodeCIDR", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::cidr")]
    pub node_cidr: Option<String>,
    /// DNS domain of Services. Default: `cluster.local`. It cannot change.
    #[serde(default = "cluster_domain")]
    #[schemars(schema_with = "domain")]
    pub cluster_domain: String,
    /// Your own addresses for load balancers, from start to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_pool: Option<AddressRange>,
    /// How many load-balancer addresses to draw from the provider's NetworkPool. Default: as the
    /// ProviderConfig says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65536))]
    pub lb_pool_size: Option<i32>,
}

impl Default for Networking {
    fn default() -> Self {
        Self {
            pod_cidr: pod_cidr(),
            service_cidr: service_cidr(),
            node_cidr: None,
            cluster_domain: cluster_domain(),
            load_balancer_pool: None,
            lb_pool_size: None,
        }
    }
}

fn pod_cidr() -> String {
    "10.244.0.0/16".into()
}

fn service_cidr() -> String {
    "10.96.0.0/12".into()
}

fn cluster_domain() -> String {
    "cluster.local".into()
}

/// `loadBalancerPool` shares no address with a range of the cluster.
fn pool_apart(range: &str) -> kube_core::Rule {
    let apart = rules::range_apart(
        "self.loadBalancerPool.start",
        "self.loadBalancerPool.end",
        &format!("self.{range}"),
    );
    kube_core::Rule::new(format!("!has(self.loadBalancerPool) || {apart}"))
        .message(&*format!(
            "the load-balancer pool must not share addresses with {range}"
        ))
        .field_path(".loadBalancerPool")
}

/// A range whose prefix length is within limits that differ by family.
fn sized(v4: (u8, u8), v6: (u8, u8), message: &str) -> Schema {
    let within = |(least, most): (u8, u8)| {
        format!("cidr(self).prefixLength() >= {least} && cidr(self).prefixLength() <= {most}")
    };
    schema::with_rule(
        schema::cidr(&mut SchemaGenerator::default()),
        &format!(
            "!isCIDR(self) || (cidr(self).ip().family() == 4 ? {} : {})",
            within(v4),
            within(v6)
        ),
        message,
    )
}

/// kube-controller-manager cuts a /24 (IPv6: /64) per node out of it, and at most 2^16 of those from IPv6.
fn pod_range(_: &mut SchemaGenerator) -> Schema {
    sized(
        (8, 24),
        (48, 64),
        "every node takes a /24 of the pod range (IPv6: a /64): use a prefix from /8 to /24 (IPv6: from /48 to /64)",
    )
}

/// kube-apiserver takes at most 2^20 Service addresses; the cluster DNS has the eleventh.
fn service_range(_: &mut SchemaGenerator) -> Schema {
    sized(
        (12, 28),
        (108, 124),
        "the API server serves from 16 to 1048576 Service addresses: use a prefix from /12 to /28 (IPv6: from /108 to /124)",
    )
}

fn domain(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        64,
        "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
        "must be a DNS domain such as cluster.local",
    )
}
