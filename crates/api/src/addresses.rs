//! Cluster API's `IPAddressClaim` and `IPAddress`, as far as those who give addresses and those who ask for them read
//! and write them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

/// API group of both kinds.
pub const GROUP: &str = "ipam.cluster.x-k8s.io";

/// A claim of an infrastructure provider on one address for a machine.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "IPAddressClaim",
    plural = "ipaddressclaims",
    namespaced,
    schema = "disabled",
    status = "IPAddressClaimStatus",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressClaimSpec {
    /// The Cluster that the machine belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// Where the address comes from.
    #[serde(default)]
    pub pool_ref: PoolReference,
}

/// A pool of any provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolReference {
    /// Group of its kind.
    pub api_group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// What became of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressClaimStatus {
    /// The address, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_ref: Option<Name>,
    /// What holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The name of an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Name {
    /// Its name.
    pub name: String,
}

/// An address of a machine.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "IPAddress",
    plural = "ipaddresses",
    namespaced,
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct IPAddressSpec {
    /// The address itself.
    #[serde(default)]
    pub address: String,
    /// The claim it was made for.
    #[serde(default)]
    pub claim_ref: Name,
    /// The pool it came from.
    #[serde(default)]
    pub pool_ref: PoolReference,
    /// How many bits of it name the network.
    #[serde(default)]
    pub prefix: i32,
    /// The way out of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}
