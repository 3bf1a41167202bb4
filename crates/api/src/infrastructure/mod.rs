//! `infrastructure.cluster.x-k8s.io/v1alpha1`: the local infrastructure provider.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;

pub mod contract;
pub mod local_cluster;
pub mod local_cluster_template;
pub mod local_machine;
pub mod local_machine_template;

pub use local_cluster::LocalCluster;
pub use local_cluster_template::LocalClusterTemplate;
pub use local_machine::LocalMachine;
pub use local_machine_template::LocalMachineTemplate;

/// The definitions of this group's kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        LocalCluster::crd(),
        LocalClusterTemplate::crd(),
        LocalMachine::crd(),
        LocalMachineTemplate::crd(),
    ]
}
