//! How a new version of a catalogue entry spreads over a fleet: in waves, a few at a time, and no further once it fails.

use std::collections::BTreeMap;

use serde::Serialize;

/// How fast and in which order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Policy {
    /// Labels of the clusters of each wave, in their order. Clusters of no wave come last.
    pub waves: Vec<Wave>,
    /// How many addons may be unavailable at once.
    pub max_unavailable: Limit,
    /// How many may fail before the rollout stops.
    pub max_failures: usize,
}

/// Clusters that come together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wave {
    /// Name for people.
    pub name: String,
    /// Labels that a cluster has.
    pub labels: BTreeMap<String, String>,
}

/// A number of addons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Limit {
    /// So many.
    Count(usize),
    /// So many of a hundred, rounded down, but at least one.
    Percent(usize),
}

impl Limit {
    /// Reads `3` or `10%`; nothing when it is neither, or none at all.
    pub fn parse(text: &str) -> Option<Self> {
        let limit = match text.strip_suffix('%') {
            Some(percent) => Self::Percent(percent.parse().ok()?),
            None => Self::Count(text.parse().ok()?),
        };
        let is_none = matches!(limit, Self::Count(0) | Self::Percent(0));
        (!is_none).then_some(limit)
    }

    fn of(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => (total * percent / 100).max(1),
        }
    }
}

/// How an addon is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// As its version says.
    Ready,
    /// On its way, or in trouble that may pass.
    Unready,
    /// Its version was given up; why.
    Failed(String),
}

/// An addon that follows the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it is known by, such as `team/addon`.
    pub id: String,
    /// Labels of its cluster.
    pub labels: BTreeMap<String, String>,
    /// The version that it may have; nothing for one that was never told.
    pub granted: Option<String>,
    /// The version that it has or tried last.
    pub held: Option<String>,
    /// How it is with what it was granted.
    pub condition: Condition,
}

/// What to do and to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Who may have which version from now on.
    pub grants: Vec<(String, String)>,
    /// How far it is.
    pub progress: Progress,
}

/// How far a rollout is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Addons that follow the catalogue.
    pub total: usize,
    /// Those that have the version and are ready.
    pub updated: usize,
    /// Those on their way to it.
    pub updating: usize,
    /// Those that did not get there; the first few by name, with the reason.
    pub failed: Vec<(String, String)>,
    /// The wave that is under way; nothing when all are through.
    pub wave: Option<String>,
    /// Whether it goes no further because of failures.
    pub stopped: bool,
}

/// What clusters of no wave are called.
const REST: &str = "others";

/// The next grants for `version`.
pub fn plan(version: &str, policy: &Policy, members: &[Member]) -> Plan {
    let mut plan = Plan::default();
    let mut waves: Vec<Vec<&Member>> = vec![Vec::new(); policy.waves.len() + 1];
    let mut unavailable = 0;
    for member in members {
        let is_settled = tally(version, member, &mut plan);
        if member.condition != Condition::Ready && member.granted.is_some() {
            unavailable += 1;
        }
        if !is_settled && let Some(wave) = waves.get_mut(wave_of(policy, member)) {
            wave.push(member);
        }
    }
    plan.progress.failed.sort();
    plan.progress.stopped = plan.progress.failed.len() > policy.max_failures;
    // Later waves wait for the first one that is not through.
    let Some(index) = waves.iter().position(|wave| !wave.is_empty()) else {
        return plan;
    };
    let name = policy.waves.get(index).map(|wave| wave.name.clone());
    plan.progress.wave = Some(name.unwrap_or_else(|| REST.to_owned()));
    if plan.progress.stopped {
        return plan;
    }
    let mut room = policy
        .max_unavailable
        .of(members.len())
        .saturating_sub(unavailable);
    let mut waiting: Vec<&Member> = waves.swap_remove(index);
    waiting.retain(|member| member.granted.as_deref() != Some(version));
    waiting.sort_by(|one, other| one.id.cmp(&other.id));
    for member in waiting {
        // One that is not ready anyway makes nothing worse by moving on.
        let is_free = member.condition != Condition::Ready;
        if !is_free {
            if room == 0 {
                continue;
            }
            room -= 1;
        }
        plan.grants.push((member.id.clone(), version.to_owned()));
        plan.progress.updating += 1;
    }
    plan
}

/// Counts a member; whether it needs nothing more. One that was never told what it may have keeps what it has, and one
/// that has nothing begins with the new version.
fn tally(version: &str, member: &Member, plan: &mut Plan) -> bool {
    let progress = &mut plan.progress;
    progress.total += 1;
    let Some(granted) = &member.granted else {
        let pinned = member.held.clone().unwrap_or_else(|| version.to_owned());
        let is_new = pinned == version;
        plan.grants.push((member.id.clone(), pinned));
        // The rest is for the next look, when everybody knows what they may have.
        return is_new || member.held.is_some();
    };
    if granted != version {
        return false;
    }
    match &member.condition {
        Condition::Ready if member.held.as_deref() == Some(version) => {
            progress.updated += 1;
            true
        }
        Condition::Failed(why) => {
            progress.failed.push((member.id.clone(), why.clone()));
            true
        }
        Condition::Ready | Condition::Unready => {
            progress.updating += 1;
            false
        }
    }
}

fn wave_of(policy: &Policy, member: &Member) -> usize {
    let fits = |wave: &Wave| {
        let mut wanted = wave.labels.iter();
        wanted.all(|(key, value)| member.labels.get(key) == Some(value))
    };
    let found = policy.waves.iter().position(fits);
    found.unwrap_or(policy.waves.len())
}

#[cfg(test)]
mod tests;
