//! A world that carries out plans: what a plan asks for stands afterwards, so that the next plan can be made from it.

use std::collections::BTreeMap;

use butler_api::butler::tenant_addon::TenantAddonPhase;
use butler_capi::{
    Object, Observed, Plan,
    addons::Facts,
    build::{CAME_FROM, FAILED_ROLLOUT, ROLLS_SINCE},
    day2::{Content, Target},
    observe::{ClusterState, ControlPlaneState, MachineState, PoolState, Standing},
};
use jiff::Timestamp;
use serde_json::Value;

/// Carries out a plan, as far as an API server does so at once.
pub(crate) fn apply(observed: &mut Observed, plan: &Plan) {
    for object in &plan.objects {
        observed.objects.insert(object.id(), Some(object.hash()));
        match object {
            Object::Namespace(_) => observed.namespace = Standing::Ours,
            Object::ControlPlane(object) => {
                control_plane(observed, &object.spec.version, object.spec.replicas);
            }
            Object::Cluster(_) => {
                observed.cluster.get_or_insert_with(ClusterState::default);
            }
            Object::MachineDeployment(_) => deployment(observed, &object.to_value()),
            Object::Addon(_) => {
                let name = object.id().name;
                let before = observed.addons.remove(&name);
                let mut asked = addon(&object.to_value());
                asked.version = before.and_then(|held| held.version);
                observed.addons.insert(name, asked);
            }
            Object::Role(_)
            | Object::RoleBinding(_)
            | Object::Secret(_)
            | Object::Infrastructure(_)
            | Object::Bootstrap(_)
            | Object::MachineHealthCheck(_) => {}
        }
    }
    for id in &plan.changes.delete {
        observed.objects.remove(id);
        observed.addons.remove(&id.name);
        if id.kind == "MachineDeployment" {
            let name = id.name.strip_prefix("my-cluster-").unwrap();
            observed.pools.remove(name);
            observed.machines.retain(|machine| machine.pool != name);
        }
    }
    observed.phase = Some(plan.phase);
    observed.is_reported = true;
}

/// An addon that was only asked for.
fn addon(object: &Value) -> Facts {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Facts {
        ours: true,
        role: text(&object["metadata"]["labels"]["butler.butlerlabs.dev/addon-role"]),
        addon: text(&object["spec"]["addon"]),
        asked: object["spec"]["version"].as_str().map(str::to_owned),
        ..Facts::default()
    }
}

fn control_plane(observed: &mut Observed, version: &str, replicas: i32) {
    let held = observed
        .control_plane
        .get_or_insert_with(|| ControlPlaneState {
            running: None,
            initialized: false,
            available: false,
            ..crate::common::serving(version)
        });
    held.wanted = version.parse().unwrap();
    held.replicas = u32::try_from(replicas).unwrap();
}

fn deployment(observed: &mut Observed, object: &Value) {
    let metadata = &object["metadata"];
    let machine = &object["spec"]["template"]["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let bootstrap = &machine["bootstrap"];
    let target = Target {
        version: text(&machine["version"]).parse().unwrap(),
        machine_template: content(&machine["infrastructureRef"]),
        bootstrap: match &bootstrap["dataSecretName"] {
            Value::String(name) => Content {
                kind: "Secret".to_owned(),
                name: name.clone(),
            },
            _ => content(&bootstrap["configRef"]),
        },
    };
    let annotations = &metadata["annotations"];
    let pool = text(&metadata["labels"]["butler.butlerlabs.dev/pool"]);
    let held = observed.pools.entry(pool).or_insert_with(|| PoolState {
        target: target.clone(),
        came_from: None,
        failed: None,
        wanted: 0,
        replicas: 0,
        up_to_date: 0,
        ready: 0,
        current: true,
        began: None,
        progress: None,
    });
    if held.target != target {
        held.target = target;
        held.up_to_date = 0;
    }
    let came_from = annotations[CAME_FROM].as_str();
    held.came_from = came_from.map(|text| serde_json::from_str(text).unwrap());
    let began = annotations[ROLLS_SINCE].as_str();
    held.began = began.map(|text| text.parse().unwrap());
    held.failed = annotations[FAILED_ROLLOUT].as_str().map(str::to_owned);
    let least = annotations[butler_capi::build::AUTOSCALER_MIN].as_str();
    let least: Option<u32> = least.map(|text| text.parse().unwrap());
    held.wanted = match object["spec"]["replicas"].as_u64() {
        Some(replicas) => u32::try_from(replicas).unwrap(),
        None => held.wanted.max(least.unwrap_or(0)),
    };
}

/// What a reference names.
fn content(reference: &Value) -> Content {
    let text = |key: &str| reference[key].as_str().unwrap_or_default().to_owned();
    Content {
        kind: text("kind"),
        name: text("name"),
    }
}

/// Lets everything that was asked for become true: pods start, machines come and go.
pub(crate) fn settle(observed: &mut Observed) {
    if let Some(held) = &mut observed.control_plane {
        held.running = (held.replicas > 0).then_some(held.wanted).or(held.running);
        held.initialized |= held.replicas > 0;
        held.available = held.replicas > 0;
    }
    if let Some(cluster) = &mut observed.cluster {
        cluster.infrastructure = true;
    }
    let mut machines = Vec::new();
    for (name, pool) in &mut observed.pools {
        pool.replicas = pool.wanted;
        pool.up_to_date = pool.wanted;
        pool.ready = pool.wanted;
        for index in 0..pool.wanted {
            machines.push(machine(name, index, &pool.target));
        }
    }
    observed.machines = machines;
    for held in observed.addons.values_mut() {
        held.ready = true;
        held.phase = Some(TenantAddonPhase::Installed);
        let installed = held.asked.clone();
        held.version = installed.or_else(|| Some("1.0.0".to_owned()));
    }
}

/// A machine that has joined.
pub(crate) fn machine(pool: &str, index: u32, target: &Target) -> MachineState {
    MachineState {
        name: format!("{pool}-{index}"),
        pool: pool.to_owned(),
        version: Some(target.version),
        node: Some(format!("node-{pool}-{index}")),
        provider_id: None,
        addresses: [format!("10.40.1.{index}")].into(),
        ending: false,
        message: None,
        obstacle: None,
    }
}

/// A cluster that works, as `spec` wants it.
pub(crate) fn running(spec: &butler_capi::TenantSpec, now: Timestamp) -> Observed {
    let mut observed = Observed {
        inputs: crate::common::inputs(),
        ..Observed::default()
    };
    observed.objects = BTreeMap::new();
    for _ in 0..5 {
        let plan = butler_capi::plan(spec, &observed, now);
        apply(&mut observed, &plan);
        settle(&mut observed);
    }
    let plan = butler_capi::plan(spec, &observed, now);
    assert!(
        plan.changes.is_empty(),
        "a cluster that stands still:\n{plan}"
    );
    observed
}
