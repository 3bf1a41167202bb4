//! What a pool has to do: who gets which addresses next, what is said about it, when to look again. Pure.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use butler_api::{
    butler::{ip_allocation::AllocationType, network_pool::InfrastructureAllocation},
    types::AddressRange,
};
use butler_ipam::{Clash, Figures, Pool, Refusal, Request};
use butler_runtime::{conditions::Verdict, controller::Wake, events::Note};
use jiff::Timestamp;

use super::{
    claim::{Claim, Owner, State},
    say,
    validate::{Invalid, Spec},
};

/// Grants of one pass: enough to be quick, few enough that a pass is short and the record small.
pub const BATCH: usize = 128;
/// A little more than the time until something rests no longer: waking early would be for nothing.
const SLACK: Duration = Duration::from_millis(50);
/// No timer is set further ahead.
const LONGEST: Duration = Duration::from_hours(1);

/// What was observed.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Claims on this pool.
    pub claims: Vec<Claim>,
    /// Grants that were recorded and not yet seen on their claims.
    pub recorded: Vec<Recorded>,
    /// Addresses that the platform itself was seen to use.
    pub infrastructure: Vec<InfrastructureAllocation>,
    /// Addresses that claims on other pools hold.
    pub elsewhere: Vec<AddressRange>,
    /// Older pools that hand out some of the same addresses.
    pub rivals: Vec<String>,
    /// The tier of use that was last told.
    pub tier: say::Tier,
}

/// A grant that is written down before it counts.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Recorded {
    /// Name of the claim.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// The addresses.
    pub ranges: Vec<AddressRange>,
}

/// Addresses for a claim.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Grant {
    /// Which claim, and what it gets.
    pub what: Recorded,
    /// UID of the owner, to be written down with it.
    pub owner: String,
}

/// No addresses for a claim, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Refused {
    /// Identity of the claim.
    pub uid: String,
    /// Whether it waits for something that is on its way, or cannot be served as things are.
    pub waiting: bool,
    /// One word for programs.
    pub reason: &'static str,
    /// A sentence for people. It holds no figure that moves, or every grant would rewrite every claim that waits.
    pub message: String,
}

/// What to do, completely.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Whether the pool may go now.
    pub release: bool,
    /// What has to be written down first.
    pub record: Vec<Recorded>,
    /// Who gets what.
    pub grants: Vec<Grant>,
    /// Who gets nothing.
    pub refusals: Vec<Refused>,
    /// How much is what; nothing while the spec is wrong.
    pub figures: Option<Figures>,
    /// How many claims hold addresses.
    pub holders: usize,
    /// The conditions to report.
    pub verdicts: Vec<Verdict>,
    /// What to tell people.
    pub notes: Vec<Note>,
    /// When to look again.
    pub wake: Wake,
}

/// Decides. `spec` is what is wrong with it where it is wrong: then nothing is handed out and nothing is lost.
pub fn plan(spec: &Result<Spec, Invalid>, world: &World, now: Timestamp) -> Plan {
    match spec {
        Ok(spec) => serve(spec, world, now),
        Err(invalid) => stop(world, "ValidationFailed", &invalid.to_string()),
    }
}

/// Nothing is handed out; what is held stays held.
fn stop(world: &World, reason: &'static str, message: &str) -> Plan {
    let refusals = waiting(world).map(|claim| Refused {
        uid: claim.uid.clone(),
        waiting: true,
        reason: "PoolNotReady",
        message: format!("the pool hands out nothing: {message}"),
    });
    Plan {
        release: false,
        record: world.recorded.clone(),
        grants: Vec::new(),
        refusals: refusals.collect(),
        figures: None,
        holders: holders(world).count(),
        verdicts: vec![Verdict::no("Ready", reason, message)],
        notes: vec![say::warning(reason, message)],
        wake: Wake::OnChange,
    }
}

fn serve(spec: &Spec, world: &World, now: Timestamp) -> Plan {
    let mut pool = Pool::new(spec.layout.clone());
    let wrong = fill(&mut pool, spec, world, now);
    let record = unconfirmed(world);
    let (grants, refusals) = match blocked(spec, world) {
        Some((reason, message)) => (Vec::new(), refuse_all(world, reason, &message)),
        None => grant(&mut pool, spec, world, &record),
    };
    let figures = pool.figures();
    let mut written = record.clone();
    for grant in &grants {
        if !written.iter().any(|held| held.uid == grant.what.uid) {
            written.push(grant.what.clone());
        }
    }
    let holders = holders(world).count() + written.len();
    let (mut verdicts, notes) = say::verdicts(spec, world, &figures, holders, &wrong);
    if let Some((reason, message)) = blocked(spec, world)
        && let Some(ready) = verdicts.first_mut()
    {
        *ready = Verdict::no("Ready", reason, message);
    }
    Plan {
        release: spec.deleting && holders == 0,
        record: written,
        grants,
        refusals,
        figures: Some(figures),
        holders,
        verdicts,
        notes,
        wake: pool.soonest().map_or(Wake::OnChange, |then| {
            let left = Duration::try_from(then.duration_since(now)).unwrap_or_default();
            Wake::After((left + SLACK).min(LONGEST))
        }),
    }
}

/// Why nothing may be handed out at all.
fn blocked(spec: &Spec, world: &World) -> Option<(&'static str, String)> {
    if spec.deleting {
        return Some(("Deleting", say::deleting(world)));
    }
    let rival = world.rivals.first()?;
    let message = format!(
        "NetworkPool {rival} hands out some of the same addresses: change the ranges of one of the two"
    );
    Some(("Overlap", message))
}

/// Puts everything into the pool that is not free: what is held, promised, seen in use, or resting.
fn fill(pool: &mut Pool, spec: &Spec, world: &World, now: Timestamp) -> Vec<(String, Clash)> {
    let mut wrong = Vec::new();
    for claim in holders(world) {
        for range in claim.held() {
            wrong.extend(pool.occupy(*range).map(|clash| (claim.name.clone(), clash)));
        }
    }
    for promised in unconfirmed(world) {
        for range in promised.ranges {
            wrong.extend(
                pool.occupy(range)
                    .map(|clash| (promised.name.clone(), clash)),
            );
        }
    }
    for seen in &world.infrastructure {
        if let Ok(range) = AddressRange::parse(&seen.ip, &seen.ip) {
            pool.block(range);
        }
    }
    // Longest first: where two had the same addresses one after the other, the later one decides.
    let mut resting: Vec<(Timestamp, &Claim, &[AddressRange])> = world
        .claims
        .iter()
        .filter_map(|claim| match &claim.state {
            State::Released(ranges, at) => {
                let until = at.saturating_add(spec.rest).unwrap_or(Timestamp::MAX);
                (until > now).then_some((until, claim, ranges.as_slice()))
            }
            State::Waiting | State::Holding(_) => None,
        })
        .collect();
    resting.sort_by_key(|(until, claim, _)| (std::cmp::Reverse(*until), claim.uid.clone()));
    for (until, claim, ranges) in resting {
        for range in ranges {
            pool.rest(*range, &claim.tenant(), until);
        }
    }
    for range in &world.elsewhere {
        pool.block(*range);
    }
    wrong
}

/// Serves those who wait, first come first. Who cannot be served does not hold up those behind.
fn grant(
    pool: &mut Pool,
    spec: &Spec,
    world: &World,
    record: &[Recorded],
) -> (Vec<Grant>, Vec<Refused>) {
    let promised: HashMap<&str, &Recorded> = record
        .iter()
        .map(|held| (held.uid.as_str(), held))
        .collect();
    let before = had_before(world);
    let (mut grants, mut refusals) = (Vec::new(), Vec::new());
    let room = BATCH.saturating_sub(record.len());
    let mut fresh = 0;
    for claim in waiting(world) {
        let owner = match &claim.owner {
            Owner::Known(owner) => owner.clone(),
            Owner::Missing(name) => {
                refusals.push(no_owner(claim, format!("{name} does not exist yet")));
                continue;
            }
            Owner::Gone(uid) => {
                let message =
                    format!("the owner with UID {uid} is gone; this claim is being removed");
                refusals.push(no_owner(claim, message));
                continue;
            }
        };
        let found = match promised.get(claim.uid.as_str()) {
            Some(promised) => Ok(promised.ranges.clone()),
            None if fresh >= room => continue,
            None => {
                fresh += 1;
                ask(pool, spec, claim, &before)
            }
        };
        match found {
            Ok(ranges) => grants.push(Grant {
                what: Recorded {
                    name: claim.name.clone(),
                    uid: claim.uid.clone(),
                    ranges,
                },
                owner,
            }),
            Err((reason, message)) => {
                fresh = fresh.saturating_sub(1);
                refusals.push(Refused {
                    uid: claim.uid.clone(),
                    waiting: false,
                    reason,
                    message,
                });
            }
        }
    }
    (grants, refusals)
}

fn ask(
    pool: &mut Pool,
    spec: &Spec,
    claim: &Claim,
    before: &BTreeMap<String, Vec<AddressRange>>,
) -> Result<Vec<AddressRange>, (&'static str, String)> {
    let tenant = claim.tenant();
    match &claim.pinned {
        Some(Err(wrong)) => Err(("InvalidRange", format!("spec.pinnedRange: {wrong}"))),
        Some(Ok(range)) => {
            let count = claim.count.unwrap_or_else(|| range.size());
            if count != range.size() {
                let message = format!(
                    "spec.pinnedRange has {} addresses and spec.count is {count}: make them agree, or leave the count out",
                    range.size()
                );
                return Err(("InvalidRange", message));
            }
            let pinned = pool.pin(*range, &tenant).map(|range| vec![range]);
            pinned.map_err(|refusal| say::refusal(&spec.name, &refusal))
        }
        None => {
            let count = claim.count.unwrap_or(match claim.purpose {
                AllocationType::Loadbalancer => spec.load_balancers,
                AllocationType::Nodes => spec.nodes,
            });
            let request = Request {
                count,
                owner: &tenant,
                prefer: before.get(&tenant).map(Vec::as_slice).unwrap_or_default(),
                several: claim.several,
            };
            let got = pool.allocate(&request);
            got.map_err(|refusal: Refusal| say::refusal(&spec.name, &refusal))
        }
    }
}

/// What each tenant gave back last.
fn had_before(world: &World) -> BTreeMap<String, Vec<AddressRange>> {
    let mut last: BTreeMap<String, (Timestamp, &[AddressRange])> = BTreeMap::new();
    for claim in &world.claims {
        if let State::Released(ranges, at) = &claim.state {
            let held = last.entry(claim.tenant()).or_insert((*at, ranges));
            if held.0 < *at {
                *held = (*at, ranges);
            }
        }
    }
    last.into_iter()
        .map(|(tenant, (_, ranges))| (tenant, ranges.to_vec()))
        .collect()
}

fn no_owner(claim: &Claim, message: String) -> Refused {
    Refused {
        uid: claim.uid.clone(),
        waiting: true,
        reason: "OwnerMissing",
        message,
    }
}

fn refuse_all(world: &World, reason: &'static str, message: &str) -> Vec<Refused> {
    waiting(world)
        .map(|claim| Refused {
            uid: claim.uid.clone(),
            waiting: true,
            reason: "PoolNotReady",
            message: match reason {
                "Deleting" => "the pool is being deleted".to_owned(),
                _ => format!("the pool hands out nothing: {message}"),
            },
        })
        .collect()
}

/// Claims that hold addresses.
pub(super) fn holders(world: &World) -> impl Iterator<Item = &Claim> {
    world.claims.iter().filter(|claim| !claim.held().is_empty())
}

/// Claims that wait, oldest first.
fn waiting(world: &World) -> impl Iterator<Item = &Claim> {
    let mut waiting: Vec<&Claim> = world
        .claims
        .iter()
        .filter(|claim| claim.state == State::Waiting && !claim.deleting)
        .collect();
    waiting.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    waiting.into_iter()
}

/// Recorded grants that their claims do not show yet. What was recorded stays promised until its claim shows it, or
/// is known to be gone: only then can no earlier holder of the lease still write it.
fn unconfirmed(world: &World) -> Vec<Recorded> {
    let seen: HashMap<&str, &Claim> = world
        .claims
        .iter()
        .map(|claim| (claim.uid.as_str(), claim))
        .collect();
    let open = world.recorded.iter().filter(|held| {
        seen.get(held.uid.as_str())
            .is_some_and(|claim| claim.state == State::Waiting)
    });
    open.cloned().collect()
}

#[cfg(test)]
mod tests;
