//! The end of a run as a value that can be compared: everything that differs between equal runs is taken out.

use std::collections::BTreeMap;

use butler_api::names;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams},
    core::GroupVersionKind,
    discovery::{self, ApiResource},
};
use serde_json::{Value, json};

use super::Likeness;

/// Objects by kind and name.
pub(super) type State = BTreeMap<String, Value>;

/// Finds out how the kinds are asked for; `apiVersion` and `kind`.
pub(super) async fn resources(
    client: &Client,
    kinds: &[(&str, &str)],
) -> Result<Vec<ApiResource>, kube::Error> {
    let mut resources = Vec::new();
    for (version, kind) in kinds {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        resources.push(discovery::pinned_kind(client, &gvk).await?.0);
    }
    Ok(resources)
}

/// Reads every object of these kinds that belongs to a world: its namespace or its name has the world's name in it.
pub(super) async fn read(
    client: &Client,
    resources: &[ApiResource],
    world: &Likeness,
    simplify: impl Fn(&mut Value),
) -> Result<State, kube::Error> {
    let mut objects = Vec::new();
    for resource in resources {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
        let list = api.list(&ListParams::default()).await?;
        for object in list {
            let belongs = [object.namespace().unwrap_or_default(), object.name_any()];
            if belongs.iter().any(|name| name.contains(&world.world)) {
                let mut value = serde_json::to_value(&object).map_err(kube::Error::SerdeError)?;
                value["kind"] = json!(resource.kind);
                simplify(&mut value);
                objects.push(value);
            }
        }
    }
    Ok(normalise(objects, world))
}

/// Takes out what differs between equal runs.
fn normalise(mut objects: Vec<Value>, world: &Likeness) -> State {
    let mut replacements = Vec::new();
    for object in &objects {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().map(str::to_owned);
        if let (Some(name), Some(generated)) = (text("name"), text("generateName")) {
            replacements.push((name, format!("{generated}*")));
        }
        if let (Some(uid), Some(kind)) = (text("uid"), object["kind"].as_str()) {
            replacements.push((uid, format!("uid of a {kind}")));
        }
    }
    for object in &mut objects {
        simplify(object);
        replace(object, &replacements, world);
    }
    let mut named: Vec<(String, Value)> = objects
        .into_iter()
        .map(|object| (key(&object), object))
        .collect();
    // Generated names are equal now; the order of such objects must not depend on what they were.
    named.sort_by_cached_key(|(key, object)| (key.clone(), object.to_string()));
    let mut state = State::new();
    for (key, object) in named {
        let mut unique = key.clone();
        let mut number = 1;
        while state.contains_key(&unique) {
            number += 1;
            unique = format!("{key} (number {number})");
        }
        state.insert(unique, object);
    }
    state
}

fn key(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let (kind, name) = (text(&object["kind"]), text(&metadata["name"]));
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Removes bookkeeping, and turns counters of generations into whether they are up to date.
fn simplify(object: &mut Value) {
    let generation = object["metadata"]["generation"].clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        let bookkeeping = [
            "resourceVersion",
            "uid",
            "managedFields",
            "creationTimestamp",
            "generation",
        ];
        metadata.retain(|field, _| !bookkeeping.contains(&field.as_str()));
    }
    let annotations = object.pointer_mut("/metadata/annotations");
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        // Differs with every key, and with how the object came to be.
        annotations.remove(names::PLAN_HASH);
    }
    if let Some(status) = object.get_mut("status") {
        compare_generation(status, &generation);
    }
}

fn compare_generation(value: &mut Value, generation: &Value) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                if field == "observedGeneration" {
                    *value = json!(if value == generation {
                        "current"
                    } else {
                        "old"
                    });
                } else {
                    compare_generation(value, generation);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                compare_generation(item, generation);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces names, identities and times wherever they stand.
fn replace(value: &mut Value, replacements: &[(String, String)], world: &Likeness) {
    match value {
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => "a time".clone_into(text),
        Value::String(text) => {
            for (from, to) in replacements {
                if text.contains(from) {
                    *text = text.replace(from, to);
                }
            }
            // Of an object that is not part of the state.
            if is_uid(text) {
                "a uid".clone_into(text);
            } else {
                *text = world.generic(text);
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| replace(item, replacements, world)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| replace(field, replacements, world)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_uid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts
            .iter()
            .all(|part| part.chars().all(|digit| digit.is_ascii_hexdigit()))
}

/// Every difference, one line each.
pub(super) fn differences(expected: &State, found: &State) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, object) in expected {
        match found.get(key) {
            Some(other) => compare(key, object, other, &mut lines),
            None => lines.push(format!("{key}: missing")),
        }
    }
    let surplus = found.iter().filter(|(key, _)| !expected.contains_key(*key));
    lines.extend(
        surplus.map(|(key, object)| format!("{key}: not in the undisturbed run: {object}")),
    );
    lines
}

fn compare(path: &str, expected: &Value, found: &Value, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(left), Value::Object(right)) => {
            let surplus = right.keys().filter(|field| !left.contains_key(*field));
            for field in left.keys().chain(surplus) {
                let none = Value::Null;
                let (left, right) = (left.get(field), right.get(field));
                let path = format!("{path} .{field}");
                compare(&path, left.unwrap_or(&none), right.unwrap_or(&none), lines);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                compare(&format!("{path} [{index}]"), left, right, lines);
            }
        }
        (left, right) if left == right => {}
        (left, right) => lines.push(format!("{path}: {left} undisturbed, but {right}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(name: &str) -> Likeness {
        Likeness {
            world: name.to_owned(),
            alike: str::to_owned,
        }
    }

    fn object(world: &str, suffix: &str, generation: u64) -> Value {
        json!({
            "kind": "ConfigMap",
            "metadata": {
                "name": format!("a-{suffix}"), "generateName": "a-", "namespace": world,
                "uid": format!("uid-{suffix}"), "resourceVersion": suffix, "generation": generation,
                "ownerReferences": [{ "uid": format!("uid-{suffix}") }],
            },
            "status": {
                "observedGeneration": generation,
                "conditions": [{ "lastTransitionTime": "2026-01-02T03:04:05Z" }],
            },
        })
    }

    #[test]
    fn two_runs_of_the_same_are_equal() {
        let one = normalise(
            vec![object("w-1", "x", 1), object("w-1", "y", 1)],
            &world("w-1"),
        );
        let two = normalise(
            vec![object("w-2", "q", 3), object("w-2", "p", 4)],
            &world("w-2"),
        );
        assert_eq!(differences(&one, &two), Vec::<String>::new());
    }

    #[test]
    fn a_surplus_object_with_a_generated_name_is_told() {
        let one = normalise(vec![object("w-1", "x", 1)], &world("w-1"));
        let two = normalise(
            vec![object("w-2", "q", 3), object("w-2", "p", 4)],
            &world("w-2"),
        );
        let lines = differences(&one, &two);
        let begin = "ConfigMap world/a-* (number 2): not in the undisturbed run";
        assert!(lines[0].starts_with(begin), "{lines:?}");
    }

    #[test]
    fn a_changed_field_is_told_with_its_path() {
        let one = normalise(
            vec![json!({ "kind": "A", "metadata": { "name": "a" }, "spec": { "n": [1, 2] } })],
            &world("w"),
        );
        let two = normalise(
            vec![json!({ "kind": "A", "metadata": { "name": "a" }, "spec": { "n": [1, 3] } })],
            &world("w"),
        );
        assert_eq!(
            differences(&one, &two),
            ["A a .spec .n [1]: 2 undisturbed, but 3"]
        );
    }
}
