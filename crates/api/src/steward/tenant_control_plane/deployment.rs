//! How the pods of a hosted control plane are run.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::steward::fragments::{ExtraMetadata, Resources};

/// The Deployment that runs the control plane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    /// Where the images of the components come from, for mirrors and air-gapped sites.
    #[serde(default)]
    pub registry_settings: RegistrySettings,
    /// How many pods run the control plane. Default 2; 0 puts it to sleep and keeps its data.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 32))]
    pub replicas: i32,
    /// Labels that a node must carry to run the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::node_selector")]
    pub node_selector: BTreeMap<String, String>,
    /// `RuntimeClass` of the pods, such as `gvisor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub runtime_class_name: Option<String>,
    /// `PriorityClass` of the pods, such as `tenant-critical`: under pressure, pods of lower priority
    /// give way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub priority_class_name: Option<String>,
    /// Taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::tolerations")]
    pub tolerations: Vec<Value>,
    /// Where the pods are attracted to and kept away from, as in a Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::fragments::affinity")]
    pub affinity: Option<Value>,
    /// How the pods are spread, as in a Pod; without a labelSelector, over the pods of this control
    /// plane.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::topology_spread")]
    pub topology_spread_constraints: Vec<Value>,
    /// Service account of the pods. Default `default`.
    #[serde(default = "default_service_account")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub service_account_name: String,
    /// How new pods replace old ones. By default all new pods are ready before an old one goes.
    #[serde(default)]
    pub strategy: Strategy,
    /// CPU and memory of each component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ComponentResources>,
    /// More flags for the components, such as `--profiling=false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_args: Option<ExtraArgs>,
    /// Labels and annotations of the Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<ExtraMetadata>,
    /// Labels and annotations of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_additional_metadata: Option<ExtraMetadata>,
    /// Containers that run before the control plane starts, as in a Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::containers")]
    pub additional_init_containers: Vec<Value>,
    /// Containers that run beside the control plane, as in a Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::containers")]
    pub additional_containers: Vec<Value>,
    /// Volumes for the containers, as in a Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::volumes")]
    pub additional_volumes: Vec<Value>,
    /// Mounts of these volumes in the components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_volume_mounts: Option<ExtraVolumeMounts>,
}

impl Default for Deployment {
    fn default() -> Self {
        Self {
            registry_settings: RegistrySettings::default(),
            replicas: default_replicas(),
            node_selector: BTreeMap::new(),
            runtime_class_name: None,
            priority_class_name: None,
            tolerations: Vec::new(),
            affinity: None,
            topology_spread_constraints: Vec::new(),
            service_account_name: default_service_account(),
            strategy: Strategy::default(),
            resources: None,
            extra_args: None,
            additional_metadata: None,
            pod_additional_metadata: None,
            additional_init_containers: Vec::new(),
            additional_containers: Vec::new(),
            additional_volumes: Vec::new(),
            additional_volume_mounts: None,
        }
    }
}

/// Where the images of the components come from: `registry/image:version` + tagSuffix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrySettings {
    /// Registry, with a path where there is one, such as `mirror.example.com:5000/k8s`.
    /// Default `registry.k8s.io`.
    #[serde(default = "default_registry")]
    #[schemars(schema_with = "crate::steward::fragments::repository")]
    pub registry: String,
    /// Text that follows the version in every tag, such as `-hardened`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = r"^[A-Za-z0-9_.-]*$"))]
    pub tag_suffix: Option<String>,
    /// Image of the API server. Default `kube-apiserver`.
    #[serde(default = "default_api_server_image")]
    #[schemars(schema_with = "crate::steward::fragments::repository")]
    pub api_server_image: String,
    /// Image of the controller manager. Default `kube-controller-manager`.
    #[serde(default = "default_controller_manager_image")]
    #[schemars(schema_with = "crate::steward::fragments::repository")]
    pub controller_manager_image: String,
    /// Image of the scheduler. Default `kube-scheduler`.
    #[serde(default = "default_scheduler_image")]
    #[schemars(schema_with = "crate::steward::fragments::repository")]
    pub scheduler_image: String,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            registry: default_registry(),
            tag_suffix: None,
            api_server_image: default_api_server_image(),
            controller_manager_image: default_controller_manager_image(),
            scheduler_image: default_scheduler_image(),
        }
    }
}

/// How new pods replace old ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// `RollingUpdate` (the default) or `Recreate`, which stops all old pods first.
    #[serde(default, rename = "type")]
    pub kind: StrategyType,
    /// Pace of a rolling update. Ignored with `Recreate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

impl Default for Strategy {
    fn default() -> Self {
        Self {
            kind: StrategyType::RollingUpdate,
            rolling_update: Some(RollingUpdate {
                max_unavailable: Some(IntOrString::Int(0)),
                max_surge: Some(IntOrString::String("100%".into())),
            }),
        }
    }
}

/// How new pods replace old ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StrategyType {
    /// New pods start before old ones stop.
    #[default]
    RollingUpdate,
    /// Old pods stop before new ones start.
    Recreate,
}

/// Pace of a rolling update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!has(self.maxUnavailable) || !has(self.maxSurge) || !(string(self.maxUnavailable) in ['0', '0%'] && string(self.maxSurge) in ['0', '0%'])")
        .message("maxUnavailable and maxSurge must not both be 0: no pod could ever be replaced")
        .field_path(".maxSurge")
)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// Pods, or per cent of them, that may be missing. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub max_unavailable: Option<IntOrString>,
    /// Pods, or per cent of them, that may run on top. Default `100%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_or_percent")]
    pub max_surge: Option<IntOrString>,
}

/// CPU and memory of each component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentResources {
    /// The API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<Resources>,
    /// The controller manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_manager: Option<Resources>,
    /// The scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Resources>,
    /// kine, which runs with SQL and NATS stores only: with an etcd store this does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kine: Option<Resources>,
}

/// More flags for the components.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraArgs {
    /// Flags of the API server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::args")]
    pub api_server: Vec<String>,
    /// Flags of the controller manager.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::args")]
    pub controller_manager: Vec<String>,
    /// Flags of the scheduler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::args")]
    pub scheduler: Vec<String>,
    /// Flags of kine, which runs with SQL and NATS stores only: with an etcd store they do nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::args")]
    pub kine: Vec<String>,
}

/// Mounts of additional volumes in the components, as in a Pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExtraVolumeMounts {
    /// Mounts in the API server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::volume_mounts")]
    pub api_server: Vec<Value>,
    /// Mounts in the controller manager.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::volume_mounts")]
    pub controller_manager: Vec<Value>,
    /// Mounts in the scheduler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::volume_mounts")]
    pub scheduler: Vec<Value>,
}

fn count_or_percent(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "maxLength": 4,
        "x-kubernetes-validations": [{
            "rule": "type(self) == int ? self >= 0 && self <= 100 : self.matches('^(100|[0-9]{1,2})%$')",
            "message": "must be a number of pods or a share of them such as 25%",
        }],
    })
}

/// Two pods survive the loss of a node.
pub fn default_replicas() -> i32 {
    2
}

fn default_service_account() -> String {
    "default".into()
}

/// The registry that Kubernetes publishes its images in.
pub fn default_registry() -> String {
    "registry.k8s.io".into()
}

fn default_api_server_image() -> String {
    "kube-apiserver".into()
}

fn default_controller_manager_image() -> String {
    "kube-controller-manager".into()
}

fn default_scheduler_image() -> String {
    "kube-scheduler".into()
}
