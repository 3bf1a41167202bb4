//! `LocalMachineTemplate`: what a `MachineDeployment` makes `LocalMachines` from.

use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{contract::TemplateMetadata, local_machine::MachineShape};

/// What a `MachineDeployment` makes `LocalMachines` from.
///
/// There is no rule that freezes the template: the topology controller of a `ClusterClass` asks by a
/// dry-run apply what would change before it makes a new template, and marks the request with an
/// annotation that rules of a schema cannot see. An admission policy can.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "LocalMachineTemplate",
    plural = "localmachinetemplates",
    category = "butler",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    label("cluster.x-k8s.io/provider", "infrastructure-butler-local"),
    label("clusterctl.cluster.x-k8s.io", ""),
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    doc = "What a MachineDeployment makes LocalMachines from. Machines that exist keep what they were made with: to change them, make a new template and name it in the MachineDeployment.",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "CPU", type_ = "string", json_path = ".spec.template.spec.cpu"),
    printcolumn(
        name = "Memory",
        type_ = "string",
        json_path = ".spec.template.spec.memory"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct LocalMachineTemplateSpec {
    /// The `LocalMachine` to make.
    pub template: LocalMachineTemplateResource,
}

/// A `LocalMachine` to make.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalMachineTemplateResource {
    /// Labels and annotations of the `LocalMachines`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// What each machine may use; an empty block takes the defaults.
    #[serde(default)]
    pub spec: MachineShape,
}
