//! `steward.butlerlabs.dev/v1alpha1`: hosted control planes.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The definitions of this group's kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![]
}
