//! A paused cluster: nothing is changed, its truth is told, and it can still be removed.

use butler_api::butler::tenant_cluster::Phase;
use butler_capi::{Object, Observed, Plan, TenantSpec, plan, plan::Truth};
use serde_json::json;

use crate::{
    common::{now, spec},
    world::{apply, running},
};

fn asked(version: &str, paused: bool) -> TenantSpec {
    spec(
        "local",
        &json!({"kubernetesVersion": version, "workers": {"replicas": 2}, "paused": paused}),
    )
}

/// Whether Cluster API is told to stand still; nothing where it is told nothing.
fn told(plan: &Plan) -> Option<bool> {
    plan.objects.iter().find_map(|object| match object {
        Object::Cluster(cluster) => Some(cluster.spec.paused),
        _ => None,
    })
}

fn said<'a>(plan: &'a Plan, kind: &str) -> Option<(Truth, &'a str, &'a str)> {
    let found = plan.findings.iter().find(|it| it.kind == kind)?;
    Some((found.status, found.reason.as_str(), found.message.as_str()))
}

#[test]
fn an_upgrade_of_a_paused_cluster_waits_and_goes_on_when_it_is_resumed() {
    let mut world = running(&asked("v1.34.4", false), now());
    let held = plan(&asked("v1.35.4", true), &world, now());
    assert_eq!(told(&held), Some(true));
    let changed: Vec<&str> = held
        .changes
        .change
        .iter()
        .map(|id| id.kind.as_str())
        .collect();
    assert_eq!(changed, ["Cluster"], "{held}");
    assert!(held.changes.create.is_empty() && held.changes.delete.is_empty());
    assert_eq!(held.phase, Phase::Ready, "nothing moves");
    let (truth, reason, message) = said(&held, "Paused").unwrap();
    assert_eq!((truth, reason), (Truth::True, "Paused"));
    assert!(message.contains("spec.paused"), "{message}");
    let (truth, reason, _) = said(&held, "Ready").unwrap();
    assert_eq!((truth, reason), (Truth::True, "Paused"));
    apply(&mut world, &held);
    let again = plan(&asked("v1.35.4", true), &world, now());
    assert!(again.changes.is_empty(), "{again}");

    let resumed = plan(&asked("v1.35.4", false), &world, now());
    assert_eq!(told(&resumed), Some(false));
    assert_eq!(resumed.phase, Phase::Updating);
    assert_eq!(said(&resumed, "Paused"), None);
}

#[test]
fn a_paused_cluster_that_does_not_work_says_so() {
    let mut world = running(&asked("v1.34.4", false), now());
    world.control_plane.as_mut().unwrap().available = false;
    let held = plan(&asked("v1.34.4", true), &world, now());
    let (truth, reason, message) = said(&held, "Ready").unwrap();
    assert_eq!((truth, reason), (Truth::False, "Creating"));
    assert!(message.contains("the cluster is paused"), "{message}");
}

#[test]
fn nothing_is_made_of_a_cluster_that_is_paused_from_the_start() {
    let world = Observed {
        inputs: crate::common::inputs(),
        ..Observed::default()
    };
    let held = plan(&asked("v1.34.4", true), &world, now());
    assert!(held.objects.is_empty() && held.changes.is_empty(), "{held}");
    assert_eq!(held.phase, Phase::Pending);
}

#[test]
fn a_deletion_lets_cluster_api_go_on_once_it_has_to() {
    let asked = asked("v1.34.4", true);
    let mut world = running(&self::asked("v1.34.4", false), now());
    world.addons.clear();
    world.cluster.as_mut().unwrap().paused = true;
    world.deletion = Some(now());
    let going = plan(&asked, &world, now());
    let resumed = going.resume.as_ref().map(|id| id.kind.as_str());
    assert_eq!(resumed, Some("Cluster"), "{going}");
    assert!(
        going
            .changes
            .delete
            .contains(going.resume.as_ref().unwrap())
    );
    let mut protected = asked.clone();
    protected.protected = true;
    assert_eq!(plan(&protected, &world, now()).resume, None);
}
