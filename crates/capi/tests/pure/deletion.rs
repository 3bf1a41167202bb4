//! Deletion in order, and what it says it waits for.

use butler_api::butler::tenant_cluster::Phase;
use butler_capi::{
    Observed,
    addons::Facts,
    observe::Standing,
    plan,
    plan::{
        Leaving, Step, asks_inside,
        inside::{Held, Holder, Inside, held},
    },
};
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

fn service(since: Option<Timestamp>) -> Held {
    Held {
        kind: Holder::Service,
        namespace: Some("shop".to_owned()),
        name: "web".to_owned(),
        uid: Some("1".to_owned()),
        since,
    }
}

/// A cluster without addons that is looked into.
fn seen(held: Vec<Held>) -> Observed {
    let mut world = doomed();
    world.addons.clear();
    world.inside = Inside::Seen(held);
    world
}

#[test]
fn addons_go_first_then_what_is_inside_then_machines_then_the_rest() {
    let spec = spec("local", &json!({}));
    let mut world = doomed();
    world.inside = Inside::Seen(vec![service(None)]);
    let mut asked = Vec::new();
    let mut steps = Vec::new();
    let mut deleted = Vec::new();
    for _ in 0..14 {
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
            Step::Inside => {
                asked.extend(plan.inside.iter().map(ToString::to_string));
                world.inside = match world.inside {
                    Inside::Seen(held) if held == [service(None)] => {
                        Inside::Seen(vec![service(Some(later(1)))])
                    }
                    _ => Inside::Seen(Vec::new()),
                }
            }
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
            Step::Inside,
            Step::Machines,
            Step::ControlPlane,
            Step::Namespace,
            Step::Done
        ]
    );
    assert_eq!(asked, ["Service shop/web"], "it is asked to go once");
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
fn addons_of_a_dead_cluster_do_not_keep_it_and_are_written_down_before_machines_go() {
    let spec = spec("local", &json!({}));
    let mut dead = doomed();
    dead.control_plane.as_mut().unwrap().available = false;
    assert!(!asks_inside(&Leaving::from(&spec), &dead, now()));
    let noted = plan(&spec, &dead, now());
    assert!(noted.changes.is_empty(), "{noted}");
    let said = &noted.findings[1];
    assert_eq!(said.kind, "LeftBehind");
    let left = "load balancers and volumes of the cluster, which does not answer, the release of addon database";
    assert_eq!(said.message, left);
    dead.left = Some(said.message.clone());
    let next = plan(&spec, &dead, now());
    assert_eq!(next.deletion, Some(Step::Machines));
    assert_eq!(next.findings[1].message, left, "it stays");
    assert!(next.findings[0].message.ends_with(left), "{next}");

    let mut slow = doomed();
    assert_eq!(plan(&spec, &slow, later(15)).deletion, Some(Step::Addons));
    slow.inside = Inside::Seen(Vec::new());
    let noted = plan(&spec, &slow, later(16));
    assert_eq!(noted.findings[1].message, "the release of addon database");
    slow.left = Some(noted.findings[1].message.clone());
    assert_eq!(plan(&spec, &slow, later(16)).deletion, Some(Step::Machines));
}

#[test]
fn what_was_given_up_is_named_at_the_end() {
    let spec = spec("local", &json!({}));
    let world = Observed {
        deletion: Some(now()),
        left: Some("Service shop/web".to_owned()),
        ..Observed::default()
    };
    let done = plan(&spec, &world, later(30));
    assert_eq!(done.deletion, Some(Step::Done));
    assert_eq!(done.waits, ["Service shop/web"]);
}

#[test]
fn a_cluster_with_nothing_inside_goes_on_at_once() {
    let spec = spec("local", &json!({}));
    let world = seen(Vec::new());
    assert!(asks_inside(&Leaving::from(&spec), &world, now()));
    let next = plan(&spec, &world, now());
    assert_eq!(next.deletion, Some(Step::Machines));
    assert_eq!(next.findings.len(), 1, "nothing is left behind");
}

#[test]
fn what_does_not_go_inside_is_waited_for_five_minutes_and_then_named() {
    let spec = spec("local", &json!({}));
    let stuck = seen(vec![service(Some(later(1)))]);
    let waiting = plan(&spec, &stuck, later(6));
    assert_eq!(waiting.deletion, Some(Step::Inside));
    assert!(waiting.findings[0].message.contains("Service shop/web"));
    assert!(waiting.inside.is_empty(), "it was already asked to go");
    assert!(waiting.wake.is_some(), "a tenant is not watched");
    let over = plan(&spec, &stuck, later(7));
    assert_eq!(over.findings[1].message, "Service shop/web");
    // One that is made anew again and again.
    let anew = seen(vec![service(None)]);
    assert_eq!(plan(&spec, &anew, later(20)).inside.len(), 1);
    assert!(plan(&spec, &anew, later(21)).inside.is_empty());
}

#[test]
fn a_tenant_that_does_not_answer_is_asked_for_five_minutes() {
    let spec = spec("local", &json!({}));
    let mut silent = seen(Vec::new());
    silent.inside = Inside::Silent("timed out".to_owned());
    let waiting = plan(&spec, &silent, later(5));
    assert_eq!(waiting.deletion, Some(Step::Inside));
    let over = plan(&spec, &silent, later(6));
    assert!(over.findings[1].message.contains("timed out"), "{over}");
    silent.forced = true;
    let forced = plan(&spec, &silent, later(1));
    assert!(forced.findings[1].message.contains("timed out"), "{forced}");
}

#[test]
fn only_load_balancers_and_volumes_that_go_with_their_claim_hold_something_outside() {
    let service = |name: &str, kind: &str| json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"type": kind}});
    let services: Vec<_> = [("web", "LoadBalancer"), ("db", "ClusterIP")]
        .map(|(name, kind)| read_as(service(name, kind)))
        .into();
    let claims: Vec<_> = ["made", "kept", "by-hand"]
        .map(|name| {
            read_as(
                json!({"metadata": {"name": name, "namespace": "a"}, "spec": {"volumeName": name}}),
            )
        })
        .into();
    let volume = |name: &str, policy: &str, by: Option<&str>, phase: &str| {
        read_as(json!({
            "metadata": {"name": name, "annotations": by.map(|by| json!({"pv.kubernetes.io/provisioned-by": by}))},
            "spec": {"persistentVolumeReclaimPolicy": policy, "claimRef": {"name": name, "namespace": "a"}},
            "status": {"phase": phase, "lastPhaseTransitionTime": "2026-01-01T00:00:00Z"},
        }))
    };
    let volumes = [
        volume("made", "Delete", Some("csi"), "Bound"),
        volume("kept", "Retain", Some("csi"), "Bound"),
        volume("by-hand", "Delete", None, "Bound"),
        volume("released", "Delete", Some("csi"), "Released"),
    ];
    let found = held(&services, &claims, &volumes);
    let names: Vec<String> = found.iter().map(ToString::to_string).collect();
    let expected = [
        "Service a/web",
        "PersistentVolumeClaim a/made",
        "PersistentVolume released",
    ];
    assert_eq!(names, expected);
    let since: Vec<bool> = found.iter().map(|held| held.since.is_some()).collect();
    assert_eq!(since, [false, false, true]);
}

fn read_as<K: serde::de::DeserializeOwned>(value: serde_json::Value) -> K {
    serde_json::from_value(value).unwrap()
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
    assert_eq!(plan.findings[0].reason.as_str(), "DeletionLate");
    assert!(plan.waits[0].contains("db/postgres-0"), "{plan}");
    assert!(plan.changes.delete.is_empty(), "it was already asked to go");
}

#[test]
fn a_forced_deletion_asks_for_everything_once_waits_for_nothing_and_names_what_is_left() {
    let spec = spec("local", &json!({}));
    let mut world = doomed();
    world.forced = true;
    world.inside = Inside::Seen(vec![service(None)]);
    let noted = plan(&spec, &world, later(1));
    assert!(noted.changes.is_empty() && noted.inside.is_empty());
    world.left = Some(noted.findings[1].message.clone());
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
    assert!(left.contains("Service shop/web"), "{left}");
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
fn addons_that_are_still_there_are_named_load_balancers_go_later_and_the_network_with_the_machines()
{
    let spec = spec("harvester", &json!({}));
    let mut world = running(&spec, now());
    world.deletion = Some(now());
    world.inside = Inside::Seen(Vec::new());
    let monitoring = Facts {
        ours: true,
        role: "monitoring".to_owned(),
        ..Facts::default()
    };
    world.addons.insert("metrics".to_owned(), monitoring);
    let ids = |plan: &butler_capi::Plan| -> Vec<String> {
        let ids = plan.changes.delete.iter();
        ids.map(ToString::to_string).collect()
    };
    let first = plan(&spec, &world, later(1));
    assert_eq!(ids(&first), ["TenantAddon metrics"]);
    let metrics = world.addons.get_mut("metrics").unwrap();
    metrics.ending = true;
    metrics.message = String::from("the release is being removed");
    let waiting = plan(&spec, &world, later(1));
    assert!(ids(&waiting).is_empty());
    let said = "addons are being removed: metrics (the release is being removed)";
    assert_eq!(waiting.waits, [said]);
    world.addons.remove("metrics");
    world.inside = Inside::Seen(vec![service(None)]);
    let inside = plan(&spec, &world, later(1));
    assert_eq!(inside.deletion, Some(Step::Inside));
    assert!(ids(&inside).is_empty(), "{inside}");
    world.inside = Inside::Seen(Vec::new());
    let balancer = plan(&spec, &world, later(1));
    assert_eq!(balancer.deletion, Some(Step::Addons));
    assert_eq!(ids(&balancer), ["TenantAddon my-cluster-metallb"]);
    world.addons.remove("my-cluster-metallb");
    let machines = plan(&spec, &world, later(1));
    assert_eq!(machines.deletion, Some(Step::Machines));
    assert_eq!(
        ids(&machines),
        ["Cluster my-cluster", "TenantAddon my-cluster-cilium"]
    );
}

#[test]
fn a_spec_that_is_wrong_by_now_still_says_who_leaves_and_whether_it_may() {
    let raw = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": {"name": "demo", "namespace": "team-a", "uid": "12345678-0000"},
        "spec": {"kubernetesVersion": "none", "deletionProtection": true, "workers": {"replicas": 1}},
    });
    let leaving = Leaving::of(&read_as(raw)).unwrap();
    assert_eq!(leaving.identity.tenant_namespace(), "demo-12345678");
    assert!(leaving.protected);
}
