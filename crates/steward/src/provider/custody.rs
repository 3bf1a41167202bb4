//! Whether a hosted control plane may be worked on here, when a `StewardControlPlane` owns it. Pure.
//!
//! It says so itself, by the UID of the owner that it is worked on for:
//! - while the Cluster is paused the UID is taken away, so that its keys and pods stand still as well;
//! - a copy that was moved or restored into another management cluster has an owner with another UID, so it stands
//!   still from its first moment on until the provider there takes it over. Without that, new keys would be made in
//!   the moment between the copy of the control plane and that of its Secrets.
//!
//! What a move leaves behind is never cleaned up: the data in the store belongs to the copy by then.

use butler_api::{controlplane::StewardControlPlane, steward::TenantControlPlane};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    FieldsV1, ManagedFieldsEntry, OwnerReference,
};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::names::{DELETE_FOR_MOVE, WORKED_ON_FOR};

/// Stands in the place of a UID while the Cluster is paused.
pub(super) const NOBODY: &str = "paused";
/// Who writes the copies of a move. What it restores from a directory is this manager's, field by field.
const MOVER: &str = "clusterctl";

/// Whether the object only goes from here, because it was moved to another management cluster.
pub(crate) fn is_leaving(object: &impl Resource) -> bool {
    object.annotations().contains_key(DELETE_FOR_MOVE)
}

/// Whether the control plane is worked on for the owner that it has, or has no such owner.
pub(crate) fn is_ours(tenant: &TenantControlPlane) -> bool {
    owner(tenant).is_none_or(|owner| worked_on_for(tenant) == Some(owner.uid.as_str()))
}

/// Whether the control plane stands still, for whoever it was worked on.
pub(super) fn is_held(tenant: &TenantControlPlane) -> bool {
    worked_on_for(tenant) == Some(NOBODY)
}

fn worked_on_for(tenant: &TenantControlPlane) -> Option<&str> {
    tenant.annotations().get(WORKED_ON_FOR).map(String::as_str)
}

fn owner(tenant: &TenantControlPlane) -> Option<&OwnerReference> {
    let mut owners = tenant.owner_references().iter();
    owners.find(|owner| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        owner.kind == StewardControlPlane::kind(&())
            && group == Some(&*StewardControlPlane::group(&()))
    })
}

/// The managers of the fields of a copy, with its spec made ours: the mover would keep every field that leaves the
/// plan. Nothing where it is no copy.
///
/// Metadata stays the mover's: finalizers and annotations there are also other people's.
pub(super) fn taken_over(
    fields: &[ManagedFieldsEntry],
    manager: &str,
) -> Option<Vec<ManagedFieldsEntry>> {
    let of_mover = |entry: &&ManagedFieldsEntry| {
        entry.manager.as_deref() == Some(MOVER) && entry.subresource.is_none()
    };
    let copied = fields.iter().find(of_mover)?;
    let spec = copied.fields_v1.as_ref()?.0.get("f:spec")?.clone();
    let mut next: Vec<_> = fields.to_vec();
    for entry in next.iter_mut().filter(|entry| of_mover(&&**entry)) {
        let rest = entry.fields_v1.as_mut().map(|fields| &mut fields.0);
        if let Some(rest) = rest.and_then(Value::as_object_mut) {
            rest.remove("f:spec");
        }
    }
    let applied =
        |entry: &ManagedFieldsEntry| entry.manager.as_deref() == Some(manager) && is_apply(entry);
    next.retain(|entry| !applied(entry));
    next.push(ManagedFieldsEntry {
        manager: Some(manager.to_owned()),
        operation: Some("Apply".to_owned()),
        fields_v1: Some(FieldsV1(json!({"f:spec": spec}))),
        ..copied.clone()
    });
    Some(next)
}

fn is_apply(entry: &ManagedFieldsEntry) -> bool {
    entry.operation.as_deref() == Some("Apply") && entry.subresource.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(worked_on_for: Option<&str>, owner: Option<&str>) -> TenantControlPlane {
        let owners = owner.map(|uid| {
            json!([{
                "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "kind": "StewardControlPlane",
                "name": "blue", "uid": uid,
            }])
        });
        let annotations = worked_on_for.map(|uid| json!({WORKED_ON_FOR: uid}));
        let metadata = json!({"ownerReferences": owners, "annotations": annotations});
        TenantControlPlane {
            metadata: serde_json::from_value(metadata).unwrap(),
            ..TenantControlPlane::default()
        }
    }

    #[test]
    fn a_copy_stands_still_until_it_is_taken_over() {
        assert!(is_ours(&tenant(Some("here"), Some("here"))));
        assert!(!is_ours(&tenant(Some("there"), Some("here"))));
        assert!(!is_ours(&tenant(None, Some("here"))));
    }

    #[test]
    fn a_paused_one_stands_still_and_one_without_a_cluster_is_never_asked() {
        let paused = tenant(Some(NOBODY), Some("here"));
        assert!(is_held(&paused) && !is_ours(&paused));
        assert!(is_ours(&tenant(None, None)));
        assert!(!is_held(&tenant(None, None)));
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }
    }

    #[test]
    fn the_spec_of_a_copy_becomes_ours_and_its_metadata_does_not() {
        let copied = json!({"f:spec": {"f:addons": {}}, "f:metadata": {"f:finalizers": {}}});
        let fields = [entry(MOVER, "Update", copied)];
        let next = taken_over(&fields, "us").unwrap();
        let metadata = json!({"f:metadata": {"f:finalizers": {}}});
        let spec = json!({"f:spec": {"f:addons": {}}});
        assert_eq!(
            next,
            [entry(MOVER, "Update", metadata), entry("us", "Apply", spec)]
        );
        assert_eq!(taken_over(&next, "us"), None, "once is enough");
    }
}
