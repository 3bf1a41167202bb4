//! The status of a pool. Pure.

use butler_api::{
    butler::{
        NetworkPool,
        network_pool::{Grant, NetworkPoolStatus, UnmanagedRange},
    },
    types::AddressRange,
};
use butler_runtime::conditions;
use jiff::Timestamp;

use super::{Invalid, Plan, Recorded, Spec, World};

/// Entries that the lists of a status hold at most.
const PARTS: usize = 256;
const SEEN: usize = 4096;

/// The status to report. While the spec is wrong the figures stay as they were: they are about what is held.
pub(super) fn status(
    pool: &NetworkPool,
    spec: &Result<Spec, Invalid>,
    world: &World,
    plan: &Plan,
    now: Timestamp,
) -> NetworkPoolStatus {
    let held = pool.status.clone().unwrap_or_default();
    let generation = pool.metadata.generation;
    let conditions = conditions::settle(&held.conditions, &plan.verdicts, generation, now);
    let grants = plan.record.iter().map(grant).collect();
    let (Ok(spec), Some(figures)) = (spec, &plan.figures) else {
        return NetworkPoolStatus {
            observed_generation: generation,
            conditions,
            grants,
            ..held
        };
    };
    let layout = &spec.layout;
    let unmanaged = layout
        .unmanaged()
        .iter()
        .map(|part| part.size())
        .fold(0, u128::saturating_add);
    NetworkPoolStatus {
        observed_generation: generation,
        conditions,
        total_ips: Some(number(figures.total)),
        allocated_ips: Some(number(figures.held)),
        available_ips: Some(number(figures.free)),
        resting_ips: Some(number(figures.resting)),
        allocation_count: i64::try_from(plan.holders).ok(),
        largest_free_block: Some(number(figures.largest)),
        fragmentation_percent: Some(figures.fragmentation.into()),
        pool_size_ips: Some(number(layout.size())),
        reserved_ips: Some(number(layout.reserved())),
        infrastructure_allocations: world.infrastructure.iter().take(SEEN).cloned().collect(),
        infrastructure_consumed_ips: i64::try_from(world.infrastructure.len()).ok(),
        unmanaged_ranges: layout.unmanaged().iter().take(PARTS).map(part).collect(),
        unmanaged_scope_ips: Some(number(unmanaged)),
        grants,
    }
}

/// As large as the field can show.
fn number(count: u128) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn grant(recorded: &Recorded) -> Grant {
    Grant {
        name: recorded.name.clone(),
        uid: recorded.uid.clone(),
        ranges: recorded.ranges.iter().map(ToString::to_string).collect(),
    }
}

fn part(range: &AddressRange) -> UnmanagedRange {
    UnmanagedRange {
        start: range.start().to_string(),
        end: range.end().to_string(),
    }
}
