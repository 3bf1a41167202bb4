//! `controlplane.cluster.x-k8s.io/v1alpha1`: the Cluster API control-plane provider.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;

pub mod network;
pub mod settings;
pub mod steward_control_plane;
pub mod steward_control_plane_template;

pub use settings::ControlPlaneSettings;
pub use steward_control_plane::StewardControlPlane;
pub use steward_control_plane_template::StewardControlPlaneTemplate;

/// The definitions of this group's kinds.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        StewardControlPlane::crd(),
        StewardControlPlaneTemplate::crd(),
    ]
}
