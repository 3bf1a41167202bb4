//! Development workspaces inside a tenant cluster.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Development workspaces inside a tenant cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workspaces {
    /// Whether workspaces may be made in the cluster. Default: false.
    #[serde(default)]
    pub enabled: bool,
    /// Image of workspaces that name none. Default: `ghcr.io/butlerdotdev/workspace-base:latest`.
    #[serde(default = "default_image")]
    #[schemars(length(min = 1, max = 512))]
    pub default_image: String,
    /// How many workspaces there may be. Default: 20.
    #[serde(default = "max_workspaces")]
    #[schemars(range(min = 0, max = 10000))]
    pub max_workspaces: i32,
    /// What all workspaces of the cluster may use together.
    #[serde(default)]
    pub resource_quota: WorkspaceQuota,
    /// When a stopped workspace is deleted, such as `720h`. Default: 720h.
    #[serde(default = "auto_delete_after")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub auto_delete_after: String,
}

impl Default for Workspaces {
    fn default() -> Self {
        Self {
            enabled: false,
            default_image: default_image(),
            max_workspaces: max_workspaces(),
            resource_quota: WorkspaceQuota::default(),
            auto_delete_after: auto_delete_after(),
        }
    }
}

fn default_image() -> String {
    "ghcr.io/butlerdotdev/workspace-base:latest".into()
}

fn max_workspaces() -> i32 {
    20
}

fn auto_delete_after() -> String {
    "720h".into()
}

/// What all workspaces of a cluster may use together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceQuota {
    /// CPUs. Default: 16.
    #[serde(rename = "maxCPU", default = "max_cpu")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_cpu: IntOrString,
    /// Memory. Default: 32Gi.
    #[serde(default = "max_memory")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_memory: IntOrString,
    /// Size of all volumes. Default: 500Gi.
    #[serde(default = "max_storage")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub max_storage: IntOrString,
}

impl Default for WorkspaceQuota {
    fn default() -> Self {
        Self {
            max_cpu: max_cpu(),
            max_memory: max_memory(),
            max_storage: max_storage(),
        }
    }
}

fn max_cpu() -> IntOrString {
    IntOrString::Int(16)
}

fn max_memory() -> IntOrString {
    IntOrString::String("32Gi".into())
}

fn max_storage() -> IntOrString {
    IntOrString::String("500Gi".into())
}
