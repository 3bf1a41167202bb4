//! `StewardControlPlaneTemplate`: what a `ClusterClass` makes control planes from.

use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ControlPlaneSettings;
use crate::infrastructure::contract::TemplateMetadata;

/// What a `ClusterClass` makes control planes from.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "StewardControlPlaneTemplate",
    plural = "stewardcontrolplanetemplates",
    shortname = "stcpt",
    category = "butler",
    category = "cluster-api",
    category = "steward",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    label("cluster.x-k8s.io/provider", "control-plane-steward"),
    label("clusterctl.cluster.x-k8s.io", ""),
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    doc = "What a ClusterClass makes StewardControlPlanes from. The version and the number of replicas come from the Cluster.",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.template.spec == oldSelf.template.spec")
        .message("a template cannot be changed: make a new one and name it in the ClusterClass")
        .field_path(".template.spec"),
    validation = Rule::new("!has(self.template.spec.dataStoreSchema)")
        .message("a template must not name a dataStoreSchema: all clusters made from it would share their data")
        .field_path(".template.spec.dataStoreSchema"),
    validation = Rule::new("!has(self.template.spec.dataStoreUsername)")
        .message("a template must not name a dataStoreUsername: all clusters made from it would share their rights")
        .field_path(".template.spec.dataStoreUsername")
)]
#[serde(rename_all = "camelCase")]
pub struct StewardControlPlaneTemplateSpec {
    /// The control plane to make.
    pub template: StewardControlPlaneTemplateResource,
}

/// A control plane to make.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StewardControlPlaneTemplateResource {
    /// Labels and annotations of the control planes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// How the control planes are run.
    pub spec: ControlPlaneSettings,
}
