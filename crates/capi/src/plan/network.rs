//! Whether a cluster's load balancers have addresses to give out.
//!
//! `Ready` does not hang on it, only its words do. A cluster can be used without load balancers, and one that was ready
//! does not stop being so because a pool ran dry. What cannot work without an address, such as an ingress controller, is an
//! addon that waits for it and counts as such.

use super::{Finding, Truth};
use crate::{
    addresses::{Claim, Draw, Facts, Room, Shortage, Source},
    reason::Reason,
};

pub(super) const KIND: &str = "NetworkReady";

/// Ranges that are listed before the rest is only counted.
const NAMED: usize = 8;

type Said = (Truth, Reason, String);

/// Nothing where the addresses would count and nobody looked.
pub(super) fn finding(source: &Source, seen: Option<&Facts>) -> Option<Finding> {
    let holds = |reason, message: &str| (Truth::True, reason, message.to_owned());
    let (status, reason, message) = match source {
        Source::Own(ranges) => {
            let message = format!("the cluster brings its own addresses: {ranges}");
            (Truth::True, Reason::OwnAddresses, message)
        }
        Source::Provider => holds(
            Reason::CloudNetworking,
            "the provider gives addresses itself",
        ),
        Source::Agent => holds(
            Reason::LocalNetworking,
            "the agent of the local platform gives addresses",
        ),
        Source::Pools(draw) => drawn(draw, seen?),
    };
    Some(Finding {
        kind: KIND,
        status,
        reason,
        message,
    })
}

fn drawn(draw: &Draw, seen: &Facts) -> Said {
    let waits = seen.claims.iter().find(|claim| claim.ranges.is_empty());
    let given: Vec<&str> = seen
        .claims
        .iter()
        .flat_map(|claim| &claim.ranges)
        .map(String::as_str)
        .collect();
    match (given.is_empty(), waits) {
        (false, Some(claim)) => {
            let message = format!("{}; more are waited for: {}", usable(&given), words(claim));
            (Truth::True, Reason::Allocated, message)
        }
        (false, None) => match seen.shortage {
            None => (Truth::True, Reason::Allocated, usable(&given)),
            Some(shortage) => {
                let (reason, why) = short(draw, shortage);
                let message = format!(
                    "{}, and load balancers wait for more: {why}",
                    usable(&given)
                );
                (Truth::False, reason, message)
            }
        },
        (true, Some(claim)) => waiting(draw, claim),
        (true, None) if draw.count == 0 => seen.shortage.map_or_else(not_needed, |shortage| {
            let (reason, why) = short(draw, shortage);
            let message = format!("load balancers wait for an address: {why}");
            (Truth::False, reason, message)
        }),
        (true, None) => unasked(draw, &seen.pools),
    }
}

fn not_needed() -> Said {
    let message = "nothing in the cluster asks for addresses";
    (Truth::True, Reason::NotNeeded, message.to_owned())
}

fn usable(given: &[&str]) -> String {
    format!("load balancers may use {}", some(given))
}

/// Why no more can be had, and what can be done about it.
fn short(draw: &Draw, shortage: Shortage) -> (Reason, String) {
    let provider = &draw.provider;
    let (reason, remedy) = match shortage {
        Shortage::NoRoom(_) => (
            Reason::PoolExhausted,
            "give a pool more addresses, or name another in spec.network.poolRefs",
        ),
        Shortage::AtMost => (
            Reason::QuotaReached,
            "delete some, or raise spec.network.quotaPerTenant.maxLoadBalancerIPs",
        ),
    };
    (
        reason,
        format!("{shortage}; {remedy} of ProviderConfig {provider}"),
    )
}

/// There is a claim, and it has nothing yet.
fn waiting(draw: &Draw, claim: &Claim) -> Said {
    let Claim { name, pool, .. } = claim;
    let provider = &draw.provider;
    let (reason, remedy) = match claim.reason.as_str() {
        "PoolExhausted" | "PoolFragmented" | "PoolTooSmall" => (
            Reason::PoolExhausted,
            format!(
                "; give NetworkPool {pool} more addresses, or delete IPAllocation {name} once another pool of ProviderConfig {provider} has room"
            ),
        ),
        "PoolNotFound" | "PoolNotReady" => (
            Reason::NoPool,
            format!(
                "; make NetworkPool {pool} or put it right, or delete IPAllocation {name} once ProviderConfig {provider} names another"
            ),
        ),
        _ => (Reason::Pending, String::new()),
    };
    (Truth::False, reason, format!("{}{remedy}", words(claim)))
}

fn words(claim: &Claim) -> String {
    let Claim { name, message, .. } = claim;
    if message.is_empty() {
        format!("IPAllocation {name} waits for its pool")
    } else {
        format!("IPAllocation {name}: {message}")
    }
}

/// There is no claim, because no pool could serve it or because it is about to be made. Figures that move are left out:
/// every grant would rewrite every cluster that waits.
fn unasked(draw: &Draw, pools: &[(String, Room)]) -> Said {
    let Draw { provider, count } = draw;
    let is_any = |room: Room| pools.iter().any(|(_, has)| *has == room);
    if is_any(Room::Enough) {
        let message = format!("{count} addresses are being asked for");
        return (Truth::False, Reason::Pending, message);
    }
    let mut parts: Vec<String> = pools
        .iter()
        .map(|(name, room)| match room {
            Room::Missing => format!("there is no NetworkPool {name}"),
            Room::Closed => format!("NetworkPool {name} is not ready, its conditions say why"),
            Room::Full | Room::Enough => {
                format!("NetworkPool {name} has not {count} free addresses side by side")
            }
        })
        .collect();
    if parts.is_empty() {
        parts.push(format!("ProviderConfig {provider} names no NetworkPool"));
    }
    let another = format!("name another in spec.network.poolRefs of ProviderConfig {provider}");
    let (reason, remedy) = if is_any(Room::Full) {
        let remedy = format!("give a pool more addresses, or {another}");
        (Reason::PoolExhausted, remedy)
    } else {
        (
            Reason::NoPool,
            format!("make the pool or put it right, or {another}"),
        )
    };
    (
        Truth::False,
        reason,
        format!("{}; {remedy}", parts.join("; ")),
    )
}

/// Some of many ranges.
fn some(ranges: &[&str]) -> String {
    let first: Vec<&str> = ranges.iter().take(NAMED).copied().collect();
    match ranges.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
