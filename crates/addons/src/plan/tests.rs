use serde_json::json;

use super::*;
use crate::{health::State, record::description, request::tests::request};

const OWN: &str = "uid-of-the-addon";

fn now() -> Timestamp {
    "2026-11-16T12:00:00Z".parse().unwrap()
}

fn revision(number: u32, status: Status, request: &Request) -> Revision {
    Revision {
        number,
        status,
        request: Some(request.fingerprint()),
        owner: Some(OWN.to_owned()),
        healthy: false,
    }
}

fn healthy(number: u32, status: Status, request: &Request) -> Revision {
    Revision {
        healthy: true,
        ..revision(number, status, request)
    }
}

fn record(ago: SignedDuration, description: &str) -> Record {
    Record {
        status: Status::Deployed,
        description: description.to_owned(),
        deployed: Some(now() - ago),
        chart: "small".to_owned(),
        chart_version: "1.0.0".to_owned(),
        values: json!({"a": 1}),
        manifest: String::new(),
    }
}

/// A record of our own upgrade.
fn ours(ago: SignedDuration, request: &Request) -> Record {
    record(ago, &description(&request.fingerprint()))
}

fn world(revisions: Vec<Revision>) -> World {
    let request = revisions.last().and_then(|last| last.request.clone());
    let said = description(&request.unwrap_or_default());
    World {
        revisions,
        latest: Some(record(SignedDuration::from_secs(5), &said)),
        owner: OWN.to_owned(),
        health: Some(Health::default()),
        ..World::default()
    }
}

fn ill(state: State) -> Health {
    let id = ObjectId {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: None,
        name: "web".to_owned(),
    };
    Health::of([(id, state)])
}

fn progressing() -> Health {
    ill(State::Progressing("soon".to_owned()))
}

#[test]
fn nothing_is_installed_what_stands_is_left_and_what_differs_is_upgraded() {
    let (old, new) = (request(json!({"a": 1})), request(json!({"a": 2})));
    assert_eq!(next(&old, &world(vec![]), now()), Step::Install);
    let stands = world(vec![healthy(1, Status::Deployed, &old)]);
    assert_eq!(next(&old, &stands, now()), Step::Done);
    assert_eq!(next(&new, &stands, now()), Step::Upgrade);
}

#[test]
fn a_running_step_is_waited_for_and_a_failed_one_waits_unless_the_request_changed() {
    let (old, new) = (request(json!({"a": 1})), request(json!({"a": 2})));
    let mut world = world(vec![]);
    world.job = Job::Running;
    assert_eq!(next(&old, &world, now()), Step::Wait);
    let failure = Failure {
        class: Class::Other,
        message: "no".to_owned(),
        retry_at: now() + SignedDuration::from_secs(9),
        request: Some(old.fingerprint()),
    };
    world.job = Job::Failed(failure.clone());
    assert_eq!(next(&old, &world, now()), Step::Retry(failure.clone()));
    assert_eq!(next(&new, &world, now()), Step::Install);
    assert_eq!(next(&old, &world, failure.retry_at), Step::Install);
}

#[test]
fn what_a_killed_predecessor_left_pending_is_recovered_first() {
    let wanted = request(json!({}));
    for status in [
        Status::PendingInstall,
        Status::PendingUpgrade,
        Status::PendingRollback,
    ] {
        let left = world(vec![revision(3, status, &wanted)]);
        assert_eq!(next(&wanted, &left, now()), Step::RecoverPending(3));
    }
    let failed = world(vec![revision(3, Status::Failed, &wanted)]);
    assert_eq!(next(&wanted, &failed, now()), Step::Upgrade);
    let half_gone = world(vec![revision(3, Status::Uninstalling, &wanted)]);
    assert_eq!(next(&wanted, &half_gone, now()), Step::Uninstall);
}

#[test]
fn a_release_of_somebody_else_is_refused_left_alone_and_taken_over_only_when_told() {
    let wanted = request(json!({}));
    let mut foreign = world(vec![Revision {
        owner: None,
        request: None,
        ..revision(1, Status::PendingInstall, &wanted)
    }]);
    assert_eq!(next(&wanted, &foreign, now()), Step::Refuse);
    assert_eq!(removal(&foreign, now()), Step::Gone);
    foreign.adopt = true;
    foreign.revisions[0].status = Status::Deployed;
    assert_eq!(next(&wanted, &foreign, now()), Step::Upgrade);
}

#[test]
fn what_somebody_else_made_of_our_release_is_told_by_its_content_though_helm_hands_our_labels_on() {
    let (wanted, other) = (request(json!({"a": 1})), request(json!({"a": 2})));
    let mut theirs = world(vec![
        healthy(1, Status::Superseded, &wanted),
        healthy(2, Status::Deployed, &wanted),
    ]);
    theirs.latest = Some(record(SignedDuration::ZERO, "Upgrade complete"));
    assert_eq!(next(&wanted, &theirs, now()), Step::Done, "the same again");
    assert_eq!(next(&other, &theirs, now()), Step::Upgrade);
    let mut again = wanted.clone();
    again.retry = Some("now".to_owned());
    assert_eq!(next(&again, &theirs, now()), Step::Upgrade, "as asked for");

    let mut newer = record(SignedDuration::ZERO, "Upgrade complete");
    newer.chart_version = "2.0.0".to_owned();
    let mut changed = record(SignedDuration::ZERO, "Upgrade complete");
    changed.values = other.values.clone();
    for latest in [newer, changed.clone()] {
        theirs.latest = Some(latest);
        assert_eq!(next(&wanted, &theirs, now()), Step::Upgrade);
    }
    theirs.latest = Some(changed);
    assert_eq!(
        next(&other, &theirs, now()),
        Step::Done,
        "we ask for it now"
    );
}

#[test]
fn what_helm_made_of_the_values_that_we_gave_it_is_not_compared() {
    let wanted = request(json!({"a": 1.0}));
    let stands = world(vec![healthy(1, Status::Deployed, &wanted)]);
    assert_eq!(next(&wanted, &stands, now()), Step::Done);
}

#[test]
fn drift_is_corrected_only_where_that_is_wanted() {
    let mut wanted = request(json!({}));
    let mut drifted = world(vec![healthy(1, Status::Deployed, &wanted)]);
    let id = ill(State::Missing).waiting[0].0.clone();
    drifted.drifted = vec![id.clone()];
    assert_eq!(next(&wanted, &drifted, now()), Step::CorrectDrift(vec![id]));
    wanted.drift = Drift::Report;
    assert_eq!(next(&wanted, &drifted, now()), Step::Done);
}

#[test]
fn a_new_revision_has_time_to_become_healthy_and_is_noted_when_it_is() {
    let wanted = request(json!({}));
    let mut fresh = world(vec![revision(1, Status::Deployed, &wanted)]);
    assert_eq!(next(&wanted, &fresh, now()), Step::MarkHealthy(1));
    fresh.health = Some(progressing());
    assert_eq!(next(&wanted, &fresh, now()), Step::WatchHealth(SOON));
}

#[test]
fn an_upgrade_that_does_not_become_healthy_goes_back_to_the_last_healthy_revision_and_stays_there()
{
    let (old, new) = (request(json!({"a": 1})), request(json!({"a": 2})));
    let mut late = world(vec![
        healthy(1, Status::Superseded, &old),
        revision(2, Status::Failed, &old),
        revision(3, Status::Deployed, &new),
    ]);
    late.health = Some(progressing());
    late.latest = Some(ours(SignedDuration::from_mins(11), &new));
    assert_eq!(next(&new, &late, now()), Step::Rollback(1));
    late.latest = Some(ours(SignedDuration::ZERO, &new));
    late.health = Some(ill(State::Failed("no".to_owned())));
    assert_eq!(
        next(&new, &late, now()),
        Step::Rollback(1),
        "no need to wait"
    );

    late.revisions[2].status = Status::Superseded;
    late.revisions.push(healthy(4, Status::Deployed, &old));
    late.latest = Some(record(SignedDuration::ZERO, "Rollback to 1"));
    late.health = Some(Health::default());
    assert_eq!(next(&new, &late, now()), Step::RolledBack);
    assert_eq!(next(&old, &late, now()), Step::Done, "back in the spec too");
    let other = request(json!({"a": 3}));
    assert_eq!(next(&other, &late, now()), Step::Upgrade);
}

#[test]
fn going_back_to_earlier_values_is_an_upgrade_like_any_other() {
    let (old, new) = (request(json!({"a": 1})), request(json!({"a": 2})));
    let back = world(vec![
        healthy(1, Status::Superseded, &old),
        healthy(2, Status::Deployed, &new),
    ]);
    assert_eq!(next(&old, &back, now()), Step::Upgrade);
}

#[test]
fn what_was_healthy_once_is_not_given_up_when_a_node_fails_later() {
    let wanted = request(json!({}));
    let mut later = world(vec![
        healthy(1, Status::Superseded, &wanted),
        healthy(2, Status::Deployed, &wanted),
    ]);
    later.latest = Some(ours(SignedDuration::from_hours(999), &wanted));
    later.health = Some(ill(State::Failed("no".to_owned())));
    assert_eq!(next(&wanted, &later, now()), Step::Unhealthy);
}

#[test]
fn a_first_installation_that_does_not_become_healthy_has_nothing_to_go_back_to() {
    let wanted = request(json!({}));
    let mut late = world(vec![revision(1, Status::Deployed, &wanted)]);
    late.latest = Some(ours(SignedDuration::from_mins(11), &wanted));
    late.health = Some(progressing());
    assert_eq!(next(&wanted, &late, now()), Step::Unhealthy);
}

#[test]
fn removal_ends_whatever_the_state() {
    let wanted = request(json!({}));
    assert_eq!(removal(&world(vec![]), now()), Step::Gone);
    for status in [
        Status::Deployed,
        Status::PendingInstall,
        Status::Failed,
        Status::Uninstalling,
    ] {
        let held = world(vec![revision(1, status, &wanted)]);
        assert_eq!(removal(&held, now()), Step::Uninstall);
    }
}
