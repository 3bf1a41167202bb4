//! What to report about a cluster: its conditions and its numbers, derived from what was seen.

use butler_api::butler::tenant_cluster::Phase;
use serde::Serialize;

use super::{
    Finding, Roll, Truth, Wait, network,
    phase::{lacks_workers, phase},
};
use crate::{
    addons::State,
    day2::{Doze, Upgrade},
    observe::Observed,
    reason::{Reason, Retry},
    spec::{Size, TenantSpec},
};

const ADDONS: &str = "AddonsReady";

/// Workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Numbers {
    /// That are wanted.
    pub desired: u32,
    /// That have become a Node.
    pub joined: u32,
    /// Whose Node is ready.
    pub ready: u32,
}

/// What a report is made from.
pub(super) struct Facts<'a> {
    pub(super) spec: &'a TenantSpec,
    pub(super) observed: &'a Observed,
    pub(super) doze: Doze,
    pub(super) upgrade: &'a Upgrade,
    pub(super) numbers: &'a Numbers,
    pub(super) rolls: &'a [Roll],
    pub(super) waits: &'a [Wait],
    pub(super) addons: &'a State,
}

pub(super) fn numbers(spec: &TenantSpec, observed: &Observed, doze: Doze) -> Numbers {
    let machines = observed.machines.iter();
    let joined = machines.filter(|machine| machine.node.is_some() && !machine.ending);
    Numbers {
        desired: spec
            .pools
            .iter()
            .map(|pool| match (doze, pool.size) {
                (Doze::FallingAsleep | Doze::Asleep, _) => 0,
                (_, Size::Fixed(count)) => count,
                // The autoscaler's number is the one that counts, once there is one.
                (_, Size::Between { min, max }) => {
                    let held = observed.pools.get(&pool.name);
                    held.map_or(min, |held| held.wanted.clamp(min, max))
                }
            })
            .sum(),
        joined: u32::try_from(joined.count()).unwrap_or(u32::MAX),
        ready: observed.pools.values().map(|pool| pool.ready).sum(),
    }
}

pub(super) fn report(facts: &Facts<'_>) -> (Phase, Vec<Finding>) {
    let mut findings = vec![infrastructure(facts), control_plane(facts), workers(facts)];
    // Before addons, which wait for addresses: the cause is named first.
    let seen = facts.observed.addresses.as_ref();
    findings.extend(network::finding(&facts.spec.addresses, seen));
    findings.push(addons(facts));
    let phase = phase(facts);
    findings.push(ready(facts, phase, &findings));
    (phase, findings)
}

fn infrastructure(facts: &Facts<'_>) -> Finding {
    const KIND: &str = "InfrastructureReady";
    match &facts.observed.cluster {
        Some(cluster) if cluster.infrastructure => Finding::new(
            KIND,
            true,
            Reason::Provisioned,
            "what machines share is there",
        ),
        Some(cluster) => {
            let message = cluster.message.clone();
            let message = message.unwrap_or_else(|| "the provider is making it".to_owned());
            Finding::new(KIND, false, Reason::InfrastructureProvisioning, message)
        }
        None => Finding::new(
            KIND,
            false,
            Reason::InfrastructureProvisioning,
            "it is being asked for",
        ),
    }
}

fn control_plane(facts: &Facts<'_>) -> Finding {
    const KIND: &str = "ControlPlaneReady";
    let Some(held) = &facts.observed.control_plane else {
        return Finding::new(KIND, false, Reason::Creating, "it is being asked for");
    };
    if facts.doze == Doze::Asleep {
        return Finding::new(
            KIND,
            true,
            Reason::Hibernated,
            "it sleeps; its data is kept",
        );
    }
    let serves = held.initialized && held.available;
    match (serves, held.running) {
        (true, Some(running)) if running == facts.upgrade.control_plane => Finding::new(
            KIND,
            true,
            Reason::ControlPlaneReady,
            format!("it serves {running}"),
        ),
        (true, running) => {
            let running = running.map_or_else(String::new, |running| format!(" from {running}"));
            let message = format!("it moves{running} to {}", facts.upgrade.control_plane);
            // It serves all the while.
            Finding::new(KIND, true, Reason::Upgrading, message)
        }
        (false, _) => {
            let message = held.message.clone();
            let message = message.unwrap_or_else(|| "its pods are not ready yet".to_owned());
            Finding::new(KIND, false, Reason::Creating, message)
        }
    }
}

fn workers(facts: &Facts<'_>) -> Finding {
    const KIND: &str = "WorkersReady";
    let Numbers {
        desired,
        joined,
        ready,
    } = facts.numbers;
    let message = format!("{ready} of {desired} workers are ready, {joined} have joined");
    match facts.doze {
        Doze::Asleep => Finding::new(
            KIND,
            true,
            Reason::Hibernated,
            "they sleep with the cluster",
        ),
        _ if ready >= desired && !lacks_workers(facts.observed) => {
            let message = if *desired == 0 {
                "the cluster has no workers".to_owned()
            } else {
                format!("{ready} of {desired} workers are ready")
            };
            Finding::new(KIND, true, Reason::WorkersReady, message)
        }
        Doze::Awake | Doze::Waking | Doze::FallingAsleep => {
            let message = format!("{message}{}", obstacle(facts.observed, None));
            Finding::new(KIND, false, Reason::WorkersProvisioning, message)
        }
    }
}

/// What stands in the way of the first machine that cannot be had, such as an image that is missing, in one pool or in any.
/// One is enough: the others mostly lack the same.
fn obstacle(observed: &Observed, pool: Option<&str>) -> String {
    let stuck = observed
        .machines
        .iter()
        .filter(|it| it.node.is_none() && !it.ending)
        .filter(|it| pool.is_none_or(|pool| pool == it.pool));
    let said = stuck.filter_map(|it| Some((it.name.as_str(), it.obstacle.as_deref()?)));
    said.min().map_or_else(String::new, |(name, said)| {
        let line = said.lines().next().unwrap_or_default();
        format!("; machine {name}: {line}")
    })
}

fn addons(facts: &Facts<'_>) -> Finding {
    if facts.doze == Doze::Asleep {
        return Finding::new(
            ADDONS,
            true,
            Reason::Hibernated,
            "they sleep with the cluster",
        );
    }
    match facts.addons {
        State::Installed => Finding::new(ADDONS, true, Reason::AddonsInstalled, "all addons work"),
        State::Observed(what) => Finding::new(ADDONS, true, Reason::Observed, what.clone()),
        State::Waiting => Finding::new(ADDONS, false, Reason::Pending, "they wait for the workers"),
        State::Unneeded => Finding::new(
            ADDONS,
            true,
            Reason::NoWorkers,
            "they come with the first worker",
        ),
        State::Installing(what) => Finding::new(ADDONS, false, Reason::Installing, what.clone()),
        State::Blocked(what) => Finding::new(ADDONS, false, Reason::CNIInstallFailed, what.clone()),
        State::Degraded(what) => {
            Finding::new(ADDONS, false, Reason::AddonInstallFailed, what.clone())
        }
    }
}

/// Whether the cluster works although not all of its addons do.
fn works_without(facts: &Facts<'_>) -> bool {
    match facts.addons {
        State::Degraded(_) => true,
        State::Installing(_) => {
            matches!(facts.observed.phase, Some(Phase::Ready | Phase::Updating))
        }
        State::Waiting
        | State::Unneeded
        | State::Blocked(_)
        | State::Observed(_)
        | State::Installed => false,
    }
}

fn ready(facts: &Facts<'_>, phase: Phase, findings: &[Finding]) -> Finding {
    const KIND: &str = "Ready";
    if let Some(failure) = &facts.observed.failure {
        return Finding::new(KIND, false, Reason::Failed, failure.clone());
    }
    if facts.doze == Doze::Asleep {
        return Finding::new(
            KIND,
            true,
            Reason::Hibernated,
            "the cluster sleeps; its data is kept",
        );
    }
    let is_minor = |finding: &Finding| match finding.kind {
        network::KIND => true,
        ADDONS => works_without(facts),
        _ => false,
    };
    let mut broken = findings.iter().filter(|finding| !finding.holds());
    if let Some(broken) = broken.find(|finding| !is_minor(finding)) {
        // What is in the way is the cause of what is not ready.
        let wait = foremost(facts.waits).map(|wait| wait.message.clone());
        let parts = [format!("{}: {}", broken.kind, broken.message)];
        let parts = parts.into_iter().chain(progress(facts)).chain(wait);
        let message = parts.collect::<Vec<_>>().join("; ");
        return Finding {
            kind: KIND,
            message,
            ..broken.clone()
        };
    }
    if let Some(minor) = findings.iter().find(|finding| !finding.holds()) {
        let message = format!("the cluster works; {}: {}", minor.kind, minor.message);
        return Finding {
            kind: KIND,
            status: Truth::True,
            message,
            ..minor.clone()
        };
    }
    match (phase, foremost(facts.waits)) {
        (Phase::Updating, wait) => {
            let wait = wait.map(|wait| wait.message.clone());
            let said: Vec<String> = progress(facts).into_iter().chain(wait).collect();
            let message = if said.is_empty() {
                "a change is being carried out".to_owned()
            } else {
                said.join("; ")
            };
            Finding::new(KIND, true, Reason::Updating, message)
        }
        (_, Some(wait)) => Finding::new(KIND, true, wait.reason, wait.message.clone()),
        (_, None) => Finding::new(KIND, true, Reason::Ready, "the cluster works"),
    }
}

/// The wait that is told: one that lasts until somebody acts before those that end by themselves.
fn foremost(waits: &[Wait]) -> Option<&Wait> {
    let asks = waits
        .iter()
        .find(|wait| wait.reason.retry() == Retry::NeedsChange);
    asks.or_else(|| waits.first())
}

/// How far a change is: the control plane first, then pools. First machines, and those of a cluster that wakes, replace
/// nobody.
fn progress(facts: &Facts<'_>) -> Vec<String> {
    let has_worked = matches!(facts.observed.phase, Some(Phase::Ready | Phase::Updating));
    if !has_worked || facts.doze != Doze::Awake {
        return Vec::new();
    }
    let held = facts.observed.control_plane.as_ref();
    let running = held.and_then(|held| held.running);
    let to = facts.upgrade.control_plane;
    let moves = running.filter(|running| *running != to);
    let moves = moves.map(|from| format!("the control plane moves from {from} to {to}"));
    let rolls = facts.rolls.iter().map(|roll| {
        let Roll {
            pool,
            nodes,
            replaced,
            because: _,
            back,
        } = roll;
        let verb = if *back { "taken back" } else { "replaced" };
        let obstacle = obstacle(facts.observed, Some(pool.as_str()));
        format!("pool {pool}: {replaced} of {nodes} machines {verb}{obstacle}")
    });
    moves.into_iter().chain(rolls).collect()
}
