//! Which release runs, and what is reported about it.

use butler_api::steward::tenant_control_plane::status::State;
use serde_json::{Value, json};

use super::{
    super::{
        state::{Progress, Rollout, report},
        upgrade::{Facts, Node, decide},
        *,
    },
    endpoint, inputs,
};
use crate::spec::fixture::plane;

fn version(text: &str) -> KubeVersion {
    text.parse().unwrap()
}

fn node(name: &str, kubelet: &str) -> Node {
    Node {
        name: name.into(),
        kubelet: kubelet.parse().ok(),
    }
}

fn facts(nodes: &[Node]) -> Facts<'_> {
    Facts {
        installed: Some(version("v1.34.4")),
        deployed: Some(version("v1.34.4")),
        progress: Progress::Complete,
        nodes: Some(nodes),
        failed: false,
        asleep: false,
    }
}

#[test]
fn one_minor_release_may_follow_another() {
    let nodes = [node("a", "v1.32.1"), node("b", "v1.34.4")];
    let decision = decide(version("v1.35.4"), &facts(&nodes));
    assert_eq!(decision.outcome, Outcome::Upgrading);
    assert_eq!(decision.version, version("v1.35.4"));
}

#[test]
fn a_jump_and_a_way_back_are_refused_in_words() {
    for (wanted, words) in [
        ("v1.36.0", "go to v1.35 first"),
        ("v1.33.9", "cannot go back"),
    ] {
        let decision = decide(version(wanted), &facts(&[]));
        assert_eq!(
            (decision.outcome, decision.version),
            (Outcome::Refused, version("v1.34.4"))
        );
        assert!(decision.message.contains(words), "{}", decision.message);
    }
}

#[test]
fn kubelets_that_are_too_old_or_too_new_are_named() {
    let old: Vec<Node> = (0..7).map(|n| node(&format!("n{n}"), "v1.31.0")).collect();
    let decision = decide(version("v1.35.0"), &facts(&old));
    assert_eq!(decision.outcome, Outcome::Refused);
    assert!(
        decision.message.contains("n0 runs v1.31.0"),
        "{}",
        decision.message
    );
    assert!(
        decision.message.contains("and 2 more"),
        "{}",
        decision.message
    );

    let new = [node("early", "v1.36.0")];
    let decision = decide(version("v1.35.0"), &facts(&new));
    assert!(
        decision.message.contains("early runs v1.36.0"),
        "{}",
        decision.message
    );
}

#[test]
fn an_upgrade_waits_for_nodes_whose_release_cannot_be_understood_and_names_them() {
    let nodes = [
        node("fine", "v1.34.4"),
        node("odd", "unknown"),
        node("mute", ""),
    ];
    let decision = decide(version("v1.35.4"), &facts(&nodes));
    assert_eq!(
        (decision.outcome, decision.version),
        (Outcome::Waiting, version("v1.34.4"))
    );
    assert!(
        decision.message.contains("odd, mute"),
        "{}",
        decision.message
    );
    let nodes = [node("odd", "unknown"), node("early", "v1.36.0")];
    let decision = decide(version("v1.35.4"), &facts(&nodes));
    assert_eq!(
        decision.outcome,
        Outcome::Refused,
        "what is known counts first"
    );
}

#[test]
fn an_upgrade_waits_for_nodes_that_cannot_be_seen_and_for_a_wake_up() {
    let unseen = Facts {
        nodes: None,
        ..facts(&[])
    };
    assert_eq!(
        decide(version("v1.35.4"), &unseen).outcome,
        Outcome::Waiting
    );
    let asleep = Facts {
        asleep: true,
        ..facts(&[])
    };
    let decision = decide(version("v1.35.4"), &asleep);
    assert_eq!(
        (decision.outcome, decision.version),
        (Outcome::Waiting, version("v1.34.4"))
    );
}

#[test]
fn an_upgrade_that_began_goes_on_when_nodes_are_out_of_sight() {
    let began = Facts {
        deployed: Some(version("v1.35.4")),
        progress: Progress::Underway,
        nodes: None,
        ..facts(&[])
    };
    let decision = decide(version("v1.35.4"), &began);
    assert_eq!(
        (decision.outcome, decision.version),
        (Outcome::Upgrading, version("v1.35.4"))
    );
}

#[test]
fn the_first_release_needs_no_step() {
    let fresh = Facts {
        installed: None,
        deployed: None,
        nodes: None,
        ..facts(&[])
    };
    let decision = decide(version("v1.35.4"), &fresh);
    assert_eq!(
        (decision.outcome, decision.version),
        (Outcome::Settled, version("v1.35.4"))
    );
}

fn deployment(objects: &Objects, status: &Value) -> Deployment {
    let mut deployment = objects.deployment.clone();
    deployment.metadata.generation = Some(2);
    deployment.status = Some(serde_json::from_value(status.clone()).unwrap());
    deployment
}

fn stalled() -> Value {
    json!({
        "observedGeneration": 2, "replicas": 4, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}],
    })
}

fn complete(replicas: u8) -> Value {
    json!({
        "observedGeneration": 2, "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas,
    })
}

#[test]
fn pods_that_never_become_ready_are_rolled_back_once_and_tried_again_after_a_change() {
    let spec = plane(&json!({"spec": {"kubernetes": {"version": "v1.35.4"}}}));
    let endpoint = endpoint(&spec);
    let inputs = inputs(&spec);
    let current = |rollout| Current {
        installed: Some(version("v1.34.4")),
        rollout: Some(rollout),
        nodes: Some(&[]),
    };
    let broken = objects(&spec, &endpoint, &inputs);
    let seen = Rollout::of(&deployment(&broken, &stalled()));
    let (decision, back) = roll(&spec, &endpoint, &inputs, &current(&seen));
    assert_eq!(
        (decision.outcome, decision.version),
        (Outcome::RolledBack, version("v1.34.4"))
    );
    assert!(
        decision.message.contains("v1.34.4 runs on"),
        "{}",
        decision.message
    );

    let seen = Rollout::of(&deployment(&back, &complete(2)));
    let (still, same) = roll(&spec, &endpoint, &inputs, &current(&seen));
    assert_eq!((still.outcome, &same), (Outcome::RolledBack, &back));

    let scaled = plane(&json!({"spec": {"controlPlane": {"deployment": {"replicas": 5}}}}));
    assert_eq!(
        roll(&scaled, &endpoint, &inputs, &current(&seen)).0.outcome,
        Outcome::RolledBack
    );

    let mended = plane(&json!({"spec": {"controlPlane": {"deployment": {
        "extraArgs": {"apiServer": ["--v=2"]},
    }}}}));
    let (again, objects) = roll(&mended, &endpoint, &inputs, &current(&seen));
    assert_eq!(
        (again.outcome, again.version),
        (Outcome::Upgrading, version("v1.35.4"))
    );
    let annotations = objects.deployment.metadata.annotations.unwrap();
    assert!(!annotations.contains_key(names::FAILED_ROLLOUT));
}

#[test]
fn a_first_release_may_be_lowered_until_a_pod_of_it_serves() {
    let first = plane(&json!({"spec": {"kubernetes": {"version": "v1.35.4"}}}));
    let lowered = plane(&json!({"spec": {"kubernetes": {"version": "v1.34.4"}}}));
    let endpoint = endpoint(&first);
    let made = objects(&first, &endpoint, &inputs(&first));
    let decided = |status: &Value| {
        let seen = Rollout::of(&deployment(&made, status));
        let current = Current {
            installed: None,
            rollout: Some(&seen),
            nodes: None,
        };
        let decision = roll(&lowered, &endpoint, &inputs(&lowered), &current).0;
        (decision.outcome, decision.version)
    };
    let settled = (Outcome::Settled, version("v1.34.4"));
    let starting = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2});
    assert_eq!(decided(&starting), settled);
    let refused = (Outcome::Refused, version("v1.35.4"));
    assert_eq!(decided(&complete(2)), refused, "the report is only late");
}

fn reported(over: &Value, status: &Value, installed: Option<&str>) -> (State, Option<String>) {
    let spec = plane(over);
    let objects = objects(&spec, &endpoint(&spec), &inputs(&spec));
    let rollout = Rollout::of(&deployment(&objects, status));
    let report = report(&spec, Some(&rollout), installed.map(version));
    (
        report.state,
        report.installed.map(|version| version.to_string()),
    )
}

#[test]
fn states_follow_the_pods() {
    let nothing = json!({});
    let one = json!({
        "observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1,
    });
    let now = || Some("v1.35.4".to_owned());
    let before = || Some("v1.34.4".to_owned());
    for (status, installed, expected) in [
        (&nothing, None, (State::Provisioning, None)),
        (&one, None, (State::Ready, now())),
        (&nothing, Some("v1.35.4"), (State::NotReady, now())),
        (&one, Some("v1.35.4"), (State::Ready, now())),
        (&one, Some("v1.34.4"), (State::Upgrading, before())),
        (&stalled(), Some("v1.34.4"), (State::Upgrading, before())),
        (&complete(2), Some("v1.34.4"), (State::Ready, now())),
    ] {
        assert_eq!(
            reported(&json!({}), status, installed),
            expected,
            "{status} {installed:?}"
        );
    }
}

#[test]
fn an_upgrade_under_a_write_freeze_is_recorded() {
    let frozen = json!({"spec": {"writePermissions": {"blockCreation": true}}});
    let (state, installed) = reported(&frozen, &complete(2), Some("v1.34.4"));
    assert_eq!(
        (state, installed.as_deref()),
        (State::WriteLimited, Some("v1.35.4"))
    );
}

#[test]
fn sleep_installs_nothing() {
    let asleep = json!({"spec": {"controlPlane": {"deployment": {"replicas": 0}}}});
    let (state, installed) = reported(&asleep, &complete(0), Some("v1.34.4"));
    assert_eq!(
        (state, installed.as_deref()),
        (State::Sleeping, Some("v1.34.4"))
    );
}

#[test]
fn a_status_that_speaks_about_an_older_generation_proves_nothing() {
    let mut old = complete(2);
    old["observedGeneration"] = json!(1);
    let (state, installed) = reported(&json!({}), &old, Some("v1.34.4"));
    assert_eq!(
        (state, installed.as_deref()),
        (State::Upgrading, Some("v1.34.4"))
    );
}
