//! `ProviderConfig`: where machines come from, with which credentials, and who may use it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::Rule;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    cel,
    common::{InfrastructureProvider, LocalRef, SecretRef},
};

mod blocks;
mod network;

pub use blocks::{
    Aws, Azure, Gcp, Harvester, HarvesterMachines, Local, Nutanix, Proxmox, VmIdRange, Vsphere,
};
pub use network::{
    AllocationMode, LoadBalancerAddresses, NetworkMode, PoolRef, ProviderNetwork, TenantQuota,
};

/// Where machines come from, with which credentials, and who may use it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "ProviderConfig",
    plural = "providerconfigs",
    shortname = "pc",
    category = "butler",
    namespaced,
    status = "ProviderConfigStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Where machines come from, with which credentials, and who may use it.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    validation = cel::name_at_most(63, "it becomes a label of what uses it"),
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(name = "Scope", type_ = "string", json_path = ".spec.scope.type"),
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(
        name = "Validated",
        type_ = "boolean",
        json_path = ".status.validated"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Team",
        type_ = "string",
        json_path = ".spec.scope.teamRef.name",
        priority = 1
    ),
    printcolumn(
        name = "Free Addresses",
        type_ = "integer",
        json_path = ".status.capacity.availableIPs",
        priority = 1
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = cel::immutable("provider"),
    validation = Rule::new("self.provider == 'local' || has(self.credentialsRef)")
        .message("every provider but local needs credentialsRef, the Secret with its credentials")
        .field_path(".credentialsRef"),
    validation = needs_block("harvester"),
    validation = needs_block("nutanix"),
    validation = needs_block("proxmox"),
    validation = needs_block("azure"),
    validation = needs_block("aws"),
    validation = needs_block("gcp"),
    validation = needs_block("vsphere"),
    validation = only_for("harvester"),
    validation = only_for("nutanix"),
    validation = only_for("proxmox"),
    validation = only_for("azure"),
    validation = only_for("aws"),
    validation = only_for("gcp"),
    validation = only_for("vsphere"),
    validation = only_for("local"),
    validation = Rule::new("!(self.provider in ['azure', 'aws', 'gcp']) || self.network.mode != 'ipam'")
        .message("azure, aws and gcp give addresses themselves: use mode cloud")
        .field_path(".network.mode")
)]
#[serde(rename_all = "camelCase")]
pub struct ProviderConfigSpec {
    /// harvester, nutanix, proxmox, azure, aws, gcp, vsphere or local. The block of the same name says
    /// more about it. It cannot change.
    pub provider: InfrastructureProvider,
    /// Secret with the credentials; its namespace defaults to that of the ProviderConfig. Every provider
    /// but local needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<SecretRef>,
    /// Who may use the provider.
    #[serde(default)]
    pub scope: Scope,
    /// How machines and load balancers get their addresses.
    #[serde(default)]
    pub network: ProviderNetwork,
    /// How much of the provider one team may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ProviderLimits>,
    /// About Harvester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harvester: Option<Harvester>,
    /// About Nutanix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nutanix: Option<Nutanix>,
    /// About Proxmox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<Proxmox>,
    /// About Azure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<Azure>,
    /// About AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<Aws>,
    /// About Google Cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcp: Option<Gcp>,
    /// About vSphere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vsphere: Option<Vsphere>,
    /// About machines on the machine Butler runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<Local>,
}

/// A provider cannot be used without its settings.
fn needs_block(provider: &str) -> Rule {
    Rule::new(format!(
        "self.provider != '{provider}' || has(self.{provider})"
    ))
    .message(&*format!(
        "provider {provider} needs the {provider} block with its settings"
    ))
    .field_path(format!(".{provider}"))
}

/// Settings of another provider are a mistake, not something to ignore.
fn only_for(provider: &str) -> Rule {
    Rule::new(format!(
        "!has(self.{provider}) || self.provider == '{provider}'"
    ))
    .message(&*format!(
        "the {provider} block is only for provider {provider}: remove it, or change the provider"
    ))
    .field_path(format!(".{provider}"))
}

/// Who may use a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.type != 'team' || has(self.teamRef)")
        .message("type team needs a teamRef")
        .field_path(".teamRef"),
    validation = Rule::new("self.type != 'platform' || !has(self.teamRef)")
        .message("a teamRef goes with type team")
        .field_path(".teamRef")
)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// platform: everyone. team: the team of teamRef. Default: platform.
    #[serde(rename = "type", default)]
    pub scope_type: ScopeType,
    /// The team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_ref: Option<LocalRef>,
}

/// Who may use a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScopeType {
    /// Everyone.
    #[default]
    Platform,
    /// One team.
    Team,
}

/// How much of a provider one team may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderLimits {
    /// Clusters of one team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_clusters_per_team: Option<i32>,
    /// Workers of one team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_nodes_per_team: Option<i32>,
}

/// What the platform last found out about a provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderConfigStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds: Ready, CredentialsValid, PoolAvailable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Whether clusters can be made with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Whether the credentials were accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validated: Option<bool>,
    /// When the credentials were last checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_validation_time: Option<Time>,
    /// When the provider last answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_probe_time: Option<Time>,
    /// Version the provider reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_version: Option<String>,
    /// How much is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
}

/// How much of a provider is left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// Free addresses in its pools.
    #[serde(
        rename = "availableIPs",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub available_ips: Option<i64>,
    /// For how many more clusters they last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_tenants: Option<i64>,
}
