//! Addresses, ports and ranges of a hosted control plane.

use kube_derive::KubeSchema;
use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::{cel, schema, steward::rules};

/// Addresses, ports and ranges of the tenant cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = cel::immutable("serviceCidr"),
    validation = cel::immutable("podCidr"),
    validation = cel::immutable("clusterDomain"),
    validation = Rule::new(cel::apart("self.podCidr", "self.serviceCidr"))
        .message("podCidr and serviceCidr must not overlap")
        .field_path(".podCidr"),
    validation = Rule::new(rules::ips_inside("self.dnsServiceIPs", "self.serviceCidr"))
        .message("every address of dnsServiceIPs must lie inside serviceCidr")
        .field_path(".dnsServiceIPs"),
    validation = Rule::new("!self.allowAddressAsExternalIP || (has(self.address) && self.address != '')")
        .message("allowAddressAsExternalIP needs an address")
        .field_path(".allowAddressAsExternalIP")
)]
#[serde(rename_all = "camelCase")]
pub struct NetworkProfile {
    /// Fixed IP address of the API server. Left out, it is read from the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "address")]
    pub address: Option<String>,
    /// Write the address into the Service's externalIPs (NodePort and ClusterIP Services).
    #[serde(default, rename = "allowAddressAsExternalIP")]
    pub allow_address_as_external_ip: bool,
    /// Port of the API server. Default 6443.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// More names and addresses that the API server's certificate is valid for.
    #[serde(default, rename = "certSANs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::subject_names")]
    pub cert_sans: Vec<String>,
    /// Range of Service addresses. Default `10.96.0.0/16`. Fixed at creation.
    #[serde(default = "default_service_cidr")]
    #[schemars(schema_with = "crate::schema::cidr")]
    pub service_cidr: String,
    /// Range of pod addresses. Default `10.244.0.0/16`. Fixed at creation.
    #[serde(default = "default_pod_cidr")]
    #[schemars(schema_with = "crate::schema::cidr")]
    pub pod_cidr: String,
    /// Addresses of the cluster's DNS Service, inside serviceCidr. Default: the tenth address of it.
    #[serde(
        default,
        rename = "dnsServiceIPs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(schema_with = "crate::steward::fragments::ips")]
    pub dns_service_ips: Vec<String>,
    /// DNS domain of the cluster. Default `cluster.local`. Fixed at creation.
    #[serde(default = "default_cluster_domain")]
    #[schemars(schema_with = "cluster_domain")]
    pub cluster_domain: String,
    /// Client ranges that the load balancer lets in. Needs serviceType LoadBalancer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::cidrs")]
    pub load_balancer_source_ranges: Vec<String>,
    /// Load-balancer implementation to use. Needs serviceType LoadBalancer; fixed while it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub load_balancer_class: Option<String>,
}

impl Default for NetworkProfile {
    fn default() -> Self {
        Self {
            address: None,
            allow_address_as_external_ip: false,
            port: default_port(),
            cert_sans: Vec::new(),
            service_cidr: default_service_cidr(),
            pod_cidr: default_pod_cidr(),
            dns_service_ips: Vec::new(),
            cluster_domain: default_cluster_domain(),
            load_balancer_source_ranges: Vec::new(),
            load_balancer_class: None,
        }
    }
}

/// An empty address means none: people keep the line and clear the value.
pub fn address(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        39,
        "self == '' || isIP(self)",
        "must be an IP address such as 10.40.1.100",
    )
}

fn cluster_domain(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        253,
        "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)+$')",
        "must be a DNS domain with a dot, such as cluster.local",
    )
}

fn default_port() -> i32 {
    6443
}

fn default_service_cidr() -> String {
    "10.96.0.0/16".into()
}

fn default_pod_cidr() -> String {
    "10.244.0.0/16".into()
}

fn default_cluster_domain() -> String {
    "cluster.local".into()
}
