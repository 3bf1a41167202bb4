//! The one step that a release needs next.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    failure::Class,
    health::Health,
    manifest::ObjectId,
    record::{Record, Revision, Status},
    request::{Drift, Request},
};

/// How soon to look again at something that is on its way.
const SOON: Duration = Duration::from_secs(2);

/// What the pool of Helm processes knows about a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Job {
    /// Nothing is under way, and the last step went well.
    #[default]
    Idle,
    /// A step is under way.
    Running,
    /// The last step failed.
    Failed(Failure),
}

/// A step that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What kind of trouble.
    pub class: Class,
    /// What Helm said, fit to be shown.
    pub message: String,
    /// When to try again.
    pub retry_at: Timestamp,
    /// What was asked for when it failed: another request does not wait.
    pub request: Option<String>,
}

/// What was seen of a release.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// All revisions, oldest first.
    pub revisions: Vec<Revision>,
    /// The whole record of the last one.
    pub latest: Option<Record>,
    /// What the pool knows.
    pub job: Job,
    /// How the objects are; nothing while they were not looked at.
    pub health: Option<Health>,
    /// Objects that are not as they were installed.
    pub drifted: Vec<ObjectId>,
    /// The UID of the addon.
    pub owner: String,
    /// Whether a release of somebody else is taken over.
    pub adopt: bool,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Step {
    /// The release belongs to somebody else.
    Refuse,
    /// A step is under way.
    Wait,
    /// The last step failed and is tried again then.
    Retry(Failure),
    /// A killed predecessor left this revision pending: mark it as failed.
    RecoverPending(u32),
    /// Install.
    Install,
    /// Install another chart or other values.
    Upgrade,
    /// Go back to this revision: the last one did not become healthy.
    Rollback(u32),
    /// Put these objects back.
    CorrectDrift(Vec<ObjectId>),
    /// Note that this revision became healthy.
    MarkHealthy(u32),
    /// It stands and is not healthy yet: look again.
    WatchHealth(Duration),
    /// It stands and is not healthy, and there is nothing to go back to.
    Unhealthy,
    /// What is asked for was given up; what stands is the revision before it.
    RolledBack,
    /// Remove it.
    Uninstall,
    /// It is gone, or was never ours.
    Gone,
    /// It stands.
    Done,
}

/// The next step for a release that is wanted.
pub fn next(request: &Request, world: &World, now: Timestamp) -> Step {
    if world.job == Job::Running {
        return Step::Wait;
    }
    let wanted = request.fingerprint();
    let Some(last) = world.revisions.last() else {
        return patiently(world, &wanted, now, Step::Install);
    };
    let is_ours = last.owner.as_ref() == Some(&world.owner);
    if !is_ours && !world.adopt {
        return Step::Refuse;
    }
    if last.status.is_pending() {
        return Step::RecoverPending(last.number);
    }
    if matches!(last.status, Status::Uninstalling | Status::Uninstalled) {
        return patiently(world, &wanted, now, Step::Uninstall);
    }
    let stands = last.status == Status::Deployed;
    let is_wanted = is_ours && is_as_wanted(request, &wanted, last, world.latest.as_ref());
    if stands && (is_wanted || was_given_up(world, &wanted)) {
        return standing(request, world, last, is_wanted, now);
    }
    patiently(world, &wanted, now, Step::Upgrade)
}

/// Whether a revision is what is asked for. Of our own its label tells; what others made has that label too, handed on by
/// Helm, and is judged by its content.
fn is_as_wanted(
    request: &Request,
    wanted: &str,
    revision: &Revision,
    record: Option<&Record>,
) -> bool {
    let label = revision.request.as_deref();
    let same = label == Some(wanted);
    match (record, label) {
        (Some(record), Some(label)) if !record.was_made_for(label) => {
            record.is_like(request) && (same || request.retry.is_none())
        }
        _ => same,
    }
}

/// The next step for a release that is to go.
pub fn removal(world: &World, now: Timestamp) -> Step {
    if world.job == Job::Running {
        return Step::Wait;
    }
    match world.revisions.last() {
        // Somebody else's is left alone.
        Some(last) if last.owner.as_ref() == Some(&world.owner) => {
            patiently(world, "", now, Step::Uninstall)
        }
        _ => Step::Gone,
    }
}

/// Whether the last revision is the way back from what is wanted.
fn was_given_up(world: &World, wanted: &str) -> bool {
    let is_rollback = world.latest.as_ref().is_some_and(Record::is_rollback);
    let before = world.revisions.iter().rev().nth(1);
    is_rollback && before.is_some_and(|before| before.request.as_deref() == Some(wanted))
}

/// A failed step waits before it is tried again, unless something else is wanted since.
fn patiently(world: &World, wanted: &str, now: Timestamp, step: Step) -> Step {
    match &world.job {
        Job::Failed(failure)
            if now < failure.retry_at
                && (wanted.is_empty() || failure.request.as_deref() == Some(wanted)) =>
        {
            Step::Retry(failure.clone())
        }
        Job::Idle | Job::Running | Job::Failed(_) => step,
    }
}

fn standing(
    request: &Request,
    world: &World,
    last: &Revision,
    is_wanted: bool,
    now: Timestamp,
) -> Step {
    if request.drift == Drift::Correct && !world.drifted.is_empty() {
        return Step::CorrectDrift(world.drifted.clone());
    }
    let ready = world.health.as_ref().is_none_or(Health::is_ready);
    if !is_wanted {
        return Step::RolledBack;
    }
    match (ready, last.healthy) {
        (true, true) => Step::Done,
        (true, false) => Step::MarkHealthy(last.number),
        (false, true) => Step::Unhealthy,
        (false, false) => unsettled(request, world, last, now),
    }
}

/// A revision that was never healthy: it has until its time-out, and then the last healthy one comes back.
fn unsettled(request: &Request, world: &World, last: &Revision, now: Timestamp) -> Step {
    let failed = world.health.as_ref().is_some_and(Health::has_failed);
    let deployed = world.latest.as_ref().and_then(|record| record.deployed);
    let patience = SignedDuration::try_from(request.timeout).unwrap_or(SignedDuration::MAX);
    let late = deployed.is_some_and(|deployed| now.duration_since(deployed) >= patience);
    if !failed && !late {
        return Step::WatchHealth(SOON);
    }
    let earlier = world.revisions.iter().rev();
    let mut good = earlier.filter(|revision| {
        let whole = matches!(revision.status, Status::Superseded | Status::Deployed);
        revision.number < last.number && revision.healthy && whole
    });
    match good.next() {
        Some(good) => patiently(
            world,
            last.request.as_deref().unwrap_or_default(),
            now,
            Step::Rollback(good.number),
        ),
        None => Step::Unhealthy,
    }
}

#[cfg(test)]
mod tests;
