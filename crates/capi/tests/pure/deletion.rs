//! Deletion in order, and what it says it waits for.

use butler_api::butler::tenant_cluster::Phase;
use butler_capi::{Observed, addons::Facts, observe::Standing, plan, plan::Step};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::{
    common::{now, spec},
    world::running,
};

fn later(minutes: i64) -> Timestamp {
    now()
        .checked_add(SignedDuration::from_mins(minutes))
        .unwrap()
}

fn doomed() -> Observed {
    let mut world = running(&spec("local", &json!({})), now());
    world.deletion = Some(now());
    let database = Facts {
        addon: "cnpg".to_owned(),
        ready: true,
        ..Facts::default()
    };
    world.addons.insert("database".to_owned(), database);
    world
}

#[test]
fn addons_go_first_then_machines_then_the_control_plane_then_the_namespace() {
    let spec = spec("local", &json!({}));
    let mut world = doomed();
    let mut steps = Vec::new();
    let mut deleted = Vec::new();
    for _ in 0..12 {
        let plan = plan(&spec, &world, later(1));
        assert_eq!(plan.phase, Phase::Deleting);
        assert!(
            plan.objects.is_empty(),
            "nothing is made while everything goes"
        );
        let step = plan.deletion.unwrap();
        assert!(
            step == Step::Done || !plan.waits.is_empty(),
            "{step:?} does not say what it waits for"
        );
        if steps.last() != Some(&step) {
            steps.push(step);
        }
        deleted.extend(plan.changes.delete.iter().map(|id| id.kind.clone()));
        match step {
            Step::Addons => match world.addons.get_mut("database").unwrap() {
                held if held.ending => world.addons.clear(),
                held => held.ending = true,
            },
            Step::Machines => match &mut world.cluster {
                Some(cluster) if !cluster.ending => cluster.ending = true,
                _ if !world.machines.is_empty() => world.machines.clear(),
                _ => world.cluster = None,
            },
            Step::ControlPlane => world.control_plane = None,
            Step::Namespace => {
                world.namespace = match world.namespace {
                    Standing::Ours => Standing::Ending,
                    _ => Standing::Missing,
                }
            }
            Step::Done | Step::Protected => {}
        }
    }
    assert_eq!(
        steps,
        [
            Step::Addons,
            Step::Machines,
            Step::ControlPlane,
            Step::Namespace,
            Step::Done
        ]
    );
    assert_eq!(
        deleted,
        ["TenantAddon", "Cluster", "StewardControlPlane", "Namespace"],
        "each is asked to go once"
    );
}

#[test]
fn a_protected_cluster_loses_nothing_and_says_how_to_go_on() {
    let spec = spec("local", &json!({"deletionProtection": true}));
    let plan = plan(&spec, &doomed(), later(600));
    assert_eq!(plan.deletion, Some(Step::Protected));
    assert!(plan.changes.is_empty());
    assert!(plan.waits[0].contains("deletionProtection"), "{plan}");
}

#[test]
fn addons_of_a_dead_cluster_do_not_keep_it() {
    let spec = spec("local", &json!({}));
    let mut dead = doomed();
    dead.control_plane.as_mut().unwrap().available = false;
    assert_eq!(plan(&spec, &dead, now()).deletion, Some(Step::Machines));
    let slow = doomed();
    assert_eq!(plan(&spec, &slow, later(15)).deletion, Some(Step::Addons));
    assert_eq!(plan(&spec, &slow, later(16)).deletion, Some(Step::Machines));
}

#[test]
fn a_cluster_that_never_came_up_can_be_deleted() {
    let spec = spec("local", &json!({}));
    let mut world = Observed {
        deletion: Some(now()),
        ..Observed::default()
    };
    assert_eq!(plan(&spec, &world, now()).deletion, Some(Step::Done));
    world.namespace = Standing::Ours;
    assert_eq!(plan(&spec, &world, now()).deletion, Some(Step::Namespace));
}

#[test]
fn a_namespace_of_somebody_else_is_neither_removed_nor_waited_for() {
    let spec = spec("local", &json!({}));
    let world = Observed {
        deletion: Some(now()),
        namespace: Standing::Foreign,
        ..Observed::default()
    };
    let plan = plan(&spec, &world, now());
    assert_eq!(plan.deletion, Some(Step::Done));
    assert!(plan.changes.is_empty());
}

#[test]
fn a_deletion_that_takes_long_says_so_and_names_the_machine_that_holds_it() {
    let spec = spec("local", &json!({}));
    let mut world = doomed();
    world.addons.clear();
    world.cluster.as_mut().unwrap().ending = true;
    world.machines[0].message = Some("pod db/postgres-0 cannot be evicted".to_owned());
    let plan = plan(&spec, &world, later(61));
    assert_eq!(plan.findings[0].reason, "DeletionLate");
    assert!(plan.waits[0].contains("db/postgres-0"), "{plan}");
    assert!(plan.changes.delete.is_empty(), "it was already asked to go");
}

#[test]
fn a_forced_deletion_asks_for_everything_once_waits_for_nothing_and_names_what_is_left() {
    let spec = spec("local", &json!({}));
    let mut world = doomed();
    world.forced = true;
    let asked = plan(&spec, &world, later(1));
    let kinds = |plan: &butler_capi::Plan| -> Vec<String> {
        let ids = plan.changes.delete.iter();
        ids.map(|id| id.kind.clone()).collect()
    };
    assert_eq!(
        kinds(&asked),
        ["Cluster", "StewardControlPlane", "Namespace", "TenantAddon"]
    );
    assert_ne!(asked.deletion, Some(Step::Done));

    world.cluster.as_mut().unwrap().ending = true;
    world.control_plane.as_mut().unwrap().ending = true;
    world.namespace = Standing::Ending;
    let done = plan(&spec, &world, later(1));
    assert_eq!(done.deletion, Some(Step::Done));
    let left = done.waits.join(", ");
    assert!(left.contains("namespace my-cluster-"), "{left}");
    assert!(left.contains("machine "), "{left}");
}

#[test]
fn a_protected_cluster_cannot_be_forced() {
    let spec = spec("local", &json!({"deletionProtection": true}));
    let mut world = doomed();
    world.forced = true;
    let plan = plan(&spec, &world, later(1));
    assert_eq!(plan.deletion, Some(Step::Protected));
    assert!(plan.changes.is_empty());
}

#[test]
fn addons_that_are_still_there_are_named_and_the_pod_network_goes_only_with_the_machines() {
    let spec = spec("harvester", &json!({}));
    let mut world = running(&spec, now());
    world.deletion = Some(now());
    let ids = |plan: &butler_capi::Plan| -> Vec<String> {
        let ids = plan.changes.delete.iter();
        ids.map(ToString::to_string).collect()
    };
    let first = plan(&spec, &world, later(1));
    assert_eq!(ids(&first), ["TenantAddon my-cluster-metallb"]);
    let balancer = world.addons.get_mut("my-cluster-metallb").unwrap();
    balancer.ending = true;
    balancer.message = String::from("the release is being removed");
    let waiting = plan(&spec, &world, later(1));
    assert!(ids(&waiting).is_empty());
    let said = "addons are being removed: my-cluster-metallb (the release is being removed)";
    assert_eq!(waiting.waits, [said]);
    world.addons.remove("my-cluster-metallb");
    let machines = plan(&spec, &world, later(1));
    assert_eq!(machines.deletion, Some(Step::Machines));
    assert_eq!(
        ids(&machines),
        ["Cluster my-cluster", "TenantAddon my-cluster-cilium"]
    );
}
