//! What is said about a pool: conditions, events, and the words for a claim that gets nothing. Pure.

use butler_ipam::{Clash, Figures, Refusal};
use butler_runtime::{conditions::Verdict, events::Note};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    plan::{World, holders},
    validate::Spec,
};

/// Names that are listed before the rest is only counted.
const NAMED: usize = 5;

/// How full a pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Below all tiers.
    #[default]
    Fine,
    /// At 70 %.
    Warning,
    /// At 85 %.
    Critical,
    /// At 95 %.
    Exhausted,
}

/// The tiers, each with its condition, its event and its share of the addresses in percent.
const TIERS: [(Tier, &str, &str, u128); 3] = [
    (Tier::Warning, "CapacityWarning", "PoolCapacityWarning", 70),
    (
        Tier::Critical,
        "CapacityCritical",
        "PoolCapacityCritical",
        85,
    ),
    (
        Tier::Exhausted,
        "CapacityExhausted",
        "PoolCapacityExhausted",
        95,
    ),
];

impl Tier {
    /// The tier of these figures.
    fn of(figures: &Figures) -> Self {
        let percent = used(figures).saturating_mul(100) / figures.total.max(1);
        let reached = TIERS.iter().rev().find(|(.., share)| percent >= *share);
        reached.map_or(Self::Fine, |(tier, ..)| *tier)
    }

    /// The tier that the conditions of a pool speak of, so that an event is told when it changes and not after every
    /// restart.
    pub fn told(conditions: &[Condition]) -> Self {
        let holds = |type_: &str| {
            conditions
                .iter()
                .any(|held| held.type_ == type_ && held.status == "True")
        };
        let told = TIERS
            .iter()
            .rev()
            .find(|(_, condition, ..)| holds(condition));
        told.map_or(Self::Fine, |(tier, ..)| *tier)
    }
}

/// Addresses that are in use, by tenants or by the platform.
fn used(figures: &Figures) -> u128 {
    figures
        .total
        .saturating_sub(figures.free)
        .saturating_sub(figures.resting)
}

/// Conditions and events of a pool that serves. `Ready` comes first.
pub(super) fn verdicts(
    spec: &Spec,
    world: &World,
    figures: &Figures,
    holders: usize,
    wrong: &[(String, Clash)],
) -> (Vec<Verdict>, Vec<Note>) {
    let mut notes = Vec::new();
    let (free, total) = (figures.free, figures.total);
    let ready = format!("{free} of {total} addresses are free; {holders} claims hold addresses");
    let mut verdicts = vec![Verdict::yes("Ready", "Ready", ready), consistent(wrong)];
    notes.extend(
        verdicts
            .iter()
            .filter(|verdict| verdict.reason.starts_with("Held"))
            .map(|verdict| warning(verdict.reason, &verdict.message)),
    );
    let tier = Tier::of(figures);
    for (each, condition, ..) in TIERS {
        verdicts.push(if tier >= each {
            let message = format!("{} of {total} addresses are in use", used(figures));
            Verdict::yes(condition, "UtilizationAboveThreshold", message)
        } else {
            Verdict::no(
                condition,
                "UtilizationBelowThreshold",
                "enough addresses are free",
            )
        });
    }
    if tier > world.tier {
        let reason = TIERS
            .iter()
            .find(|(each, ..)| *each == tier)
            .map_or("", |(_, _, event, _)| *event);
        let name = &spec.name;
        let used = used(figures);
        notes.push(warning(
            reason,
            &format!("{used} of {total} addresses of pool {name} are in use"),
        ));
    } else if tier == Tier::Fine && world.tier > Tier::Fine {
        notes.push(Note {
            warning: false,
            reason: "PoolCapacityRecovered",
            action: "Allocate",
            message: format!(
                "{free} of {total} addresses of pool {} are free again",
                spec.name
            ),
        });
    }
    (verdicts, notes)
}

/// Whether every claim has addresses of its own that the pool still covers.
fn consistent(wrong: &[(String, Clash)]) -> Verdict {
    let twice = wrong.iter().find_map(|(name, clash)| match clash {
        Clash::Held(address) => Some((name, address)),
        Clash::Closed(_) => None,
    });
    if let Some((name, address)) = twice {
        let message =
            format!("{address} is held by {name} and by another claim: delete one of the two");
        return Verdict::no("Consistent", "HeldTwice", message);
    }
    let outside: Vec<&str> = wrong.iter().map(|(name, _)| name.as_str()).collect();
    if let Some((_, Clash::Closed(address))) = wrong.first() {
        let message = format!(
            "{} hold addresses that are not for tenants any more, such as {address}; they keep them until they give them back",
            some(&outside)
        );
        return Verdict::no("Consistent", "HeldOutside", message);
    }
    Verdict::yes(
        "Consistent",
        "Consistent",
        "every address is held once, and inside the pool",
    )
}

/// What a pool that is being deleted waits for.
pub(super) fn deleting(world: &World) -> String {
    let names: Vec<&str> = holders(world)
        .map(|claim| claim.name.as_str())
        .chain(world.recorded.iter().map(|held| held.name.as_str()))
        .collect();
    if names.is_empty() {
        "nothing holds addresses of this pool any more".to_owned()
    } else {
        format!(
            "the pool goes when these IPAllocations are gone: {}",
            some(&names)
        )
    }
}

/// Some of many names.
fn some(names: &[&str]) -> String {
    let mut sorted = names.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let first: Vec<&str> = sorted.iter().take(NAMED).copied().collect();
    match sorted.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The words for a claim that gets nothing. Figures that move are left out: they are in the status of the pool.
pub(super) fn refusal(pool: &str, refusal: &Refusal) -> (&'static str, String) {
    match refusal {
        Refusal::Exhausted { asked, .. } => (
            "PoolExhausted",
            format!(
                "pool {pool} has not {asked} free addresses; they are given as soon as there are"
            ),
        ),
        Refusal::Fragmented { asked, .. } => (
            "PoolFragmented",
            format!(
                "pool {pool} has not {asked} free addresses side by side; they are given as soon as there are, or at \
                 once with allowMultipleRanges"
            ),
        ),
        Refusal::TooMany { .. } => ("PoolTooSmall", refusal.to_string()),
        Refusal::Outside { .. } | Refusal::Closed { .. } => ("InvalidRange", refusal.to_string()),
        Refusal::Held { .. } => ("RangeInUse", refusal.to_string()),
        Refusal::Resting { .. } => ("RangeResting", refusal.to_string()),
    }
}

pub(super) fn warning(reason: &'static str, message: &str) -> Note {
    Note {
        warning: true,
        reason,
        action: "Allocate",
        message: message.to_owned(),
    }
}
