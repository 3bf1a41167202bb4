//! From objects as they stand to the plain data that plans are made from. Pure.

#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value that is read by a name never panics: what is not there is null"
)]

use std::collections::BTreeSet;

use butler_api::{butler::TenantCluster, names};
use butler_capi::{
    ObjectId,
    day2::Content,
    observe::{ClusterState, ControlPlaneState, MachineState},
    plan::LEFT_BEHIND,
};
use butler_runtime::drift::hash_of;
use k8s_openapi::api::core::v1::Namespace;
use serde_json::Value;

/// Which object it is.
pub(super) fn id(object: &Value) -> ObjectId {
    ObjectId {
        api_version: text(&object["apiVersion"]).unwrap_or_default(),
        kind: text(&object["kind"]).unwrap_or_default(),
        name: text(&object["metadata"]["name"]).unwrap_or_default(),
    }
}

/// The hash that an object was last applied with.
pub(super) fn hash(object: &Value) -> Option<String> {
    let stamp = object["metadata"]["annotations"][names::PLAN_HASH].as_str()?;
    Some(hash_of(stamp).to_owned())
}

/// Whether an object is of a kind.
pub(super) fn is_a(object: &Value, kind: &str) -> bool {
    object["kind"] == kind
}

/// Who it is, unlike any other of its name.
pub(super) fn uid(object: &Value) -> Option<String> {
    text(&object["metadata"]["uid"])
}

/// The same with its kind, which objects of lists and watches may not carry.
pub(super) fn described(mut object: Value, api_version: &str, kind: &str) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), api_version.into());
        fields.insert("kind".to_owned(), kind.into());
    }
    object
}

/// Whether an object carries the UID of its tenant cluster.
pub(super) fn is_of(object: &Value, uid: &str) -> bool {
    object["metadata"]["labels"][names::OWNER_UID] == uid
}

/// A hosted control plane; none when its version cannot be read, which the schema rules out.
pub(super) fn control_plane(object: &Value) -> Option<ControlPlaneState> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let ready = condition(object, "Available").or_else(|| condition(object, "Ready"));
    let endpoint = &spec["controlPlaneEndpoint"];
    let endpoint = text(&endpoint["host"])
        .filter(|host| !host.is_empty())
        .map(|host| format!("{host}:{}", endpoint["port"]));
    Some(ControlPlaneState {
        wanted: text(&spec["version"])?.parse().ok()?,
        running: text(&status["version"]).and_then(|version| version.parse().ok()),
        replicas: count(&spec["replicas"]),
        initialized: status["initialization"]["controlPlaneInitialized"] == true,
        available: ready.as_ref().is_some_and(|(holds, _)| *holds),
        endpoint,
        ending: is_ending(object),
        message: ready.filter(|(holds, _)| !holds).map(|(_, said)| said),
    })
}

/// A Cluster.
pub(super) fn cluster(object: &Value) -> ClusterState {
    let ready = condition(object, "InfrastructureReady");
    ClusterState {
        infrastructure: object["status"]["initialization"]["infrastructureProvisioned"] == true,
        ending: is_ending(object),
        paused: object["spec"]["paused"] == true,
        message: ready.filter(|(holds, _)| !holds).map(|(_, said)| said),
    }
}

/// What a Cluster or a pool refers to of its provider's kinds, with the group in place of a version, which references do
/// not name.
pub(super) fn infrastructure(object: &Value) -> Option<ObjectId> {
    let spec = &object["spec"];
    let reference = match object["kind"].as_str()? {
        "Cluster" => &spec["infrastructureRef"],
        "MachineDeployment" => &spec["template"]["spec"]["infrastructureRef"],
        _ => return None,
    };
    let Content { kind, name } = content(reference)?;
    Some(ObjectId {
        api_version: text(&reference["apiGroup"]).unwrap_or_default(),
        kind,
        name,
    })
}

/// What keeps a namespace that is on its way out, as Kubernetes says it.
pub(super) fn remains(namespace: &Namespace) -> Option<String> {
    let conditions = namespace.status.as_ref()?.conditions.as_deref()?;
    let is_about = |kind: &str| kind.starts_with("Namespace") && kind.ends_with("Remaining");
    let held = conditions
        .iter()
        .filter(|held| held.status == "True" && is_about(&held.type_));
    let said: Vec<&str> = held.filter_map(|held| held.message.as_deref()).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// What was written down to be left behind.
pub(super) fn left(raw: &TenantCluster) -> Option<String> {
    let mut conditions = raw.status.iter().flat_map(|status| &status.conditions);
    let held = conditions.find(|held| held.type_ == LEFT_BEHIND)?;
    Some(held.message.clone())
}

/// A machine.
pub(super) fn machine(object: &Value) -> MachineState {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    let addresses = status["addresses"].as_array().into_iter().flatten();
    let unmet = |kind: &str| {
        let held = condition(object, kind).filter(|(holds, _)| !holds);
        held.map(|(_, said)| said)
    };
    MachineState {
        name: text(&metadata["name"]).unwrap_or_default(),
        pool: text(&metadata["labels"][names::POOL]).unwrap_or_default(),
        version: text(&spec["version"]).and_then(|version| version.parse().ok()),
        node: text(&status["nodeRef"]["name"]),
        provider_id: text(&spec["providerID"]).filter(|id| !id.is_empty()),
        addresses: addresses
            .filter_map(|address| text(&address["address"]))
            .collect::<BTreeSet<_>>(),
        ending: is_ending(object),
        message: unmet("Ready"),
        obstacle: unmet("InfrastructureReady"),
    }
}

/// What a provider gave up on: it will not try again by itself. A machine that is repaired is replaced by another, so
/// that what became of the first says nothing about the cluster.
pub(super) fn failure(objects: &[Value], machines: &[Value]) -> Option<String> {
    let pool = |object: &Value| text(&object["metadata"]["labels"][names::POOL]);
    let repaired: BTreeSet<String> = objects
        .iter()
        .filter(|object| is_a(object, "MachineHealthCheck"))
        .filter_map(pool)
        .collect();
    let shared = objects
        .iter()
        .filter(|object| is_a(object, "Cluster") || is_a(object, "StewardControlPlane"));
    let machines = machines.iter().filter(|machine| {
        let is_repaired = pool(machine).is_some_and(|pool| repaired.contains(&pool));
        !is_repaired && !is_ending(machine)
    });
    let kind = |object: &Value| text(&object["kind"]).unwrap_or_else(|| "Machine".to_owned());
    let said = shared.chain(machines).filter_map(|object| {
        let status = &object["status"];
        let said = [status, &status["deprecated"]["v1beta1"]]
            .into_iter()
            .find_map(|at| text(&at["failureMessage"]).or_else(|| text(&at["failureReason"])))?;
        let name = text(&object["metadata"]["name"]).unwrap_or_default();
        Some(format!("{} {name} failed for good: {said}", kind(object)))
    });
    said.min()
}

/// Whether a condition holds, and what it says.
pub(super) fn condition(object: &Value, kind: &str) -> Option<(bool, String)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let held = conditions.iter().find(|held| held["type"] == kind)?;
    let said = text(&held["message"]).filter(|said| !said.is_empty());
    let said = said.or_else(|| text(&held["reason"])).unwrap_or_default();
    Some((held["status"] == "True", said))
}

pub(super) fn content(reference: &Value) -> Option<Content> {
    Some(Content {
        kind: text(&reference["kind"])?,
        name: text(&reference["name"])?,
    })
}

pub(super) fn is_ending(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

pub(super) fn count(value: &Value) -> u32 {
    value
        .as_u64()
        .and_then(|count| u32::try_from(count).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_control_plane_that_does_not_serve_says_why() {
        let object = json!({
            "metadata": {"name": "demo"},
            "spec": {
                "version": "v1.35.4", "replicas": 2,
                "controlPlaneEndpoint": {"host": "10.40.0.201", "port": 6443},
            },
            "status": {
                "version": "v1.34.4",
                "initialization": {"controlPlaneInitialized": true},
                "conditions": [{"type": "Available", "status": "False", "reason": "PodsNotReady", "message": "0 of 2"}],
            },
        });
        let state = control_plane(&object).unwrap();
        assert_eq!(state.endpoint.as_deref(), Some("10.40.0.201:6443"));
        assert!(state.initialized && !state.available && !state.ending);
        assert_eq!(state.message.as_deref(), Some("0 of 2"));
        assert_eq!(state.running, "v1.34.4".parse().ok());
    }

    #[test]
    fn what_a_provider_gave_up_on_is_a_failure_unless_it_is_repaired() {
        let machine = json!({
            "metadata": {"name": "demo-workers-x", "labels": {names::POOL: "workers"}},
            "status": {"deprecated": {"v1beta1": {"failureReason": "CreateError", "failureMessage": "no such disk"}}},
        });
        let machines = [machine];
        let said = failure(&[], &machines);
        assert_eq!(
            said.as_deref(),
            Some("Machine demo-workers-x failed for good: no such disk")
        );
        let check =
            json!({"kind": "MachineHealthCheck", "metadata": {"labels": {names::POOL: "workers"}}});
        assert_eq!(failure(&[check], &machines), None);
        let cluster = json!({
            "kind": "Cluster", "metadata": {"name": "demo"},
            "status": {"failureReason": "InvalidConfiguration"},
        });
        let said = failure(&[cluster], &[]).unwrap();
        assert!(said.contains("Cluster demo") && said.contains("InvalidConfiguration"));
    }

    #[test]
    fn what_is_on_its_way_out_is_seen_as_such() {
        let object = json!({
            "metadata": {"name": "m", "deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {names::POOL: "w"}},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Deleting", "message": "drains"}]},
        });
        let state = machine(&object);
        assert!(state.ending);
        assert_eq!(state.message.as_deref(), Some("drains"));
        assert!(cluster(&object).ending);
    }
}
