//! What each provider needs to know.

use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::schema;

/// About Harvester.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Harvester {
    /// Address of its API. Default: the server of the kubeconfig in the credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::url")]
    pub endpoint: Option<String>,
    /// Namespace the machines are made in. Default: `default`.
    #[serde(default = "default_namespace")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: String,
    /// Network of the machines, as `namespace/name`.
    #[schemars(schema_with = "network_name")]
    pub network_name: String,
    /// Image of the machines, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::namespaced_name")]
    pub image_name: Option<String>,
    /// StorageClass of the disks. Default: that of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub storage_class_name: Option<String>,
    /// SSH key pair of Harvester that may sign in, as `namespace/name`. Needed with clusterAPIProvider
    /// harvester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::namespaced_name")]
    pub ssh_key_pair: Option<String>,
    /// Which Cluster API provider makes the machines: harvester or kubevirt. Default: harvester.
    #[serde(rename = "clusterAPIProvider", default)]
    pub cluster_api_provider: HarvesterMachines,
}

/// Cluster API providers that make machines on Harvester.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HarvesterMachines {
    /// The one for Harvester.
    #[default]
    Harvester,
    /// The one for KubeVirt, which Harvester is built on.
    Kubevirt,
}

fn default_namespace() -> String {
    "default".into()
}

fn network_name(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        127,
        "self.matches('^[a-z0-9-]+/[a-z0-9-]+$')",
        "must be written as namespace/name, such as default/vlan40",
    )
}

/// About Nutanix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nutanix {
    /// Address of Prism Central, such as `https://prism.example.com`.
    #[schemars(schema_with = "crate::schema::url")]
    pub endpoint: String,
    /// Port of Prism Central. Default: 9440.
    #[serde(default = "prism_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Whether its certificate is not checked. Default: false.
    #[serde(default)]
    pub insecure: bool,
    /// Cluster the machines are made in.
    #[serde(rename = "clusterUUID")]
    #[schemars(length(min = 1, max = 64))]
    pub cluster_uuid: String,
    /// Subnet of the machines.
    #[serde(rename = "subnetUUID")]
    #[schemars(length(min = 1, max = 64))]
    pub subnet_uuid: String,
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

fn prism_port() -> i32 {
    9440
}

/// About Proxmox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proxmox {
    /// Address of its API, such as `https://pve.example.com:8006`.
    #[schemars(schema_with = "crate::schema::url")]
    pub endpoint: String,
    /// Whether its certificate is not checked. Default: false.
    #[serde(default)]
    pub insecure: bool,
    /// Nodes of the Proxmox cluster the machines are made on.
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 63)))]
    pub nodes: Vec<String>,
    /// Storage of the disks.
    #[schemars(length(min = 1, max = 100))]
    pub storage: String,
    /// Template the machines are cloned from, by its id.
    #[serde(
        rename = "templateID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 100, max = 999_999_999))]
    pub template_id: Option<i32>,
    /// Bridge of the machines. Default: vmbr0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 15))]
    pub bridge: Option<String>,
    /// Ids that new machines may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmid_range: Option<VmIdRange>,
}

/// Ids that new machines may have, both included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.start <= self.end")
        .message("start must not be above end")
        .field_path(".start")
)]
pub struct VmIdRange {
    /// Lowest id, at least 100.
    #[schemars(range(min = 100, max = 999_999_999))]
    pub start: i32,
    /// Highest id.
    #[schemars(range(min = 100, max = 999_999_999))]
    pub end: i32,
}

/// About Azure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Azure {
    /// Subscription that pays.
    #[serde(rename = "subscriptionID")]
    #[schemars(length(min = 1, max = 64))]
    pub subscription_id: String,
    /// Resource group everything is made in.
    #[schemars(length(min = 1, max = 90))]
    pub resource_group: String,
    /// Region, such as `westeurope`. Default: that of the resource group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub location: Option<String>,
    /// Virtual network of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 80))]
    pub vnet_name: Option<String>,
    /// Subnet of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 80))]
    pub subnet_name: Option<String>,
    /// Machine size, such as `Standard_D4s_v5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub vm_size: Option<String>,
    /// Image of the machines, as publisher:offer:sku:version.
    #[serde(rename = "imageURN", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image_urn: Option<String>,
}

/// About AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Aws {
    /// Region, such as `eu-central-1`.
    #[schemars(length(min = 1, max = 63))]
    pub region: String,
    /// VPC of the machines. Default: the region's default VPC.
    #[serde(rename = "vpcID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub vpc_id: Option<String>,
    /// Subnets of the machines.
    #[serde(rename = "subnetIDs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 64)))]
    pub subnet_ids: Vec<String>,
    /// Security groups of the machines.
    #[serde(
        rename = "securityGroupIDs",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 32), inner(length(min = 1, max = 64)))]
    pub security_group_ids: Vec<String>,
    /// Instance type, such as `m6i.xlarge`. Default: the smallest of the m6i, c6i and r6i families that fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub instance_type: Option<String>,
    /// Image of the machines, such as `ami-0abcdef1234567890`.
    #[serde(rename = "imageID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub image_id: Option<String>,
}

/// About Google Cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gcp {
    /// Project that pays.
    #[serde(rename = "projectID")]
    #[schemars(length(min = 1, max = 64))]
    pub project_id: String,
    /// Region, such as `europe-west3`.
    #[schemars(length(min = 1, max = 63))]
    pub region: String,
    /// Zone, such as `europe-west3-a`. Default: all zones of the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub zone: Option<String>,
    /// Network of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub network: Option<String>,
    /// Subnetwork of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub subnetwork: Option<String>,
    /// Machine type, such as `n2-standard-4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub machine_type: Option<String>,
    /// Image of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Image family whose newest image is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub image_family: Option<String>,
    /// Project of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub image_project: Option<String>,
    /// Service account of the machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 254))]
    pub service_account: Option<String>,
    /// Network tags of the machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub tags: Vec<String>,
}

/// About vSphere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vsphere {
    /// Host name or address of the vCenter server.
    #[schemars(schema_with = "crate::schema::host")]
    pub server: String,
    /// Datacenter the machines are made in.
    #[schemars(length(min = 1, max = 253))]
    pub datacenter: String,
    /// Datastore of the disks.
    #[schemars(length(min = 1, max = 253))]
    pub datastore: String,
    /// Network of the machines.
    #[schemars(length(min = 1, max = 253))]
    pub network: String,
    /// Resource pool of the machines. Default: that of the datacenter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub resource_pool: Option<String>,
    /// Folder of the machines. Default: that of the datacenter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub folder: Option<String>,
    /// Template the machines are cloned from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub template: Option<String>,
    /// SHA-1 fingerprint of the server's certificate, with colons. Left out, the provider does not check the
    /// certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub thumbprint: Option<String>,
}

/// About machines on the machine Butler runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Local {
    /// Node image, where machines are kind containers. Default: the one of the Kubernetes version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub kind_node_image: Option<String>,
}
