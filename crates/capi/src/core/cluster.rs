//! `Cluster`.

use serde::Serialize;

use super::{GROUP, Kind, Reference, Resource};

/// A Cluster.
pub type Cluster = Resource<ClusterSpec>;

/// What a Cluster should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Whether Cluster API and its providers leave everything of it alone. Not said where it is not: somebody else may
    /// have paused it, and that is theirs to end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Ranges and the domain of the cluster.
    pub cluster_network: ClusterNetwork,
    /// The control plane.
    pub control_plane_ref: Reference,
    /// The infrastructure all machines share.
    pub infrastructure_ref: Reference,
}

/// Ranges and the domain of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetwork {
    /// Ranges of pods.
    pub pods: Ranges,
    /// Ranges of Services.
    pub services: Ranges,
    /// DNS domain of Services.
    pub service_domain: String,
}

/// Ranges of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ranges {
    /// The ranges.
    pub cidr_blocks: Vec<String>,
}

impl Kind for ClusterSpec {
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "Cluster";
    const PLURAL: &'static str = "clusters";
}
