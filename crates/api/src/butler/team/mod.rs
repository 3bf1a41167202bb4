//! `Team`: people who share clusters, a namespace and limits.

use kube_core::Rule;
use kube_derive::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::{
    common::LocalRef,
    schema,
    types::names::{
        LABEL_MAX, RESERVED_TEAM_NAMES, RESERVED_TEAM_PREFIX, SYSTEM_NAMESPACES, SYSTEM_PREFIXES,
    },
};

mod access;
mod limits;
mod status;

pub use access::{Access, EnvironmentAccess, GroupAccess, TeamRole, UserAccess};
pub use limits::{ClusterDefaults, ResourceLimits};
pub use status::{QuotaStatus, ResourceUsage, TeamPhase, TeamStatus};

/// People who share clusters: they get a namespace of the team's name, roles in it and limits.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "Team",
    plural = "teams",
    shortname = "tm",
    category = "butler",
    status = "TeamStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "People who share clusters: they get a namespace of the team's name, roles in it and limits.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    validation = name_is_a_namespace(),
    validation = name_is_not_reserved(),
    printcolumn(
        name = "Display Name",
        type_ = "string",
        json_path = ".spec.displayName"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Clusters",
        type_ = "integer",
        json_path = ".status.clusterCount"
    ),
    printcolumn(
        name = "Members",
        type_ = "integer",
        json_path = ".status.memberCount"
    ),
    printcolumn(
        name = "Quota",
        type_ = "string",
        json_path = ".status.quotaStatus"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Namespace",
        type_ = "string",
        json_path = ".status.namespace",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = known_to_the_team("users"),
    validation = known_to_the_team("groups")
)]
#[serde(rename_all = "camelCase")]
pub struct TeamSpec {
    /// Name for people, such as `Platform Engineering`. Default: the team's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub display_name: Option<String>,
    /// What the team is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Who belongs to the team, and in which role.
    #[serde(default)]
    pub access: Access,
    /// What the team may use. Without it the platform's limits for teams hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_limits: Option<ResourceLimits>,
    /// ProviderConfig for clusters of the team that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_config_ref: Option<LocalRef>,
    /// What new clusters of the team get where they say nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_defaults: Option<ClusterDefaults>,
    /// Environments, such as dev and production. A cluster says with the label
    /// `butler.butlerlabs.dev/environment` which one it belongs to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub environments: Vec<Environment>,
}

/// The namespace of a team has its name.
fn name_is_a_namespace() -> Rule {
    Rule::new(format!(
        "self.metadata.name.size() <= {LABEL_MAX} && !self.metadata.name.contains('.')"
    ))
    .message(&*format!(
        "the name becomes a namespace: at most {LABEL_MAX} lower-case letters, digits and dashes"
    ))
    .field_path(".metadata.name")
}

/// No team takes over a namespace of the platform.
fn name_is_not_reserved() -> Rule {
    let names: Vec<String> = SYSTEM_NAMESPACES
        .iter()
        .chain(&RESERVED_TEAM_NAMES)
        .map(|name| format!("'{name}'"))
        .collect();
    let prefixes: Vec<String> = SYSTEM_PREFIXES
        .iter()
        .chain(&[RESERVED_TEAM_PREFIX])
        .map(|prefix| format!("!self.metadata.name.startsWith('{prefix}')"))
        .collect();
    Rule::new(format!(
        "!(self.metadata.name in [{}]) && {}",
        names.join(", "),
        prefixes.join(" && ")
    ))
    .message("this name is reserved for a namespace of the platform: choose another one")
    .field_path(".metadata.name")
}

/// Access to an environment only adds to what someone has in the team.
fn known_to_the_team(kind: &str) -> Rule {
    Rule::new(format!(
        "!has(self.environments) || self.environments.all(e, !has(e.access) || !has(e.access.{kind}) \
         || (has(self.access.{kind}) && sets.contains(self.access.{kind}.map(m, m.name), \
         e.access.{kind}.map(s, s.name))))"
    ))
    .message(&*format!(
        "access of an environment may only raise the role of {kind} that access of the team names"
    ))
    .field_path(".environments")
}

/// An environment of a team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    /// Name, as the label of clusters says it.
    #[schemars(schema_with = "label_value")]
    pub name: String,
    /// What the environment is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// How many clusters it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<EnvironmentLimits>,
    /// Higher roles for some members of the team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<EnvironmentAccess>,
    /// What new clusters get where they say nothing else, before the team's defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_defaults: Option<ClusterDefaults>,
}

/// How many clusters an environment may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentLimits {
    /// Clusters of everyone together. Zero means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_clusters: Option<i32>,
    /// Clusters of one member. Zero means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_clusters_per_member: Option<i32>,
}

fn label_value(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        63,
        "self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",
        "becomes a label value: use letters, digits, dashes, dots and underscores, with a letter or digit at both ends",
    )
}
