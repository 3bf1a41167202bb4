//! `Workspace`: a development environment of one person inside a tenant cluster.
//!
//! The parts that a template can preset are shared with `WorkspaceTemplate`.

use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{Condition, Time},
    util::intstr::IntOrString,
};
use kube_derive::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{cel, common::LocalRef};

/// A development environment of one person inside a tenant cluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "Workspace",
    plural = "workspaces",
    shortname = "ws",
    category = "butler",
    namespaced,
    status = "WorkspaceStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A development environment of one person inside a tenant cluster.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    validation = cel::name_at_most(56, "a Service ws-<name>-ssh is made from it"),
    validation = Rule::new("!self.metadata.name.contains('.')")
        .message("the name must not contain dots, because a Service is made from it")
        .field_path(".metadata.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterRef.name"
    ),
    printcolumn(name = "Owner", type_ = "string", json_path = ".spec.owner"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
    printcolumn(name = "Connected", type_ = "boolean", json_path = ".status.connected"),
    printcolumn(
        name = "SSH",
        type_ = "string",
        json_path = ".status.sshEndpoint",
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
    validation = one_way_to_name_repositories(),
    validation = cel::immutable("clusterRef"),
    validation = cel::immutable("owner"),
    validation = Rule::new(format!(
        "{}.compareTo({}) >= 0",
        cel::amount("self.storageSize"),
        cel::amount("oldSelf.storageSize")
    ))
        .message("a volume cannot shrink: storageSize may only grow")
        .field_path(".storageSize")
)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// The TenantCluster it runs in, in the same namespace. It cannot be changed.
    pub cluster_ref: LocalRef,
    /// E-mail address of the person it belongs to. It cannot be changed.
    #[schemars(length(min = 1, max = 254))]
    pub owner: String,
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
    /// Settings of the editor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub editor_config: Option<EditorConfig>,
    /// CPU and memory.
    #[serde(default)]
    pub resources: WorkspaceResources,
    /// Size of the home directory. Defaults to `10Gi`; it may only grow.
    #[serde(default = "ten_gibibytes")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub storage_size: IntOrString,
    /// Public keys that may sign in by SSH. Defaults to the keys of the owner's User.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "ssh_public_keys")]
    pub ssh_public_keys: Vec<String>,
    /// Disconnects after this time without activity. Defaults to `4h`.
    #[serde(default = "four_hours")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub idle_timeout: String,
    /// Stops this long after the last disconnect; files are kept. Defaults to `8h`.
    #[serde(default = "eight_hours")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub auto_stop_after: String,
}

/// The rule on `repository` and `repositories`, for workspaces and templates.
pub(super) fn one_way_to_name_repositories() -> kube_core::Rule {
    kube_core::Rule::new(
        "!has(self.repository) || !has(self.repositories) || self.repositories.size() == 0",
    )
    .message("give repository or repositories, not both")
    .field_path(".repositories")
}

fn ten_gibibytes() -> IntOrString {
    IntOrString::String("10Gi".into())
}

fn four_hours() -> String {
    "4h".into()
}

fn eight_hours() -> String {
    "8h".into()
}

fn ssh_public_keys(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "set",
        "items": crate::schema::ssh_public_key(generator),
    })
}

/// A Git repository to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepository {
    /// Address of the repository, such as `https://git.example.com/app.git` or `git@git.example.com:app.git`.
    #[schemars(schema_with = "crate::schema::git_url")]
    pub url: String,
    /// Branch to check out. Defaults to `main`.
    #[serde(default = "main_branch")]
    #[schemars(schema_with = "branch_name")]
    pub branch: String,
    /// Directory to clone into. Defaults to the last part of the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "directory_name")]
    pub name: Option<String>,
    /// The Secret with the credentials, in the namespace of the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalRef>,
}

fn main_branch() -> String {
    "main".into()
}

fn branch_name(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        255,
        "self.matches('^[A-Za-z0-9_][A-Za-z0-9._/+-]*$')",
        "must be the name of a Git branch or tag, such as main or feature/x",
    )
}

fn directory_name(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        128,
        "self.matches('^[A-Za-z0-9_][A-Za-z0-9._-]*$')",
        "must be a plain directory name: letters, digits, dots, dashes and underscores",
    )
}

/// A container whose environment variables are taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvSource {
    /// Kind of the workload. Defaults to Deployment.
    #[serde(default)]
    pub kind: EnvSourceKind,
    /// Name of the workload.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
    /// Namespace of the workload in the tenant cluster. Defaults to `default`.
    #[serde(default = "default_namespace")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: String,
    /// Name of the container. Defaults to the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub container: Option<String>,
}

fn default_namespace() -> String {
    "default".into()
}

/// Workloads that environment variables can be taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "these are kinds of Kubernetes")]
pub enum EnvSourceKind {
    #[default]
    Deployment,
    StatefulSet,
}

/// Personal settings to install.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dotfiles {
    /// Address of the Git repository with the settings.
    #[schemars(schema_with = "crate::schema::git_url")]
    pub url: String,
    /// Command to run in the clone. Defaults to its install script, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub install_command: Option<String>,
}

/// Settings of the editor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditorConfig {
    /// Address of a Git repository with a Neovim configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::git_url")]
    pub neovim_config_repo: Option<String>,
    /// A Neovim configuration as a compressed tar archive in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 524_288))]
    pub neovim_config_archive: Option<String>,
    /// Content of Neovim's `init.lua`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub neovim_init_lua: Option<String>,
}

/// CPU and memory of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorkspaceResources {
    /// CPU in cores, such as `2` or `500m`. Defaults to 2.
    #[schemars(schema_with = "crate::schema::quantity")]
    pub cpu: IntOrString,
    /// Memory, such as `4Gi`. Defaults to `4Gi`.
    #[schemars(schema_with = "crate::schema::quantity")]
    pub memory: IntOrString,
}

impl Default for WorkspaceResources {
    fn default() -> Self {
        Self {
            cpu: IntOrString::String("2".into()),
            memory: IntOrString::String("4Gi".into()),
        }
    }
}

/// How the workspace fares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, PVCReady, PodReady, SSHReady, RepositoryCloned and DotfilesInstalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Where the workspace is in its life, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<WorkspacePhase>,
    /// Whether somebody is connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// Host and port to connect to by SSH.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_endpoint: Option<String>,
    /// Name of the pod in the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// Name of the volume claim in the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pvc_name: Option<String>,
    /// Name of the SSH Service in the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// When somebody last did something in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_activity_time: Option<Time>,
    /// When the last person disconnected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_disconnect_time: Option<Time>,
}

/// The life of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WorkspacePhase {
    /// Waits for the cluster or for quota.
    #[default]
    Pending,
    /// Being made.
    Creating,
    /// Can be used.
    Running,
    /// On its way from stopped to running.
    Starting,
    /// Nothing runs; files are kept.
    Stopped,
    /// Cannot be used; the conditions say why.
    Failed,
}
