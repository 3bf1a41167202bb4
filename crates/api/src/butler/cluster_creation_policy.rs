//! `ClusterCreationPolicy`: which choices people have when they create a cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::common::{InfrastructureProvider, LocalRef};

/// Which images, networks, clusters and storage containers of a provider may be chosen for new clusters.
///
/// The most specific policy that says something about an option decides it alone: first those of a team's
/// environment, then those of a team, then those of the platform.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "ClusterCreationPolicy",
    plural = "clustercreationpolicies",
    shortname = "ccp",
    category = "butler",
    status = "ClusterCreationPolicyStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Which images, networks, clusters and storage containers may be chosen for new clusters.",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Team",
        type_ = "string",
        json_path = ".spec.scope['team','teamAndEnvironment'].teamRef.name"
    ),
    printcolumn(
        name = "Environment",
        type_ = "string",
        json_path = ".spec.scope.teamAndEnvironment.environmentName"
    ),
    printcolumn(
        name = "Providers",
        type_ = "string",
        json_path = ".spec.targetProviders"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.options.all(key, key in ['image', 'network', 'cluster', 'storageContainer'])")
        .message("the options are image, network, cluster and storageContainer")
        .field_path(".options"),
    validation = Rule::new("self.options.size() > 0")
        .message("a policy needs at least one option: image, network, cluster or storageContainer")
        .field_path(".options")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCreationPolicySpec {
    /// Whom the policy is for.
    pub scope: PolicyScope,
    /// Providers the policy is about. Empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "providers")]
    pub target_providers: Vec<InfrastructureProvider>,
    /// What holds for the options image, network, cluster and storageContainer.
    #[schemars(extend("maxProperties" = 16))]
    pub options: BTreeMap<String, PolicyOption>,
}

fn providers(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "set",
        "items": generator.subschema_for::<InfrastructureProvider>(),
    })
}

/// Whom a policy is for: exactly one of its fields is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new(
        "[has(self.platformWide), has(self.clusterWide), has(self.team), has(self.teamAndEnvironment)]\
         .filter(given, given).size() == 1"
    )
        .message("give exactly one of platformWide, team and teamAndEnvironment")
)]
#[serde(rename_all = "camelCase")]
pub struct PolicyScope {
    /// Everyone, written as `platformWide: {}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform_wide: Option<Everyone>,
    /// Another word for platformWide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_wide: Option<Everyone>,
    /// One team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<TeamScope>,
    /// One environment of a team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_and_environment: Option<EnvironmentScope>,
}

/// Everyone; it has no fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Everyone {}

/// One team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamScope {
    /// The team.
    pub team_ref: LocalRef,
}

/// One environment of a team.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentScope {
    /// The team.
    pub team_ref: LocalRef,
    /// Name of the environment in the team.
    #[schemars(length(min = 1, max = 63))]
    pub environment_name: String,
}

/// What holds for one option.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.mode != 'pin' || (has(self.values) && self.values.size() == 1)")
        .message("mode pin needs exactly one value")
        .field_path(".values"),
    validation = Rule::new("self.mode != 'allowList' || (has(self.values) && self.values.size() >= 1)")
        .message("mode allowList needs at least one value")
        .field_path(".values"),
    validation = Rule::new("self.mode != 'recommended' || (has(self.values) && self.values.size() >= 1)")
        .message("mode recommended needs at least one value")
        .field_path(".values"),
    validation = Rule::new("self.mode != 'default' || has(self.default)")
        .message("mode default needs a default")
        .field_path(".default"),
    validation = Rule::new(
        "!(self.mode in ['pin', 'allowList']) || !has(self.default) || !has(self.values) \
         || self.default in self.values"
    )
        .message("the default must be one of the values")
        .field_path(".default"),
    validation = Rule::new("!has(self.recommendedReason) || self.mode == 'recommended'")
        .message("a recommendedReason goes with mode recommended")
        .field_path(".recommendedReason")
)]
#[serde(rename_all = "camelCase")]
pub struct PolicyOption {
    /// pin: only this value. allowList: one of these values. default: chosen unless someone chooses
    /// another. recommended: shown first, with the reason.
    pub mode: PolicyMode,
    /// The values, as the provider names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "values")]
    pub values: Vec<String>,
    /// The value that is chosen beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub default: Option<String>,
    /// Why the values are recommended, in at most 120 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 120))]
    pub recommended_reason: Option<String>,
}

fn values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 128,
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "minLength": 1, "maxLength": 253 },
    })
}

/// The ways to limit a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PolicyMode {
    /// Only one value.
    Pin,
    /// One of some values.
    AllowList,
    /// Any value; this one if nothing is chosen.
    #[default]
    Default,
    /// Any value; these are shown first.
    Recommended,
}

/// What the platform last found out about a policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCreationPolicyStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds: Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Values that the provider does not have any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale_references: Vec<String>,
}
