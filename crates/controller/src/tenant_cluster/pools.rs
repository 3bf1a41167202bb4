//! Pools of machines as they stand, and how far the replacement of machines is. Pure.

#![expect(
    clippy::indexing_slicing,
    reason = "a JSON value that is read by a name never panics: what is not there is null"
)]

use std::collections::BTreeMap;

use butler_api::names;
use butler_capi::{
    build::{CAME_FROM, FAILED_ROLLOUT, ROLLS_SINCE},
    day2::{Content, Target},
    observe::PoolState,
};
use jiff::Timestamp;
use serde_json::Value;

use super::observe::{condition, content, count, is_a, is_ending, text};

/// The pools of a cluster, by name.
pub(super) fn all(objects: &[Value], machines: &[Value]) -> BTreeMap<String, PoolState> {
    let pools = objects
        .iter()
        .filter(|object| is_a(object, "MachineDeployment"));
    let mut pools: BTreeMap<String, PoolState> = pools.filter_map(one).collect();
    for machine in machines {
        let name = text(&machine["metadata"]["labels"][names::POOL]);
        if let Some(pool) = name.and_then(|name| pools.get_mut(&name)) {
            pool.progress = pool.progress.max(progress(machine));
        }
    }
    pools
}

/// When a replacement got on by one machine: a new one became ready, or an old one was let go. The pool's own conditions do
/// not tell: they move as well when a machine that never came is repaired, again and again.
fn progress(machine: &Value) -> Option<Timestamp> {
    let is_old = condition(machine, "UpToDate").is_some_and(|(holds, _)| !holds);
    let moment = match (is_ending(machine), is_old) {
        (true, true) => text(&machine["metadata"]["deletionTimestamp"]),
        (false, false) => held_since(machine, "Ready"),
        (true, false) | (false, true) => None,
    };
    moment?.parse().ok()
}

/// Since when a condition holds.
fn held_since(object: &Value, kind: &str) -> Option<String> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    let held = conditions.find(|held| held["type"] == kind && held["status"] == "True")?;
    text(&held["lastTransitionTime"])
}

/// A pool, with its name; what its machines did is not seen of it alone. None for one that is not ours to read: it has no
/// pool's label or no version.
pub(super) fn one(object: &Value) -> Option<(String, PoolState)> {
    let name = text(&object["metadata"]["labels"][names::POOL])?;
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = target(spec)?;
    let annotations = &object["metadata"]["annotations"];
    let came_from = text(&annotations[CAME_FROM]);
    Some((
        name,
        PoolState {
            target,
            came_from: came_from.and_then(|text| serde_json::from_str(&text).ok()),
            failed: text(&annotations[FAILED_ROLLOUT]),
            wanted: count(&spec["replicas"]),
            replicas: count(&status["replicas"]),
            up_to_date: count(&status["upToDateReplicas"]),
            ready: count(&status["readyReplicas"]),
            current: status["observedGeneration"] == object["metadata"]["generation"],
            began: text(&annotations[ROLLS_SINCE]).and_then(|text| text.parse().ok()),
            progress: None,
        },
    ))
}

/// What the machines of a pool, or of one of its sets, are made from.
fn target(spec: &Value) -> Option<Target> {
    let machine = &spec["template"]["spec"];
    let bootstrap = &machine["bootstrap"];
    let bootstrap = match text(&bootstrap["dataSecretName"]) {
        Some(name) => Content {
            kind: "Secret".to_owned(),
            name,
        },
        None => content(&bootstrap["configRef"])?,
    };
    Some(Target {
        version: text(&machine["version"])?.parse().ok()?,
        machine_template: content(&machine["infrastructureRef"])?,
        bootstrap,
    })
}

/// Whether the numbers of a pool say that all its machines were just replaced.
pub(super) fn seems_replaced(pool: &PoolState) -> bool {
    pool.came_from.is_some() && !pool.is_rolling()
}

/// Cluster API first says that it has seen a change of a pool, and counts the machines that are not made from it a moment
/// later: until then its numbers speak about what was before. Which sets of machines there are it knows at once.
pub(super) fn distrust(pools: &mut BTreeMap<String, PoolState>, sets: &[Value]) {
    for (name, pool) in pools {
        let is_old = |set: &Value| {
            let spec = &set["spec"];
            spec["template"]["metadata"]["labels"][names::POOL] == name.as_str()
                && target(spec).as_ref() != Some(&pool.target)
                && count(&set["status"]["replicas"]) > 0
        };
        if seems_replaced(pool) && sets.iter().any(is_old) {
            pool.current = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn before() -> Target {
        Target {
            version: "v1.34.4".parse().unwrap(),
            machine_template: Content {
                kind: "LocalMachineTemplate".to_owned(),
                name: "demo-workers-old".to_owned(),
            },
            bootstrap: Content {
                kind: "KubeadmConfigTemplate".to_owned(),
                name: "demo-workers-old".to_owned(),
            },
        }
    }

    /// A pool on its way from what was before.
    fn deployment() -> Value {
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
            "metadata": {
                "name": "demo-workers", "generation": 3,
                "labels": {names::POOL: "workers"},
                "annotations": {CAME_FROM: serde_json::to_string(&before()).unwrap()},
            },
            "spec": {
                "replicas": 3,
                "template": {"spec": {
                    "version": "v1.35.4",
                    "infrastructureRef": {"kind": "LocalMachineTemplate", "name": "demo-workers-new"},
                    "bootstrap": {"configRef": {"kind": "KubeadmConfigTemplate", "name": "demo-workers-new"}},
                }},
            },
            "status": {
                "observedGeneration": 3, "replicas": 3, "upToDateReplicas": 1, "readyReplicas": 2,
                "conditions": [
                    {"type": "Available", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    {"type": "RollingOut", "status": "True", "lastTransitionTime": "2026-01-02T00:00:00Z"},
                ],
            },
        })
    }

    #[test]
    fn a_pool_is_read_with_what_it_came_from() {
        let (name, state) = one(&deployment()).unwrap();
        assert_eq!(name, "workers");
        assert_eq!(state.came_from, Some(before()));
        assert!(state.current && state.is_rolling());
        assert_eq!(
            (state.wanted, state.replicas, state.up_to_date, state.ready),
            (3, 3, 1, 2)
        );
        assert_eq!(state.target.bootstrap.name, "demo-workers-new");
    }

    #[test]
    fn a_pool_is_not_called_replaced_while_there_are_machines_of_another_make() {
        let make = |version: &str, name: &str| {
            json!({
                "version": version,
                "infrastructureRef": {"kind": "LocalMachineTemplate", "name": name},
                "bootstrap": {"configRef": {"kind": "KubeadmConfigTemplate", "name": name}},
            })
        };
        let set = |pool: &str, machine: Value, replicas: u32| {
            json!({
                "spec": {"template": {"metadata": {"labels": {names::POOL: pool}}, "spec": machine}},
                "status": {"replicas": replicas},
            })
        };
        let new = set("workers", make("v1.35.4", "new"), 1);
        let rolls = |other: Value| {
            let target = target(&new["spec"]).unwrap();
            let state = PoolState {
                came_from: Some(target.clone()),
                target,
                failed: None,
                wanted: 1,
                replicas: 1,
                up_to_date: 1,
                ready: 1,
                current: true,
                began: None,
                progress: None,
            };
            let mut pools = BTreeMap::from([("workers".to_owned(), state)]);
            distrust(&mut pools, &[new.clone(), other]);
            pools["workers"].is_rolling()
        };
        assert!(rolls(set("workers", make("v1.34.4", "new"), 1)));
        assert!(rolls(set("workers", make("v1.35.4", "old"), 1)));
        assert!(!rolls(set("workers", make("v1.35.4", "old"), 0)));
        assert!(!rolls(set("others", make("v1.35.4", "old"), 1)));
    }

    #[test]
    fn a_replacement_gets_on_with_machines_and_not_with_repairs_of_those_that_never_came() {
        let machine = |up_to_date: &str, ready: &str, ending: Value| {
            let since = "2026-01-03T00:00:00Z";
            let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": since});
            json!({
                "metadata": {"labels": {names::POOL: "workers"}, "deletionTimestamp": ending},
                "status": {"conditions": [condition("UpToDate", up_to_date), condition("Ready", ready)]},
            })
        };
        let moment = |text: &str| text.parse::<Timestamp>().ok();
        let (kept, gone) = (Value::Null, json!("2026-01-04T00:00:00Z"));
        let new = machine("True", "True", kept.clone());
        assert_eq!(progress(&new), moment("2026-01-03T00:00:00Z"));
        let let_go = machine("False", "False", gone.clone());
        assert_eq!(progress(&let_go), moment("2026-01-04T00:00:00Z"));
        for still in [
            machine("True", "False", kept.clone()),
            machine("True", "False", gone),
            machine("False", "True", kept),
        ] {
            assert_eq!(progress(&still), None, "{still}");
        }
        let pools = all(&[deployment()], &[new, let_go]);
        assert_eq!(pools["workers"].progress, moment("2026-01-04T00:00:00Z"));
    }
}
