//! `MachineRequest`: one virtual machine of a management cluster, to be made by a provider.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{cel, common::ObjectRef};

/// One virtual machine of a management cluster, to be made by a provider.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "MachineRequest",
    plural = "machinerequests",
    shortname = "mr",
    category = "butler",
    namespaced,
    status = "MachineRequestStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One virtual machine of a management cluster, to be made by a provider.",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Machine", type_ = "string", json_path = ".spec.machineName"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.role"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "IP", type_ = "string", json_path = ".status.ipAddress"),
    printcolumn(
        name = "Provider ID",
        type_ = "string",
        json_path = ".status.providerID",
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
    validation = cel::immutable("machineName"),
    validation = cel::immutable("providerRef"),
    validation = cel::immutable("role")
)]
#[serde(rename_all = "camelCase")]
pub struct MachineRequestSpec {
    /// The ProviderConfig that says where the machine is made. It cannot be changed.
    pub provider_ref: ObjectRef,
    /// Name of the machine at the provider, and its host name. It cannot be changed.
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub machine_name: String,
    /// Whether it is a `control-plane` or a `worker` machine. It cannot be changed.
    pub role: MachineRole,
    /// Number of virtual CPUs, 1 to 128.
    #[schemars(range(min = 1, max = 128))]
    pub cpu: i32,
    /// Memory in MiB, at least 1024.
    #[serde(rename = "memoryMB")]
    #[schemars(range(min = 1024))]
    pub memory_mb: i32,
    /// Size of the system disk in GiB, at least 10.
    #[serde(rename = "diskGB")]
    #[schemars(range(min = 10))]
    pub disk_gb: i32,
    /// Further disks, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub extra_disks: Vec<ExtraDisk>,
    /// Image to start from. Defaults to the image of the ProviderConfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image: Option<String>,
    /// Configuration that the machine reads when it first starts, such as cloud-init.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 262_144))]
    pub user_data: Option<String>,
    /// Network configuration in the format of cloud-init.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub network_data: Option<String>,
    /// Labels or tags that the provider puts on the machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
}

/// What a machine is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MachineRole {
    /// Runs etcd and the API server.
    ControlPlane,
    /// Runs everything else.
    #[default]
    Worker,
}

/// A disk beside the system disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraDisk {
    /// Size in GiB.
    #[serde(rename = "sizeGB")]
    #[schemars(range(min = 1))]
    pub size_gb: i32,
    /// Storage class at the provider. Defaults to that of the system disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class: Option<String>,
}

/// What the provider reports about the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineRequestStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready and Progressing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Where the machine is in its life, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<MachinePhase>,
    /// How the provider calls the machine.
    #[serde(
        default,
        rename = "providerID",
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_id: Option<String>,
    /// The address the machine is reached at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// Every address of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ip_addresses: Vec<String>,
    /// Hardware address of its first network card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// Why it failed, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Why it failed, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_updated: Option<Time>,
}

/// The life of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MachinePhase {
    /// Not asked for yet.
    #[default]
    Pending,
    /// Being made.
    Creating,
    /// Runs and has an address.
    Running,
    /// Could not be made.
    Failed,
    /// Being removed.
    Deleting,
    /// Gone.
    Deleted,
    /// The provider does not answer.
    Unknown,
}
