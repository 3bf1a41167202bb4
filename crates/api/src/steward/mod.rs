//! `steward.butlerlabs.dev/v1alpha1`: hosted control planes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;

pub mod data_store;
pub mod fragments;
pub mod kubeconfig_generator;
pub mod rules;
pub mod tenant_control_plane;

pub use data_store::DataStore;
pub use kubeconfig_generator::KubeconfigGenerator;
pub use tenant_control_plane::TenantControlPlane;

/// The definitions of this group's kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        DataStore::crd(),
        KubeconfigGenerator::crd(),
        TenantControlPlane::crd(),
    ]
}
