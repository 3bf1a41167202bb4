//! `controlplane.cluster.x-k8s.io/v1alpha1`: the Cluster API control-plane provider.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The definitions of this group's kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![]
}
