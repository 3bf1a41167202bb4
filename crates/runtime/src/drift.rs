//! Whether a planned object has to be sent. Pure.
//!
//! An apply that changes nothing still costs the API server more than a create, so a planned object is
//! compared with what is watched first. It carries a hash of itself: a field that left the plan changes
//! the hash, and a field that somebody else changed no longer matches, so both are noticed.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Where a planned object carries its own hash.
pub const PLAN_HASH: &str = "butler.butlerlabs.dev/plan-hash";

/// Writes the hash of the planned object into its annotations.
pub fn stamp(planned: &mut Value) {
    let hash = hash(planned);
    let Value::Object(root) = planned else { return };
    let metadata = entry(root, "metadata");
    entry(metadata, "annotations").insert(PLAN_HASH.to_owned(), Value::String(hash));
}

/// Whether everything that is planned already stands in the live object.
///
/// Objects may have more fields than planned (defaults, other managers); lists must agree item by item,
/// since most lists of the API are replaced as a whole.
pub fn stands_in(planned: &Value, live: &Value) -> bool {
    match (planned, live) {
        (Value::Object(planned), Value::Object(live)) => planned.iter().all(|(key, value)| {
            live.get(key)
                .map_or_else(|| is_empty(value), |held| stands_in(value, held))
        }),
        (Value::Array(planned), Value::Array(live)) => {
            planned.len() == live.len()
                && planned
                    .iter()
                    .zip(live)
                    .all(|(value, held)| stands_in(value, held))
        }
        (planned, live) => planned == live,
    }
}

/// The API drops empty objects and lists, and nulls: their absence is no difference.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Sixteen hexadecimal digits; `serde_json` keeps keys sorted, so equal objects have equal text.
fn hash(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string().as_bytes());
    let first = digest
        .iter()
        .take(8)
        .fold(0_u64, |hash, byte| hash << 8 | u64::from(*byte));
    format!("{first:016x}")
}

fn entry<'a>(object: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = object
        .entry(key.to_owned())
        .or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut()
        .expect("the slot was just made an object")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_and_foreign_fields_are_no_drift() {
        let planned = json!({"spec": {"type": "ClusterIP"}});
        let live = json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None"}, "status": {}});
        assert!(stands_in(&planned, &live));
    }

    #[test]
    fn a_changed_value_a_lost_field_and_another_list_are_drift() {
        let planned = json!({"subjects": [{"name": "a"}], "role": "view"});
        assert!(!stands_in(
            &planned,
            &json!({"subjects": [{"name": "a"}], "role": "edit"})
        ));
        assert!(!stands_in(&planned, &json!({"subjects": [{"name": "a"}]})));
        assert!(!stands_in(
            &planned,
            &json!({"subjects": [{"name": "a"}, {"name": "b"}], "role": "view"})
        ));
    }

    #[test]
    fn a_field_that_leaves_the_plan_changes_the_stamp() {
        let mut before = json!({"metadata": {"name": "x", "labels": {"a": "1", "b": "2"}}});
        let mut after = json!({"metadata": {"name": "x", "labels": {"a": "1"}}});
        stamp(&mut before);
        stamp(&mut after);
        assert!(!stands_in(&after, &before));
    }

    #[test]
    fn what_the_api_drops_is_no_drift() {
        let planned = json!({"spec": {}, "list": [], "nothing": null});
        assert!(stands_in(&planned, &json!({})));
    }
}
