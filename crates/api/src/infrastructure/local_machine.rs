//! `LocalMachine`: one machine of the local platform.

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString};
use kube_derive::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::contract::Initialization;
use crate::{cel, schema, steward::tenant_control_plane::kubernetes::AddressType};

/// A machine to run, and what it may use.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "LocalMachine",
    plural = "localmachines",
    category = "butler",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    label("cluster.x-k8s.io/provider", "infrastructure-butler-local"),
    label("clusterctl.cluster.x-k8s.io", ""),
    namespaced,
    status = "LocalMachineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A machine of the local platform: namespaces of the host with a root, a container runtime and a kubelet of their own, which run their bootstrap data and join a Cluster.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    validation = cel::name_at_most(63, "it becomes the machine's host name"),
    validation = Rule::new("!self.metadata.name.contains('.')")
        .message("the name becomes the machine's host name and must not contain dots")
        .field_path(".metadata.name"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']"
    ),
    printcolumn(
        name = "Provisioned",
        type_ = "boolean",
        json_path = ".status.initialization.provisioned"
    ),
    printcolumn(
        name = "Address",
        type_ = "string",
        json_path = ".status.addresses[?(@.type==\"InternalIP\")].address"
    ),
    printcolumn(name = "CPU", type_ = "string", json_path = ".spec.cpu", priority = 1),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".spec.memory",
        priority = 1
    ),
    printcolumn(
        name = "Provider ID",
        type_ = "string",
        json_path = ".spec.providerID",
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
    validation = cel::immutable("cpu"),
    validation = cel::immutable("memory"),
    validation = cel::immutable("disk"),
    validation = cel::immutable_optional("image"),
    validation = Rule::new("!has(oldSelf.providerID) || (has(self.providerID) && self.providerID == oldSelf.providerID)")
        .message("providerID is written once and cannot be changed or removed")
        .field_path(".providerID")
)]
#[serde(rename_all = "camelCase")]
pub struct LocalMachineSpec {
    /// The machine's id, such as `local://demo/demo-workers-x7k2p`. Written by the controller; the Node
    /// carries the same.
    #[serde(
        default,
        rename = "providerID",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 512), regex(pattern = r"^local://[^\s]+$"))]
    pub provider_id: Option<String>,
    /// What the machine may use.
    #[serde(flatten)]
    pub shape: MachineShape,
}

/// What a machine may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineShape {
    /// CPU in cores that the machine may use, such as `2` or `500m`. Default 2, at least `100m`.
    #[serde(default = "default_cpu")]
    #[schemars(schema_with = "cpu")]
    pub cpu: IntOrString,
    /// Memory that the machine may use, such as `4Gi`. Default `2Gi`, at least `256Mi`.
    #[serde(default = "default_memory")]
    #[schemars(schema_with = "memory")]
    pub memory: IntOrString,
    /// Size of the machine's disk, such as `20Gi`. Default `20Gi`, at least `1Gi`.
    #[serde(default = "default_disk")]
    #[schemars(schema_with = "disk")]
    pub disk: IntOrString,
    /// Node image of the platform's store to start from, such as `v1.35.4`. Left out, the one for the
    /// Machine's Kubernetes version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::fragments::image_tag")]
    pub image: Option<String>,
}

impl Default for MachineShape {
    fn default() -> Self {
        Self {
            cpu: default_cpu(),
            memory: default_memory(),
            disk: default_disk(),
            image: None,
        }
    }
}

/// What was last observed, in the terms of Cluster API's v1beta2 contract.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalMachineStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the machine: Ready, Paused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Whether the machine has come up for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// Addresses of the machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub addresses: Vec<MachineAddress>,
}

/// An address of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname`, `InternalDNS` or `ExternalDNS`.
    #[serde(rename = "type")]
    pub kind: AddressType,
    /// The address.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,
}

fn cpu(_: &mut SchemaGenerator) -> Schema {
    schema::quantity_of_at_least("100m", "cpu")
}

fn memory(_: &mut SchemaGenerator) -> Schema {
    schema::quantity_of_at_least("256Mi", "memory")
}

fn disk(_: &mut SchemaGenerator) -> Schema {
    schema::quantity_of_at_least("1Gi", "disk")
}

fn default_cpu() -> IntOrString {
    IntOrString::Int(2)
}

fn default_memory() -> IntOrString {
    IntOrString::String("2Gi".into())
}

fn default_disk() -> IntOrString {
    IntOrString::String("20Gi".into())
}
