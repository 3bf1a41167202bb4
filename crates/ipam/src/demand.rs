//! When a tenant's load-balancer addresses grow and shrink, and which pool the next ones come from.
//!
//! Growth follows Services that wait, not a guess: a Service counts once it has waited for a while, is ours to serve,
//! and no address that the tenant already has could serve it. Shrinking follows the time that a block was not used,
//! not its age.

use jiff::{SignedDuration, Timestamp};

/// How eagerly addresses follow the demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How many addresses to add at least.
    pub increment: u32,
    /// The most that one tenant may have.
    pub most: Option<u32>,
    /// How long a Service waits before it counts.
    pub patience: SignedDuration,
    /// How long a block is unused before it is given back.
    pub idle: SignedDuration,
}

impl Policy {
    /// The usual patience: half a minute to grow, ten minutes to shrink.
    pub fn new(increment: u32, most: Option<u32>) -> Self {
        Self {
            increment,
            most,
            patience: SignedDuration::from_secs(30),
            idle: SignedDuration::from_mins(10),
        }
    }
}

/// A load-balancer Service without an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Since when it is there.
    pub since: Timestamp,
    /// Whether another load balancer's class is on it, or it asks for an address of its own choice: more addresses
    /// would not help it.
    pub foreign: bool,
}

/// Addresses that a tenant has or is about to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What it is called.
    pub name: String,
    /// How many addresses.
    pub count: u32,
    /// How many of them a Service uses.
    pub used: u32,
    /// Whether the addresses are there yet.
    pub granted: bool,
    /// Whether it may be given back: added by growth, and nobody chose its addresses.
    pub growth: bool,
    /// Since when no Service uses it, as noted the last time.
    pub unused_since: Option<Timestamp>,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Add a block of this many addresses.
    pub grow: Option<u32>,
    /// Give these blocks back.
    pub shrink: Vec<String>,
    /// Note since when these blocks are unused, or that they are used again.
    pub notes: Vec<(String, Option<Timestamp>)>,
    /// How many addresses are missing that the tenant may not have.
    pub denied: u32,
    /// When to look again although nothing changed.
    pub again: Option<Timestamp>,
}

/// Decides what follows from the Services that wait and the blocks that are there.
pub fn decide(policy: &Policy, blocks: &[Block], waiting: &[Waiting], now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let mut again: Vec<Timestamp> = Vec::new();
    let ours = waiting.iter().filter(|service| !service.foreign);
    let mut demand: u32 = 0;
    for service in ours.clone() {
        let counts_at = service
            .since
            .saturating_add(policy.patience)
            .unwrap_or(Timestamp::MAX);
        if counts_at <= now {
            demand = demand.saturating_add(1);
        } else {
            again.push(counts_at);
        }
    }
    // Blocks on their way count too, or every look would order another one.
    let supply = sum(blocks
        .iter()
        .map(|block| block.count.saturating_sub(block.used)));
    let missing = demand.saturating_sub(supply);
    if missing > 0 {
        let wanted = missing.max(policy.increment);
        let had = sum(blocks.iter().map(|block| block.count));
        let room = policy
            .most
            .map_or(u32::MAX, |most| most.saturating_sub(had));
        decision.grow = Some(wanted.min(room)).filter(|count| *count > 0);
        decision.denied = missing.saturating_sub(room);
    }
    for block in blocks.iter().filter(|block| block.growth && block.granted) {
        let unused = (block.used == 0).then(|| block.unused_since.unwrap_or(now));
        if unused != block.unused_since {
            decision.notes.push((block.name.clone(), unused));
        }
        let Some(since) = unused else { continue };
        let over = since.saturating_add(policy.idle).unwrap_or(Timestamp::MAX);
        if over > now {
            again.push(over);
        } else if ours.clone().next().is_none() {
            // Not while a Service waits: it may be about to take one of these.
            decision.shrink.push(block.name.clone());
        }
    }
    decision
        .notes
        .retain(|(name, _)| !decision.shrink.contains(name));
    decision.again = again.into_iter().min();
    decision
}

fn sum(counts: impl Iterator<Item = u32>) -> u32 {
    counts.fold(0, u32::saturating_add)
}

/// What is known of a pool that addresses could come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Lower is used first.
    pub priority: i32,
    /// Whether it hands out addresses at all.
    pub ready: bool,
    /// Free addresses.
    pub available: u128,
    /// Free addresses side by side.
    pub largest: u128,
}

/// The pool to draw `count` addresses from: of the lowest priority that has room, the one whose longest run fits
/// best, so that long runs are kept for those who need them.
pub fn choose(candidates: &[Candidate], count: u128) -> Option<&Candidate> {
    let fitting = candidates
        .iter()
        .filter(|pool| pool.ready && pool.largest >= count);
    fitting.min_by(|a, b| {
        let key = |pool: &Candidate| (pool.priority, pool.largest);
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    })
}

/// For how many more tenants the pools last, if each takes `block` addresses side by side and `single` others.
pub fn estimate(candidates: &[Candidate], block: u128, single: u128) -> u128 {
    let each = block.saturating_add(single).max(1);
    let fitting = candidates
        .iter()
        .filter(|pool| pool.ready && pool.largest >= block.max(1));
    fitting
        .map(|pool| pool.available / each)
        .fold(0, u128::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn block(name: &str, count: u32, used: u32) -> Block {
        Block {
            name: name.to_owned(),
            count,
            used,
            granted: true,
            growth: true,
            unused_since: None,
        }
    }

    fn waiting(since: i64) -> Waiting {
        Waiting {
            since: at(since),
            foreign: false,
        }
    }

    fn policy() -> Policy {
        Policy::new(2, Some(10))
    }

    #[test]
    fn a_service_counts_after_half_a_minute_and_is_looked_at_then() {
        let early = decide(&policy(), &[], &[waiting(100)], at(129));
        assert_eq!((early.grow, early.again), (None, Some(at(130))));
        let late = decide(&policy(), &[], &[waiting(100)], at(130));
        assert_eq!(late.grow, Some(2));
    }

    #[test]
    fn services_of_another_class_never_make_the_pool_grow() {
        let foreign = Waiting {
            foreign: true,
            ..waiting(0)
        };
        assert_eq!(
            decide(&policy(), &[], &[foreign], at(999)),
            Decision::default()
        );
    }

    #[test]
    fn free_addresses_of_any_block_and_blocks_on_their_way_are_supply() {
        let initial = Block {
            growth: false,
            ..block("initial", 2, 1)
        };
        let on_its_way = Block {
            granted: false,
            ..block("one", 2, 0)
        };
        let services = [waiting(0), waiting(0), waiting(0), waiting(0)];
        let blocks = [initial, on_its_way];
        assert_eq!(
            decide(&policy(), &blocks, &services[..3], at(60)).grow,
            None
        );
        assert_eq!(decide(&policy(), &blocks, &services, at(60)).grow, Some(2));
    }

    #[test]
    fn a_tenant_never_gets_more_than_its_share_and_what_is_denied_is_counted() {
        let services = [waiting(0); 5];
        let some = decide(&policy(), &[block("one", 8, 8)], &services, at(60));
        assert_eq!((some.grow, some.denied), (Some(2), 3));
        let none = decide(&policy(), &[block("one", 10, 10)], &services, at(60));
        assert_eq!((none.grow, none.denied), (None, 5));
    }

    #[test]
    fn a_block_goes_after_ten_minutes_unused_however_old_it_is() {
        let first = decide(&policy(), &[block("one", 2, 0)], &[], at(5_000));
        assert_eq!(first.notes, [("one".to_owned(), Some(at(5_000)))]);
        assert_eq!((first.shrink.len(), first.again), (0, Some(at(5_600))));
        let noted = Block {
            unused_since: Some(at(5_000)),
            ..block("one", 2, 0)
        };
        let later = decide(&policy(), std::slice::from_ref(&noted), &[], at(5_599));
        assert!(later.shrink.is_empty() && later.notes.is_empty());
        assert_eq!(decide(&policy(), &[noted], &[], at(5_600)).shrink, ["one"]);
    }

    #[test]
    fn a_block_that_is_used_again_starts_over_and_one_that_is_waited_for_stays() {
        let noted = Block {
            unused_since: Some(at(0)),
            ..block("one", 2, 1)
        };
        let used = decide(&policy(), std::slice::from_ref(&noted), &[], at(9_000));
        assert_eq!(used.notes, [("one".to_owned(), None)]);
        assert!(used.shrink.is_empty());
        let unused = Block { used: 0, ..noted };
        let waited_for = decide(&policy(), &[unused], &[waiting(8_990)], at(9_000));
        assert!(waited_for.shrink.is_empty());
    }

    #[test]
    fn blocks_that_growth_did_not_add_are_never_given_back() {
        let initial = Block {
            growth: false,
            unused_since: Some(at(0)),
            ..block("initial", 2, 0)
        };
        assert_eq!(
            decide(&policy(), &[initial], &[], at(99_999)),
            Decision::default()
        );
    }

    fn candidate(name: &str, priority: i32, available: u128, largest: u128) -> Candidate {
        Candidate {
            name: name.to_owned(),
            priority,
            ready: true,
            available,
            largest,
        }
    }

    #[test]
    fn priority_comes_first_and_then_the_best_fit() {
        let pools = [
            candidate("late", 9, 8, 8),
            candidate("roomy", 1, 100, 100),
            candidate("snug", 1, 100, 10),
            candidate("fragmented", 0, 500, 4),
        ];
        let name = |count| choose(&pools, count).map(|pool| pool.name.as_str());
        assert_eq!(name(4), Some("fragmented"));
        assert_eq!(name(8), Some("snug"));
        assert_eq!(name(50), Some("roomy"));
        assert_eq!(name(500), None);
    }

    #[test]
    fn a_fragmented_pool_is_no_room_for_tenants() {
        let pools = [candidate("a", 0, 260, 100), candidate("b", 0, 1000, 4)];
        assert_eq!(estimate(&pools, 8, 5), 20);
        assert_eq!(estimate(&pools, 4, 0), 65 + 250);
    }
}
