//! What is known about the addons of a hosted control plane.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::SecretStatus;

/// What is installed in the tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonsStatus {
    /// `CoreDNS`.
    #[serde(default, rename = "coreDNS", skip_serializing_if = "Option::is_none")]
    pub core_dns: Option<AddonStatus>,
    /// kube-proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<AddonStatus>,
    /// The tunnel to nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub konnectivity: Option<KonnectivityStatus>,
}

/// An addon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonStatus {
    /// Whether it is installed.
    #[serde(default)]
    pub enabled: bool,
}

/// The tunnel to nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KonnectivityStatus {
    /// Whether it is installed.
    #[serde(default)]
    pub enabled: bool,
    /// Secret with the server's kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<SecretStatus>,
}
