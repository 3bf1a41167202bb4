//! `butler.butlerlabs.dev/v1alpha1`: what people write and what the platform records.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;

pub mod network_pool;

pub use network_pool::NetworkPool;

/// The definitions of this group's kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![NetworkPool::crd()]
}
