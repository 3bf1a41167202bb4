//! Upgrades, rollouts that stop, sleep, and windows.

use butler_api::butler::tenant_cluster::Phase;
use butler_capi::{Observed, Plan, Reason, TenantSpec, day2::ROLLOUT_DEADLINE, plan};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    common::{now, spec},
    phases::finding,
    world::{apply, machine, running, settle},
};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The versions a plan writes: of the control plane, and of every pool.
pub(crate) fn versions(plan: &Plan) -> (String, Vec<String>) {
    let of = |kind: &str, path: &str| -> Vec<String> {
        let objects = plan
            .objects
            .iter()
            .filter(|object| object.id().kind == kind);
        let version = |value: Value| {
            value
                .pointer(path)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        objects
            .filter_map(|object| version(object.to_value()))
            .collect()
    };
    let control_plane = of("StewardControlPlane", "/spec/version").remove(0);
    (
        control_plane,
        of("MachineDeployment", "/spec/template/spec/version"),
    )
}

pub(crate) fn two_pools(version: &str) -> TenantSpec {
    spec(
        "local",
        &json!({"kubernetesVersion": version, "workerPools": [{"name": "b", "replicas": 2}]}),
    )
}

#[test]
fn an_upgrade_takes_the_control_plane_first_and_then_the_pools_one_by_one() {
    let (old, new) = ("v1.34.4", "v1.35.4");
    let mut world = running(&two_pools(old), now());
    let wanted = two_pools(new);
    let mut seen = Vec::new();
    for _ in 0..6 {
        let plan = plan(&wanted, &world, now());
        let step = versions(&plan);
        if seen.last() != Some(&step) {
            seen.push(step);
        }
        apply(&mut world, &plan);
        settle(&mut world);
    }
    let step =
        |control: &str, pools: [&str; 2]| (control.to_owned(), pools.map(str::to_owned).to_vec());
    assert_eq!(
        seen,
        [
            step(new, [old, old]),
            step(new, [new, old]),
            step(new, [new, new])
        ]
    );
    assert_eq!(world.phase, Some(Phase::Ready));
    assert!(plan(&wanted, &world, now()).changes.is_empty());
}

#[test]
fn pools_wait_while_the_control_plane_does_not_serve_the_new_version() {
    let mut world = running(&two_pools("v1.34.4"), now());
    let wanted = two_pools("v1.35.4");
    let first = plan(&wanted, &world, now());
    apply(&mut world, &first);
    let during = plan(&wanted, &world, now());
    assert_eq!(versions(&during).1, ["v1.34.4", "v1.34.4"]);
    assert_eq!(during.phase, Phase::Updating);
    assert!(
        during
            .waits
            .iter()
            .any(|wait| wait.contains("control plane comes first")),
        "{during}"
    );
}

#[test]
fn a_pool_that_only_grows_is_not_said_to_be_replaced() {
    let mut world = running(&spec("local", &json!({})), now());
    let wanted = spec("local", &json!({"workers": {"replicas": 5}}));
    let first = plan(&wanted, &world, now());
    apply(&mut world, &first);
    let quiet = |world: &Observed| {
        let during = plan(&wanted, world, now());
        assert_eq!(during.phase, Phase::Updating, "{during}");
        assert!(during.rolls.is_empty(), "{during}");
        let said = during.findings.iter().map(|it| &it.message);
        assert!(
            !said.into_iter().any(|it| it.contains("replaced")),
            "{during:?}"
        );
    };
    // Cluster API has not seen the new size yet.
    world.pools.get_mut("workers").unwrap().current = false;
    quiet(&world);
    // It has, and made machines that it does not call up to date yet.
    let pool = world.pools.get_mut("workers").unwrap();
    (pool.current, pool.replicas) = (true, 5);
    quiet(&world);
}

#[test]
fn what_the_checks_find_holds_the_upgrade_and_is_said() {
    let old = two_pools("v1.34.4");
    let good = running(&old, now());
    let held = |world: &Observed, wanted: &TenantSpec, says: &str| {
        let plan = plan(wanted, world, now());
        assert_eq!(versions(&plan).0, "v1.34.4", "{plan}");
        assert!(
            plan.waits.iter().any(|wait| wait.contains(says)),
            "{says}:\n{plan}"
        );
        assert!(plan.changes.is_empty(), "{plan}");
    };
    held(&good, &two_pools("v1.36.0"), "one minor version at a time");
    held(&good, &two_pools("v1.33.9"), "never back");
    let mut down = good.clone();
    down.control_plane.as_mut().unwrap().available = false;
    held(
        &down,
        &two_pools("v1.35.4"),
        "waits for the control plane to be available",
    );
    let mut busy = good.clone();
    busy.pools.get_mut("b").unwrap().up_to_date = 1;
    held(&busy, &two_pools("v1.35.4"), "waits for pool b");
    let mut behind = good.clone();
    let mut target = behind.pools["b"].target.clone();
    target.version = "v1.31.9".parse().unwrap();
    behind.machines.push(machine("b", 9, &target));
    held(&behind, &two_pools("v1.35.4"), "pool b runs v1.31.9");
}

#[test]
fn a_window_holds_upgrades_and_rollouts_but_not_scaling_nor_repair() {
    let windowed = |version: &str, replicas: i32, cpu: i32| {
        spec(
            "local",
            &json!({
                "kubernetesVersion": version,
                "workers": {"replicas": replicas, "machineTemplate": {"cpu": cpu}},
                "maintenance": {"windows": [{"schedule": "0 2 * * 6", "duration": "4h"}]},
            }),
        )
    };
    // A Thursday, and the night to Saturday after it.
    let (thursday, saturday) = (at("2026-11-12T12:00:00Z"), at("2026-11-14T02:30:00Z"));
    let world = running(&windowed("v1.34.4", 3, 4), thursday);
    let upgrade = plan(&windowed("v1.35.4", 3, 4), &world, thursday);
    assert!(upgrade.changes.is_empty(), "{upgrade}");
    assert_eq!(upgrade.wake, Some(at("2026-11-14T02:00:00Z")));
    assert!(
        upgrade.waits[0].contains("2026-11-14T02:00:00Z")
            && finding(&upgrade, "Ready").reason == Reason::Waiting,
        "{upgrade}"
    );
    assert_eq!(upgrade.phase, Phase::Ready);
    let resize = plan(&windowed("v1.34.4", 3, 8), &world, thursday);
    assert!(resize.rolls.is_empty(), "{resize}");
    // What it may have is noted at once; nothing is made of it before the window opens.
    let noted = resize.changes.change.iter().map(|id| id.kind.as_str());
    assert_eq!(noted.collect::<Vec<_>>(), ["Namespace"], "{resize}");
    let scale = plan(&windowed("v1.34.4", 5, 4), &world, thursday);
    assert_eq!(scale.changes.change.len(), 2, "{scale}");
    let open = plan(&windowed("v1.35.4", 3, 4), &world, saturday);
    assert_eq!(versions(&open).0, "v1.35.4");
    let open = plan(&windowed("v1.34.4", 3, 8), &world, saturday);
    assert_eq!(open.rolls.len(), 1);
}

/// A world in which the first new machine of a rollout never becomes ready.
fn stopped(from: &TenantSpec, to: &TenantSpec) -> Observed {
    let mut world = running(from, now());
    for _ in 0..2 {
        let plan = plan(to, &world, now());
        apply(&mut world, &plan);
        let held = world.control_plane.as_mut().unwrap();
        held.running = Some(held.wanted);
    }
    let pool = world.pools.get_mut("workers").unwrap();
    assert!(pool.came_from.is_some());
    pool.replicas = 4;
    pool.up_to_date = 1;
    world
}

#[test]
fn a_rollout_that_begins_long_after_the_last_change_is_not_called_stopped() {
    let other = spec(
        "local",
        &json!({"workers": {"machineTemplate": {"cpu": 8}}}),
    );
    let mut world = running(&spec("local", &json!({})), now());
    world.pools.get_mut("workers").unwrap().progress = Some(now());
    let later = now().checked_add(SignedDuration::from_hours(10)).unwrap();
    let first = plan(&other, &world, later);
    apply(&mut world, &first);
    // Cluster API has not seen it, and what it says is ten hours old.
    let pool = world.pools.get_mut("workers").unwrap();
    (pool.current, pool.up_to_date) = (false, 3);
    let wanted = pool.target.clone();
    let during = plan(&other, &world, later);
    assert!(during.changes.is_empty(), "{during}");
    assert!(!during.rolls[0].back, "{during}");
    apply(&mut world, &during);
    assert_eq!(world.pools["workers"].target, wanted);
}

#[test]
fn a_rollout_that_stops_is_taken_back_and_not_tried_again_until_the_spec_changes() {
    let (good, bad) = (
        spec("local", &json!({})),
        spec(
            "local",
            &json!({"workers": {"machineTemplate": {"cpu": 64}}}),
        ),
    );
    let mut world = stopped(&good, &bad);
    let before = world.pools["workers"].came_from.clone().unwrap();
    let soon = now().checked_add(SignedDuration::from_mins(5)).unwrap();
    let waiting = plan(&bad, &world, soon);
    assert!(waiting.changes.is_empty(), "{waiting}");
    let deadline = now().checked_add(ROLLOUT_DEADLINE).unwrap();
    assert_eq!(
        waiting.wake,
        Some(deadline),
        "somebody has to look when it is late"
    );
    let late = deadline.checked_add(SignedDuration::from_secs(1)).unwrap();
    let back = plan(&bad, &world, late);
    assert!(back.rolls[0].back, "{back}");
    assert!(
        back.waits
            .iter()
            .any(|wait| wait.contains("did not become ready")),
        "{back}"
    );
    apply(&mut world, &back);
    assert_eq!(world.pools["workers"].target, before);
    settle(&mut world);
    for _ in 0..3 {
        let held = plan(&bad, &world, late);
        apply(&mut world, &held);
        assert_eq!(world.pools["workers"].target, before, "{held}");
        assert!(
            held.rolls.is_empty() && held.waits[0].contains("change the spec to try again"),
            "{held}"
        );
    }
    let held = plan(&bad, &world, late);
    assert_eq!(held.phase, Phase::Ready);
    assert_eq!(finding(&held, "Ready").reason, Reason::RolloutFailed);
    let better = spec(
        "local",
        &json!({"workers": {"machineTemplate": {"cpu": 8}}}),
    );
    assert_eq!(plan(&better, &world, late).rolls.len(), 1);
    assert!(
        plan(&good, &world, late).waits.is_empty(),
        "back to what was is nothing that failed"
    );
}

#[test]
fn an_upgrade_of_machines_that_stops_goes_back_to_a_version_the_api_server_still_takes() {
    let (old, new) = (two_pools("v1.34.4"), two_pools("v1.35.4"));
    let mut world = stopped(&old, &new);
    let late = now().checked_add(SignedDuration::from_mins(60)).unwrap();
    let back = plan(&new, &world, late);
    assert_eq!(
        versions(&back),
        (
            "v1.35.4".to_owned(),
            vec!["v1.34.4".to_owned(), "v1.34.4".to_owned()]
        )
    );
    let way_back = world
        .pools
        .get_mut("workers")
        .unwrap()
        .came_from
        .as_mut()
        .unwrap();
    way_back.version = "v1.31.0".parse().unwrap();
    let stuck = plan(&new, &world, late);
    assert_eq!(versions(&stuck).1[0], "v1.35.4");
    assert!(
        stuck
            .waits
            .iter()
            .any(|wait| wait.contains("too old for the API server")),
        "{stuck}"
    );
}

#[test]
fn a_cluster_falls_asleep_workers_first_and_wakes_control_plane_first() {
    let sleeping = |enabled: bool| {
        spec(
            "local",
            &json!({"hibernation": {"enabled": enabled},
                              "workerPools": [{"name": "b", "minReplicas": 2, "maxReplicas": 4}]}),
        )
    };
    let replicas = |plan: &Plan| {
        let numbers = plan.objects.iter().filter_map(|object| {
            let value = object.to_value();
            let counts =
                ["StewardControlPlane", "MachineDeployment"].contains(&object.id().kind.as_str());
            counts.then(|| value["spec"]["replicas"].as_i64().unwrap_or(-1))
        });
        numbers.collect::<Vec<_>>()
    };
    let patience = |plan: &Plan| {
        let values = plan.objects.iter().map(butler_capi::Object::to_value);
        let pools = values.filter(|value| value["kind"] == "MachineDeployment");
        let drain = "/spec/template/spec/deletion/nodeDrainTimeoutSeconds";
        let seconds = pools.map(|pool| pool.pointer(drain).unwrap().as_i64().unwrap());
        seconds.collect::<Vec<_>>()
    };
    let mut world = running(&sleeping(false), now());
    assert_eq!(patience(&plan(&sleeping(false), &world, now())), [1800; 2]);
    let first = plan(&sleeping(true), &world, now());
    assert_eq!(replicas(&first), [1, 0, 0], "workers go first");
    assert_eq!(patience(&first), [30; 2], "no other node would take pods");
    assert_eq!(first.phase, Phase::Updating);
    apply(&mut world, &first);
    settle(&mut world);
    let second = plan(&sleeping(true), &world, now());
    assert_eq!(replicas(&second), [0, 0, 0]);
    apply(&mut world, &second);
    settle(&mut world);
    let asleep = plan(&sleeping(true), &world, now());
    assert!(asleep.changes.is_empty(), "{asleep}");
    assert_eq!(
        (
            asleep.phase,
            asleep.findings.last().unwrap().reason.as_str()
        ),
        (Phase::Ready, "Hibernated")
    );
    let woken = plan(&sleeping(false), &world, now());
    assert_eq!(replicas(&woken), [1, 0, 0], "the control plane wakes first");
    apply(&mut world, &woken);
    settle(&mut world);
    let awake = plan(&sleeping(false), &world, now());
    assert_eq!(
        replicas(&awake),
        [1, 3, -1],
        "the autoscaler owns its pool again"
    );
    apply(&mut world, &awake);
    settle(&mut world);
    let ready = plan(&sleeping(false), &world, now());
    assert!(ready.changes.is_empty(), "{ready}");
    assert_eq!(ready.phase, Phase::Ready);
}

#[test]
fn a_plan_wakes_its_controller_when_the_cluster_falls_asleep() {
    let nightly = spec(
        "local",
        &json!({"hibernation": {"schedules": [{"start": "0 20 * * *", "end": "0 6 * * *"}]}}),
    );
    let noon = at("2026-11-15T12:00:00Z");
    let world = running(&nightly, noon);
    assert_eq!(
        plan(&nightly, &world, noon).wake,
        Some(at("2026-11-15T20:00:00Z"))
    );
}
