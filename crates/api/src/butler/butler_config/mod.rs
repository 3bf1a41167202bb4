//! `ButlerConfig`: the settings of the whole platform, one object named `butler`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::Rule;
use kube_derive::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::{
    common::{ControlPlaneExposure, ControlPlaneResources, LocalRef, SecretRef},
    names, schema,
    types::names::{SYSTEM_NAMESPACES, SYSTEM_PREFIXES},
};

mod observability;
mod status;

pub use observability::{
    AutoEnroll, Collection, LogCollection, MetricCollection, Observability, Pipeline,
};
pub use status::{ButlerConfigStatus, GitProviderStatus, ObservabilityStatus};

/// The settings of the whole platform. There is one object, named `butler`.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "ButlerConfig",
    plural = "butlerconfigs",
    shortname = "bc",
    category = "butler",
    status = "ButlerConfigStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The settings of the whole platform. There is one object, named butler.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    validation = only_one(),
    printcolumn(
        name = "Mode",
        type_ = "string",
        json_path = ".spec.multiTenancy.mode"
    ),
    printcolumn(
        name = "Exposure",
        type_ = "string",
        json_path = ".status.controlPlaneExposureMode"
    ),
    printcolumn(
        name = "Teams",
        type_ = "integer",
        json_path = ".status.teamCount"
    ),
    printcolumn(
        name = "Clusters",
        type_ = "integer",
        json_path = ".status.clusterCount"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Git",
        type_ = "string",
        json_path = ".spec.gitProvider.type",
        priority = 1
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new(format!(
        "!has(self.controlPlaneExposure) || !has(self.controlPlaneExposure.hostname) \
         || self.controlPlaneExposure.hostname.size() <= {HOSTNAME_MAX}"
    ))
        .message(&*format!(
            "the hostname may have at most {HOSTNAME_MAX} characters, because the name and the namespace of a cluster are put before it"
        ))
        .field_path(".controlPlaneExposure.hostname")
)]
#[serde(rename_all = "camelCase")]
pub struct ButlerConfigSpec {
    /// Whether clusters belong to teams.
    #[serde(default)]
    pub multi_tenancy: MultiTenancy,
    /// Where clusters without a team live. Default: `butler-tenants`.
    #[serde(default = "default_namespace")]
    #[schemars(schema_with = "tenant_namespace")]
    pub default_namespace: String,
    /// ProviderConfig for clusters that name none, in `butler-system`. Default: the one named `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_provider_config_ref: Option<LocalRef>,
    /// What a team may use when it has no limits of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_team_limits: Option<DefaultTeamLimits>,
    /// Versions of addons for clusters that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_addon_versions: Option<DefaultAddonVersions>,
    /// CPU and memory of control planes that say nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_control_plane_resources: Option<ControlPlaneResources>,
    /// Time servers of machines, as host names or addresses, where neither the cluster nor the provider
    /// names any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::hosts")]
    pub default_time_servers: Vec<String>,
    /// How the API servers of tenant clusters are reached from outside.
    #[serde(default)]
    pub control_plane_exposure: ControlPlaneExposure,
    /// Where GitOps repositories live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_provider: Option<GitProvider>,
    /// Where machine images are built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_factory: Option<ImageFactory>,
    /// Logs, metrics and traces of tenant clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observability: Option<Observability>,
    /// SSH key that may sign in to machines whose cluster names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ssh_public_key")]
    pub ssh_authorized_key: Option<String>,
    /// The record of who did what through the server.
    #[serde(default)]
    pub audit: Audit,
    /// Where events of the platform are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notifications: Option<Notifications>,
}

/// A tenant's host name is `{cluster}.{tenant namespace}.{hostname}` and has at most 253 characters; the
/// first two take at most 50 and 59.
const HOSTNAME_MAX: usize = 253 - 50 - 1 - 59 - 1;

impl Default for ButlerConfigSpec {
    fn default() -> Self {
        serde_json::from_str("{}").expect("every setting has a default or is optional")
    }
}

fn only_one() -> Rule {
    Rule::new(format!("self.metadata.name == '{}'", names::BUTLER_CONFIG))
        .message(&*format!(
            "there is one ButlerConfig, and its name is {}",
            names::BUTLER_CONFIG
        ))
        .field_path(".metadata.name")
}

fn default_namespace() -> String {
    names::DEFAULT_TENANT_NAMESPACE.into()
}

/// A namespace that is not one of the platform's own.
fn tenant_namespace(generator: &mut SchemaGenerator) -> Schema {
    let names: Vec<String> = SYSTEM_NAMESPACES
        .iter()
        .map(|name| format!("'{name}'"))
        .collect();
    let prefixes: Vec<String> = SYSTEM_PREFIXES
        .iter()
        .map(|prefix| format!("!self.startsWith('{prefix}')"))
        .collect();
    schema::with_rule(
        schema::dns_label(generator),
        &format!(
            "!(self in [{}]) && {}",
            names.join(", "),
            prefixes.join(" && ")
        ),
        "is a namespace of the platform; tenants need one of their own, such as butler-tenants",
    )
}

/// Whether clusters belong to teams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MultiTenancy {
    /// Enforced: every cluster belongs to a team. Optional: a cluster may belong to a team. Disabled:
    /// there are no teams, all clusters live in defaultNamespace. Default: Disabled.
    #[serde(default)]
    pub mode: MultiTenancyMode,
}

/// Whether clusters belong to teams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MultiTenancyMode {
    /// Always.
    Enforced,
    /// If they say so.
    Optional,
    /// Never.
    #[default]
    Disabled,
}

/// What a team may use when it has no limits of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultTeamLimits {
    /// Clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_clusters: Option<i32>,
    /// Workers of one cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_workers_per_cluster: Option<i32>,
    /// CPUs of all workers together, such as `200`.
    #[serde(
        rename = "maxTotalCPU",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_total_cpu: Option<IntOrString>,
    /// Memory of all workers together, such as `1Ti`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_total_memory: Option<IntOrString>,
    /// Disks of all workers together, such as `10Ti`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_total_storage: Option<IntOrString>,
}

/// Versions of addons for clusters that name none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultAddonVersions {
    /// Of Cilium, such as `1.17.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub cilium: Option<String>,
    /// Of MetalLB, such as `0.14.9`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub metallb: Option<String>,
    /// Of cert-manager, such as `v1.16.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub cert_manager: Option<String>,
    /// Of Longhorn, such as `1.7.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub longhorn: Option<String>,
    /// Of Traefik, such as `34.3.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub traefik: Option<String>,
    /// Of Flux, such as `2.14.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub fluxcd: Option<String>,
}

/// Where GitOps repositories live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitProvider {
    /// github, gitlab or bitbucket.
    #[serde(rename = "type")]
    pub provider: GitProviderType,
    /// Address of its API, such as `https://api.github.com`. Default: the public service of the type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::url")]
    pub url: Option<String>,
    /// Organization or group the repositories are made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub organization: Option<String>,
    /// Secret in `butler-system` with the token.
    pub secret_ref: LocalRef,
}

/// Git services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GitProviderType {
    /// GitHub.
    Github,
    /// GitLab.
    Gitlab,
    /// Bitbucket.
    Bitbucket,
}

/// Where machine images are built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageFactory {
    /// Address of the factory.
    #[schemars(schema_with = "crate::schema::url")]
    pub url: String,
    /// Secret with credentials for the factory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<SecretRef>,
    /// Schematic for clusters that name none.
    #[serde(
        rename = "defaultSchematicID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(min = 8, max = 128))]
    pub default_schematic_id: Option<String>,
    /// Whether images are brought to the provider when a cluster needs them. Default: true.
    #[serde(default = "yes")]
    pub auto_sync: bool,
}

/// The record of who did what through the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Whether it is kept. Default: true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// How many entries are kept in memory, from 100 to 100000. Default: 10000.
    #[serde(default = "buffer_size")]
    #[schemars(range(min = 100, max = 100_000))]
    pub buffer_size: i32,
    /// Where every entry is also sent.
    #[serde(
        rename = "webhookURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "crate::schema::url")]
    pub webhook_url: Option<String>,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            enabled: yes(),
            buffer_size: buffer_size(),
            webhook_url: None,
        }
    }
}

fn yes() -> bool {
    true
}

fn buffer_size() -> i32 {
    10_000
}

/// Where events of the platform are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notifications {
    /// Address that gets them.
    #[serde(
        rename = "webhookURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "crate::schema::url")]
    pub webhook_url: Option<String>,
}
