//! The Kubernetes release of a hosted control plane and its settings.

use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::security::{Audit, Authentication, Certificates, Encryption};

/// The Kubernetes release and its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kubernetes {
    /// Release to run, such as `v1.35.4`. Upgrades go one minor version at a time, never down.
    #[schemars(schema_with = "crate::steward::fragments::version")]
    pub version: String,
    /// What nodes that join are told about their kubelet.
    #[serde(default)]
    pub kubelet: Kubelet,
    /// Admission plugins of the API server. The default is Kubernetes' own choice with
    /// `NodeRestriction`. Names that the release no longer knows are left out.
    #[serde(default = "default_admission_controllers")]
    #[schemars(schema_with = "admission_controllers")]
    pub admission_controllers: Vec<String>,
    /// What the API server records about requests. Left out, nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// Who may sign in with tokens of an identity provider. Left out, nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// How keys and certificates are made. Left out, with an authority of the cluster's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Certificates>,
    /// Which objects are encrypted in the store. Left out, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
}

/// What nodes that join are told about their kubelet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kubelet {
    /// Changes to the kubelet configuration that nodes get, as RFC 6902 operations.
    #[serde(
        default,
        rename = "configurationJSONPatches",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 64))]
    pub configuration_json_patches: Vec<JsonPatch>,
    /// Which address of a node the API server dials, best first.
    /// Default `InternalIP`, `ExternalIP`, `Hostname`.
    #[serde(default = "default_preferred_address_types")]
    #[schemars(schema_with = "preferred_address_types")]
    pub preferred_address_types: Vec<AddressType>,
    /// Cgroup driver, `systemd` or `cgroupfs`. Prefer a configurationJSONPatches entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroupfs: Option<CgroupDriver>,
}

impl Default for Kubelet {
    fn default() -> Self {
        Self {
            configuration_json_patches: Vec::new(),
            preferred_address_types: default_preferred_address_types(),
            cgroupfs: None,
        }
    }
}

/// One RFC 6902 operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!(self.op in ['move', 'copy']) || has(self.from)")
        .message("move and copy need from")
        .field_path(".from")
)]
#[serde(rename_all = "camelCase")]
pub struct JsonPatch {
    /// `add`, `remove`, `replace`, `move`, `copy` or `test`.
    pub op: PatchOp,
    /// Where to change, as a JSON pointer such as `/maxPods`.
    #[schemars(length(max = 512), regex(pattern = r"^(/.*)?$"))]
    pub path: String,
    /// Where to take the value from, for `move` and `copy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512), regex(pattern = r"^(/.*)?$"))]
    pub from: Option<String>,
    /// The new value, for `add`, `replace` and `test`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_value")]
    pub value: Option<Value>,
}

/// An RFC 6902 operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PatchOp {
    /// Adds a value.
    #[default]
    Add,
    /// Removes a value.
    Remove,
    /// Replaces a value.
    Replace,
    /// Moves a value.
    Move,
    /// Copies a value.
    Copy,
    /// Checks a value.
    Test,
}

/// A kind of node address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AddressType {
    /// The node's host name.
    Hostname,
    /// An address inside the network.
    InternalIP,
    /// An address outside.
    ExternalIP,
    /// A name inside the network.
    InternalDNS,
    /// A name outside.
    ExternalDNS,
}

/// Who manages cgroups on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CgroupDriver {
    /// systemd.
    Systemd,
    /// The kubelet itself.
    Cgroupfs,
}

fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

fn preferred_address_types(generator: &mut SchemaGenerator) -> Schema {
    let item = generator.subschema_for::<AddressType>();
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 5,
        "x-kubernetes-list-type": "set",
        "items": item,
    })
}

/// The order that kubeadm uses.
pub fn default_preferred_address_types() -> Vec<AddressType> {
    vec![
        AddressType::InternalIP,
        AddressType::ExternalIP,
        AddressType::Hostname,
    ]
}

/// Plugins that are on when nothing is said. A kubelet must not be able to edit other nodes, hence
/// `NodeRestriction`.
const DEFAULT_ADMISSION: [&str; 18] = [
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "LimitRanger",
    "MutatingAdmissionWebhook",
    "NamespaceLifecycle",
    "NodeRestriction",
    "PersistentVolumeClaimResize",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "ValidatingAdmissionWebhook",
];

/// Plugins that can be turned on besides; some are retired, and accepted for old manifests.
const OTHER_ADMISSION: [&str; 23] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "ClusterTrustBundleAttest",
    "DenyEscalatingExec",
    "DenyExecOnPrivileged",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "MutatingAdmissionPolicy",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeLabel",
    "PodNodeSelector",
    "PodSecurity",
    "PodSecurityPolicy",
    "PodTolerationRestriction",
    "PodTopologyLabels",
    "SecurityContextDeny",
    "ValidatingAdmissionPolicy",
];

/// Admission plugins when nothing is said.
pub fn default_admission_controllers() -> Vec<String> {
    DEFAULT_ADMISSION.map(String::from).to_vec()
}

/// Unique names of admission plugins.
pub fn admission_controllers(_: &mut SchemaGenerator) -> Schema {
    let mut names: Vec<&str> = DEFAULT_ADMISSION
        .into_iter()
        .chain(OTHER_ADMISSION)
        .collect();
    names.sort_unstable();
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "enum": names },
    })
}
