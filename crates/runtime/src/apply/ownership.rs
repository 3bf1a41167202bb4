//! Who owns the fields of an object that was made by a create. Pure.
//!
//! A create is cheaper for the API server than an apply, but the fields it sets are owned as by an edit: an apply
//! that no longer names one leaves it where it is. So before the first apply its record is turned into that of one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::Value;

/// The record with what `manager` set by a create as if it had applied it; `None` when there is no such entry.
pub(super) fn applied(
    held: &[ManagedFieldsEntry],
    manager: &str,
) -> Option<Vec<ManagedFieldsEntry>> {
    let (created, mut rest): (Vec<_>, Vec<_>) = held
        .iter()
        .cloned()
        .partition(|entry| is(entry, manager, "Update"));
    for mut entry in created.iter().cloned() {
        let same = |other: &&mut ManagedFieldsEntry| {
            is(other, manager, "Apply") && other.api_version == entry.api_version
        };
        if let Some(own) = rest.iter_mut().find(same) {
            let fields = own.fields_v1.get_or_insert(FieldsV1(Value::Null));
            join(
                &mut fields.0,
                entry.fields_v1.take().map_or(Value::Null, |set| set.0),
            );
        } else {
            entry.operation = Some("Apply".to_owned());
            rest.push(entry);
        }
    }
    (!created.is_empty()).then_some(rest)
}

fn is(entry: &ManagedFieldsEntry, manager: &str, operation: &str) -> bool {
    let of_object = entry.subresource.as_deref().is_none_or(str::is_empty);
    of_object
        && entry.manager.as_deref() == Some(manager)
        && entry.operation.as_deref() == Some(operation)
}

/// A set of fields is a tree of names.
fn join(set: &mut Value, more: Value) {
    match (set, more) {
        (Value::Object(set), Value::Object(more)) => {
            for (name, below) in more {
                join(set.entry(name).or_insert(Value::Null), below);
            }
        }
        (set @ Value::Null, more) => *set = more,
        (_, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }
    }

    #[test]
    fn what_was_created_counts_as_applied_and_others_keep_theirs() {
        let theirs = entry("kubectl", "Update", json!({"f:data": {"f:b": {}}}));
        let held = [
            entry("butler", "Update", json!({"f:data": {"f:a": {}}})),
            theirs.clone(),
        ];
        let next = applied(&held, "butler").unwrap();
        let ours = entry("butler", "Apply", json!({"f:data": {"f:a": {}}}));
        assert_eq!(next, [theirs, ours]);
    }

    #[test]
    fn what_was_applied_as_well_is_joined() {
        let held = [
            entry("butler", "Update", json!({"f:data": {"f:a": {}, ".": {}}})),
            entry("butler", "Apply", json!({"f:data": {"f:b": {}}})),
        ];
        let next = applied(&held, "butler").unwrap();
        let all = json!({"f:data": {"f:a": {}, "f:b": {}, ".": {}}});
        assert_eq!(next, [entry("butler", "Apply", all)]);
    }

    #[test]
    fn a_status_is_not_part_of_it() {
        let mut status = entry("butler", "Update", json!({"f:status": {}}));
        status.subresource = Some("status".to_owned());
        assert_eq!(applied(&[status], "butler"), None);
    }
}
