//! `ImageSync`: a node image that is copied from the image factory to a provider.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::{cel, common::ObjectRef};

/// A node image that is copied from the image factory to a provider.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "ImageSync",
    plural = "imagesyncs",
    shortname = "is",
    category = "butler",
    namespaced,
    status = "ImageSyncStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A node image that is copied from the image factory to a provider.",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Schematic",
        type_ = "string",
        json_path = ".spec.factoryRef.schematicID",
        priority = 1
    ),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".spec.factoryRef.version"
    ),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.providerConfigRef.name"
    ),
    printcolumn(
        name = "Image Ref",
        type_ = "string",
        json_path = ".status.providerImageRef"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = cel::immutable("factoryRef"),
    validation = cel::immutable("providerConfigRef"),
    validation = cel::immutable("format"),
    validation = cel::immutable("transferMode")
)]
#[serde(rename_all = "camelCase")]
pub struct ImageSyncSpec {
    /// Name for people. The only field that can be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub display_name: Option<String>,
    /// Which image of the factory.
    pub factory_ref: FactoryImage,
    /// The ProviderConfig that says where the image goes.
    pub provider_config_ref: ObjectRef,
    /// Format of the image file, such as `qcow2`, `raw` or `raw.xz`. Defaults to `qcow2`.
    #[serde(default = "qcow2")]
    #[schemars(schema_with = "format")]
    pub format: String,
    /// Who downloads: with `direct` the provider fetches the image from the factory, with `proxy` Butler does
    /// and uploads it. Defaults to `direct`.
    #[serde(default)]
    pub transfer_mode: TransferMode,
}

fn qcow2() -> String {
    "qcow2".into()
}

fn format(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        32,
        "self.matches('^[a-z0-9]+([.][a-z0-9]+)*$')",
        "must be the ending of an image file, such as qcow2, raw or raw.xz",
    )
}

/// Which image of the factory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FactoryImage {
    /// Id of the schematic, which says what is built into the image.
    #[serde(rename = "schematicID")]
    #[schemars(schema_with = "schematic_id")]
    pub schematic_id: String,
    /// Version of the operating system, such as `v1.12.1`.
    #[schemars(schema_with = "os_version")]
    pub version: String,
    /// Processor of the machines. Defaults to `amd64`.
    #[serde(default)]
    pub arch: Arch,
    /// Flavour of the image for a kind of machine, as the factory calls it. Defaults to `nocloud`.
    #[serde(default = "nocloud")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub platform: String,
}

fn nocloud() -> String {
    "nocloud".into()
}

fn schematic_id(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        128,
        "self.matches('^[A-Za-z0-9_-]{8,}$')",
        "must be the id of a schematic: at least 8 letters and digits, as the image factory prints it",
    )
}

fn os_version(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        63,
        "self.matches('^v?[0-9][A-Za-z0-9._-]*$')",
        "must be a version such as v1.12.1 or 9.5",
    )
}

/// Processors that images are made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// 64-bit x86.
    #[default]
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

/// Who downloads an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TransferMode {
    /// The provider.
    #[default]
    Direct,
    /// Butler, which uploads it to the provider.
    Proxy,
}

/// How far the copy is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageSyncStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready and Progressing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Where the copy is, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ImageSyncPhase>,
    /// How the provider calls the image; what machines are made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_image_ref: Option<String>,
    /// The task at the provider that is waited for.
    #[serde(
        default,
        rename = "providerTaskID",
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_task_id: Option<String>,
    /// Where the image is downloaded from.
    #[serde(
        default,
        rename = "artifactURL",
        skip_serializing_if = "Option::is_none"
    )]
    pub artifact_url: Option<String>,
    /// Checksum of the image.
    #[serde(
        default,
        rename = "artifactSHA256",
        skip_serializing_if = "Option::is_none"
    )]
    pub artifact_sha256: Option<String>,
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

/// The life of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImageSyncPhase {
    /// Not started.
    #[default]
    Pending,
    /// The factory builds the image.
    Building,
    /// The image is on its way from the factory.
    Downloading,
    /// The image is on its way to the provider.
    Uploading,
    /// The provider has the image.
    Ready,
    /// The last attempt failed.
    Failed,
}
