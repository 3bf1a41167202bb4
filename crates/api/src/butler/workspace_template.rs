//! `WorkspaceTemplate`: presets that people start workspaces from.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workspace::{
    Dotfiles, EnvSource, GitRepository, WorkspaceResources, one_way_to_name_repositories,
};

/// Presets that people start workspaces from.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "WorkspaceTemplate",
    plural = "workspacetemplates",
    shortname = "wst",
    category = "butler",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    doc = "Presets that people start workspaces from.",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Display Name",
        type_ = "string",
        json_path = ".spec.displayName"
    ),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.template.image"),
    printcolumn(name = "Category", type_ = "string", json_path = ".spec.category"),
    printcolumn(name = "Scope", type_ = "string", json_path = ".spec.scope"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceTemplateSpec {
    /// Name for people, such as `Go service`.
    #[schemars(length(min = 1, max = 64))]
    pub display_name: String,
    /// What the template is good for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub description: Option<String>,
    /// An emoji or the name of an icon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub icon: Option<String>,
    /// The shelf it stands on. Defaults to `custom`.
    #[serde(default)]
    pub category: TemplateCategory,
    /// Who sees it: `team` only the team of its namespace, `cluster` everybody. Defaults to `team`.
    #[serde(default)]
    pub scope: TemplateScope,
    /// What a new workspace starts with.
    pub template: WorkspacePreset,
}

/// Kinds of work that templates are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the words speak for themselves")]
pub enum TemplateCategory {
    Backend,
    Frontend,
    Data,
    Devops,
    #[default]
    Custom,
}

/// Who sees a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TemplateScope {
    /// Everybody on the platform.
    Cluster,
    /// The team of its namespace.
    #[default]
    Team,
}

/// What a new workspace starts with; every field means what it means in a Workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = one_way_to_name_repositories())]
#[serde(rename_all = "camelCase")]
pub struct WorkspacePreset {
    /// Container image with the tools, such as `ghcr.io/example/devbox:1.4`.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// The Git repository to clone. Either this or `repositories`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<GitRepository>,
    /// Git repositories to clone. Either this or `repository`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["url"])
    )]
    pub repositories: Vec<GitRepository>,
    /// Takes over the environment variables of a container that already runs in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_from: Option<EnvSource>,
    /// Personal settings to install.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dotfiles: Option<Dotfiles>,
    /// CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<WorkspaceResources>,
    /// Size of the home directory, such as `20Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub storage_size: Option<IntOrString>,
}
