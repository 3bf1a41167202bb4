//! Settings of a provider that one tenant cluster wants differently.

use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of a provider that this cluster wants differently.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new(
        "[has(self.harvester), has(self.nutanix), has(self.proxmox), has(self.gcp)]\
         .filter(given, given).size() <= 1"
    )
        .message("a cluster runs on one provider: give at most one of harvester, nutanix, proxmox and gcp")
)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureOverride {
    /// On Harvester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<HarvesterOverride>,
    /// On Nutanix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<NutanixOverride>,
    /// On Proxmox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<ProxmoxOverride>,
    /// On Google Cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcp: Option<GcpOverride>,
}

/// On Harvester.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HarvesterOverride {
    /// Namespace the machines are made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: Option<String>,
    /// Network, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::namespaced_name")]
    pub network_name: Option<String>,
    /// Image, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::namespaced_name")]
    pub image_name: Option<String>,
}

/// On Nutanix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NutanixOverride {
    /// Cluster the machines are made in.
    #[serde(
        rename = "clusterUUID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 1, max = 64))]
    pub cluster_uuid: Option<String>,
    /// Subnet of the machines.
    #[serde(
        rename = "subnetUUID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 1, max = 64))]
    pub subnet_uuid: Option<String>,
    /// Image of the machines.
    #[serde(rename = "imageUUID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub image_uuid: Option<String>,
    /// Storage container of the disks.
    #[serde(
        rename = "storageContainerUUID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 1, max = 64))]
    pub storage_container_uuid: Option<String>,
}

/// On Proxmox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxmoxOverride {
    /// Node of the Proxmox cluster the machines are made on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub node: Option<String>,
    /// Storage of the disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub storage: Option<String>,
    /// Template the machines are cloned from, by its id.
    #[serde(
        rename = "templateID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 100, max = 999_999_999))]
    pub template_id: Option<i32>,
}

/// On Google Cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcpOverride {
    /// Machine type, such as `n2-standard-4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub machine_type: Option<String>,
    /// Zone, such as `europe-west3-a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub zone: Option<String>,
    /// Subnetwork of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub subnetwork: Option<String>,
    /// Image of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Image family whose newest image is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub image_family: Option<String>,
}
