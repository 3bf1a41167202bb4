//! Whether a planned object has to be sent. Pure.
//!
//! An apply that changes nothing still costs the API server more than a create, so a planned object is
//! compared with what is watched first. It carries a hash of itself: a field that left the plan changes
//! the hash, and a field that somebody else changed no longer matches, so both are noticed.

use butler_api::names::PLAN_HASH;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Before the hash of an object that was created and not applied since: its fields are owned in another way.
const CREATED: &str = "created-";

/// Writes the hash of the planned object into its annotations.
pub fn stamp(planned: &mut Value) {
    let hash = hash(planned);
    write_stamp(planned, hash);
}

/// The same for an object that is sent by a create.
pub fn stamp_created(planned: &mut Value) {
    let hash = hash(planned);
    write_stamp(planned, format!("{CREATED}{hash}"));
}

/// Whether the live object was created by us and not applied since.
pub fn was_created(live: &Value) -> bool {
    let held = live.pointer("/metadata/annotations");
    let held = held.and_then(|held| held.get(PLAN_HASH)?.as_str());
    held.is_some_and(|held| held.starts_with(CREATED))
}

/// The hash in a stamp.
pub fn hash_of(stamp: &str) -> &str {
    stamp.strip_prefix(CREATED).unwrap_or(stamp)
}

fn write_stamp(planned: &mut Value, hash: String) {
    let Value::Object(root) = planned else { return };
    let metadata = entry(root, "metadata");
    entry(metadata, "annotations").insert(PLAN_HASH.to_owned(), Value::String(hash));
}

/// Where the live object differs from what is planned, as a path; `None` when all of it stands.
///
/// Objects may have more fields than planned (defaults, other managers); lists must agree item by item,
/// since most lists of the API are replaced as a whole.
pub fn difference(planned: &Value, live: &Value) -> Option<String> {
    match (planned, live) {
        (Value::Object(planned), Value::Object(live)) => {
            planned.iter().find_map(|(key, value)| match live.get(key) {
                Some(Value::String(held)) if key == PLAN_HASH => {
                    let hash = value.as_str().map(hash_of);
                    (hash != Some(hash_of(held))).then(|| format!(".{key}"))
                }
                Some(held) => below(key, difference(value, held)),
                None => (!is_empty(value)).then(|| format!(".{key}")),
            })
        }
        (Value::Array(planned), Value::Array(live)) if planned.len() == live.len() => {
            let items = planned.iter().zip(live).enumerate();
            items.into_iter().find_map(|(index, (value, held))| {
                difference(value, held).map(|path| format!("[{index}]{path}"))
            })
        }
        (planned, live) => (planned != live).then(String::new),
    }
}

/// The path of a difference, seen from one level above.
fn below(key: &str, path: Option<String>) -> Option<String> {
    path.map(|path| format!(".{key}{path}"))
}

/// Whether everything that is planned already stands in the live object.
pub fn stands_in(planned: &Value, live: &Value) -> bool {
    difference(planned, live).is_none()
}

/// The API drops what is empty, `false` or zero where that is also the meaning of nothing: such an absence
/// is no difference. Where it is not, the field is there with another value.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
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
    fn a_difference_is_named_by_its_path() {
        let planned = json!({"spec": {"ports": [{"port": 1}, {"port": 2}]}});
        let live = json!({"spec": {"ports": [{"port": 1}, {"port": 3}]}});
        assert_eq!(
            difference(&planned, &live).as_deref(),
            Some(".spec.ports[1].port")
        );
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
    fn an_object_that_was_created_stands_like_one_that_was_applied() {
        let plan = json!({"metadata": {"name": "x", "labels": {"a": "1"}}});
        let (mut created, mut planned) = (plan.clone(), plan);
        stamp_created(&mut created);
        stamp(&mut planned);
        assert!(stands_in(&planned, &created));
        assert!(was_created(&created) && !was_created(&planned));
    }

    #[test]
    fn what_the_api_drops_is_no_drift() {
        let planned = json!({"spec": {"flag": false, "text": ""}, "list": [], "nothing": null});
        assert!(stands_in(&planned, &json!({})));
    }
}
