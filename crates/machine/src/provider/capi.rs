//! Cluster API's `Cluster` and `Machine`, as far as an infrastructure provider has to read them. Pure.
//!
//! Only the fields of the contract are kept, so that watches of all of them stay small, and every one may be missing,
//! so that one odd object cannot stop a watch.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt, core::ObjectMeta};
use serde::Deserialize;

/// API group of both.
pub(super) const GROUP: &str = "cluster.x-k8s.io";
/// Label: the name of the Cluster.
pub(super) const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// Annotation: its presence pauses the object.
const PAUSED: &str = "cluster.x-k8s.io/paused";
/// Annotation: something other than this provider looks after the object.
pub(super) const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";

/// A Cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cluster {
    metadata: ObjectMeta,
    pub(super) spec: ClusterSpec,
    pub(super) status: ClusterStatus,
}

/// What a Cluster should be.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClusterSpec {
    pub(super) paused: Option<bool>,
    pub(super) cluster_network: ClusterNetwork,
    pub(super) infrastructure_ref: Option<Reference>,
    pub(super) control_plane_ref: Option<Reference>,
}

/// Ranges.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClusterNetwork {
    pub(super) services: Ranges,
    pub(super) pods: Ranges,
}

/// Ranges of addresses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Ranges {
    pub(super) cidr_blocks: Vec<String>,
}

/// What was observed of a Cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClusterStatus {
    pub(super) initialization: ClusterInitialization,
}

/// How far a Cluster has come.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClusterInitialization {
    pub(super) infrastructure_provisioned: Option<bool>,
    pub(super) control_plane_initialized: Option<bool>,
}

/// A Machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Machine {
    metadata: ObjectMeta,
    pub(super) spec: MachineSpec,
}

/// What a Machine should be.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MachineSpec {
    pub(super) cluster_name: String,
    pub(super) version: Option<String>,
    pub(super) bootstrap: Bootstrap,
    pub(super) infrastructure_ref: Option<Reference>,
}

/// Where the bootstrap data is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Bootstrap {
    pub(super) data_secret_name: Option<String>,
}

/// An object of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Reference {
    pub(super) kind: String,
    pub(super) name: String,
}

macro_rules! kind {
    ($type:ident, $kind:literal, $plural:literal) => {
        impl Resource for $type {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                GROUP.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                "v1beta2".into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

kind!(Cluster, "Cluster", "clusters");
kind!(Machine, "Machine", "machines");

impl Cluster {
    /// Whether its control plane needs no machine of ours, and does not serve yet.
    pub(super) fn waits_for_hosted_control_plane(&self) -> bool {
        let reference = self.spec.control_plane_ref.as_ref();
        let hosted = reference.is_some_and(|reference| reference.kind == "StewardControlPlane");
        hosted && self.status.initialization.control_plane_initialized != Some(true)
    }
}

/// Name of the owner of a kind, in the same namespace, whatever version it was written with.
pub(super) fn owner<'a>(object: &'a impl Resource, kind: &str) -> Option<&'a str> {
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|owner| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        owner.kind == kind && group == Some(GROUP)
    })?;
    Some(&owner.name)
}

/// Why nothing may be done to an object just now, in words.
pub(super) fn pause(object: &impl Resource, cluster: Option<&Cluster>) -> Option<String> {
    if object.annotations().contains_key(PAUSED) {
        return Some(format!("the annotation {PAUSED} is set"));
    }
    let cluster = cluster.filter(|cluster| cluster.spec.paused == Some(true))?;
    Some(format!("Cluster {} is paused", cluster.name_any()))
}
