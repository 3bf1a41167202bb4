//! `LocalClusterTemplate`: what a `ClusterClass` makes `LocalClusters` from.

use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{contract::TemplateMetadata, local_cluster::LocalClusterSpec};

/// What a `ClusterClass` makes `LocalClusters` from.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "LocalClusterTemplate",
    plural = "localclustertemplates",
    category = "butler",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    label("cluster.x-k8s.io/provider", "infrastructure-butler-local"),
    label("clusterctl.cluster.x-k8s.io", ""),
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    doc = "What a ClusterClass makes LocalClusters from.",
    crates(kube_core = "::kube_core"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!has(self.template.spec.controlPlaneEndpoint)")
        .message("a template has no endpoint: each Cluster gets its own")
        .field_path(".template.spec.controlPlaneEndpoint")
)]
#[serde(rename_all = "camelCase")]
pub struct LocalClusterTemplateSpec {
    /// The `LocalCluster` to make.
    pub template: LocalClusterTemplateResource,
}

/// A `LocalCluster` to make.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalClusterTemplateResource {
    /// Labels and annotations of the `LocalClusters`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// The `LocalCluster`; an empty block is enough.
    #[serde(default)]
    pub spec: LocalClusterSpec,
}
