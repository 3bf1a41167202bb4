//! The worker machines of a tenant cluster.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::PoolSettings;
use crate::schema;

/// The worker machines of a tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workers {
    /// How many workers there are. Zero is a cluster that only has its API.
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// What one worker is like. A change replaces the workers one by one.
    #[serde(default)]
    pub machine_template: MachineTemplate,
    /// What the nodes carry, and how they are looked after.
    #[serde(flatten)]
    pub settings: PoolSettings,
}

/// What one machine is like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineTemplate {
    /// CPUs, as a number or a quantity; at least 1. Default: 4.
    #[serde(default = "cpu")]
    #[schemars(schema_with = "at_least_one_cpu")]
    pub cpu: IntOrString,
    /// Memory; at least 1Gi. Default: 16Gi.
    #[serde(default = "memory")]
    #[schemars(schema_with = "at_least_1gi")]
    pub memory: IntOrString,
    /// Size of the system disk; at least 10Gi. Default: 100Gi.
    #[serde(default = "disk_size")]
    #[schemars(schema_with = "at_least_10gi")]
    pub disk_size: IntOrString,
    /// Operating system. Default: Rocky Linux 9.5.
    #[serde(default)]
    pub os: NodeOs,
}

impl Default for MachineTemplate {
    fn default() -> Self {
        Self {
            cpu: cpu(),
            memory: memory(),
            disk_size: disk_size(),
            os: NodeOs::default(),
        }
    }
}

fn cpu() -> IntOrString {
    IntOrString::Int(4)
}

fn memory() -> IntOrString {
    IntOrString::String("16Gi".into())
}

fn disk_size() -> IntOrString {
    IntOrString::String("100Gi".into())
}

fn at_least_one_cpu(_: &mut SchemaGenerator) -> Schema {
    schema::quantity_of_at_least("1", "cpu")
}

fn at_least_1gi(_: &mut SchemaGenerator) -> Schema {
    schema::quantity_of_at_least("1Gi", "memory")
}

fn at_least_10gi(_: &mut SchemaGenerator) -> Schema {
    schema::quantity_of_at_least("10Gi", "diskSize")
}

/// Operating system of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!has(self.talos) || self.type == 'talos'")
        .message("the talos block is only for type talos")
        .field_path(".talos")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeOs {
    /// Which one: rocky, flatcar, talos, kairos or bottlerocket. Default: rocky.
    #[serde(rename = "type", default)]
    pub os_type: OsType,
    /// Its release, such as `9.5` of rocky. Default: 9.5 for rocky, and for the others the release that
    /// goes with the Kubernetes version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub version: Option<String>,
    /// Image of the provider to use instead of the provider's default, by its name or id there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image_ref: Option<String>,
    /// Schematic of the image factory that the image was built from: Talos installs the same on its disk.
    /// No image is built from it, so imageRef or the ProviderConfig has to name one.
    #[serde(
        rename = "schematicID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 8, max = 128))]
    pub schematic_id: Option<String>,
    /// SSH key that may sign in to the machines, as in an authorized_keys file. Default: that of
    /// ButlerConfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ssh_public_key")]
    pub ssh_authorized_key: Option<String>,
    /// More about Talos Linux. Only for type talos.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talos: Option<Talos>,
}

impl Default for NodeOs {
    fn default() -> Self {
        Self {
            os_type: OsType::Rocky,
            version: Some("9.5".into()),
            image_ref: None,
            schematic_id: None,
            ssh_authorized_key: None,
            talos: None,
        }
    }
}

/// Operating systems that Butler can bring into a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OsType {
    /// Rocky Linux.
    #[default]
    Rocky,
    /// Flatcar Container Linux.
    Flatcar,
    /// Talos Linux.
    Talos,
    /// Kairos.
    Kairos,
    /// Bottlerocket.
    Bottlerocket,
}

/// More about Talos Linux.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Talos {
    /// Talos release, such as `v1.9.3`. Default: the one that goes with the Kubernetes version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "talos_version")]
    pub version: Option<String>,
    /// Disk to install to, such as `/dev/vda`. Default: the first disk the provider gives a machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "device")]
    pub install_disk: Option<String>,
    /// Installer image to use instead of the one of the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub installer_image: Option<String>,
}

fn talos_version(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        32,
        "self.matches('^v[0-9]+[.][0-9]+[.][0-9]+(-[0-9a-z.]+)?$')",
        "must be a Talos release such as v1.9.3",
    )
}

fn device(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        128,
        "self.matches('^/dev/[A-Za-z0-9/_.:-]+$')",
        "must be a device such as /dev/vda",
    )
}
