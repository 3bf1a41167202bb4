//! Cluster API's `Cluster`, as far as a control plane has to read it. Pure.
//!
//! Only the fields of the contract are kept, so that a watch of all Clusters stays small, and every one may be
//! missing, so that one odd object cannot stop the watch.

use std::borrow::Cow;

use butler_api::controlplane::StewardControlPlane;
use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt, core::ObjectMeta};
use serde::Deserialize;

/// API group of `Cluster`.
pub(super) const GROUP: &str = "cluster.x-k8s.io";
const KIND: &str = "Cluster";
/// Annotation: its presence pauses the object.
pub(super) const PAUSED: &str = "cluster.x-k8s.io/paused";

/// A Cluster.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Cluster {
    /// Name, namespace and the rest.
    #[serde(default)]
    pub(super) metadata: ObjectMeta,
    /// What it should be.
    #[serde(default)]
    pub(super) spec: ClusterSpec,
}

/// What a Cluster should be.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClusterSpec {
    pub(super) paused: Option<bool>,
    pub(super) cluster_network: ClusterNetwork,
    pub(super) infrastructure_ref: Option<Reference>,
}

/// Ports and ranges.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ClusterNetwork {
    pub(super) api_server_port: Option<i32>,
    pub(super) service_domain: Option<String>,
    pub(super) services: Ranges,
    pub(super) pods: Ranges,
}

/// Ranges of addresses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Ranges {
    pub(super) cidr_blocks: Vec<String>,
}

/// An object of a provider; its version is whichever the API server prefers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Reference {
    pub(super) api_group: String,
    pub(super) kind: String,
    pub(super) name: String,
}

impl Resource for Cluster {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1beta2".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "clusters".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Name of the Cluster that owns this control plane, in the same namespace.
pub(super) fn owner(plane: &StewardControlPlane) -> Option<&str> {
    let owner = plane.owner_references().iter().find(|owner| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        owner.kind == KIND && group == Some(GROUP)
    })?;
    Some(&owner.name)
}

/// Why nothing may be done to a control plane just now, in words.
pub(super) fn pause(plane: &StewardControlPlane, cluster: Option<&Cluster>) -> Option<String> {
    if plane.annotations().contains_key(PAUSED) {
        return Some(format!("the annotation {PAUSED} is set"));
    }
    let cluster = cluster.filter(|cluster| cluster.spec.paused == Some(true))?;
    Some(format!("Cluster {} is paused", cluster.name_any()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plane(value: serde_json::Value) -> StewardControlPlane {
        StewardControlPlane {
            metadata: serde_json::from_value(value).unwrap(),
            ..StewardControlPlane::default()
        }
    }

    #[test]
    fn the_owner_is_found_whatever_version_of_cluster_api_it_was_written_with() {
        for version in ["v1beta1", "v1beta2"] {
            let owner_reference = json!({
                "apiVersion": format!("{GROUP}/{version}"), "kind": "Cluster", "name": "blue", "uid": "1",
            });
            let plane = plane(json!({"ownerReferences": [owner_reference]}));
            assert_eq!(owner(&plane), Some("blue"));
        }
        let foreign =
            json!({"apiVersion": "example.com/v1", "kind": "Cluster", "name": "x", "uid": "1"});
        assert_eq!(owner(&plane(json!({"ownerReferences": [foreign]}))), None);
    }

    #[test]
    fn the_cluster_and_the_annotation_both_pause() {
        let still = plane(json!({}));
        let paused: Cluster = serde_json::from_value(json!({"spec": {"paused": true}})).unwrap();
        assert!(pause(&still, Some(&paused)).is_some());
        assert!(pause(&still, Some(&Cluster::default())).is_none());
        assert!(pause(&plane(json!({"annotations": {PAUSED: ""}})), None).is_some());
    }
}
