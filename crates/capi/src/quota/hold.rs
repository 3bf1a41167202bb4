//! A cluster that may not grow: its spec, cut down to what was granted.

use std::borrow::Cow;

use super::{Excess, PoolSize};
use crate::{
    observe::Observed,
    spec::{Machine, Pool, Size, TenantSpec},
};

/// The spec that is carried out, and what is against the one that was asked for.
pub(crate) fn held<'a>(
    spec: &'a TenantSpec,
    observed: &Observed,
) -> (Cow<'a, TenantSpec>, Vec<Excess>) {
    let mut spec = Cow::Borrowed(spec);
    let mut against = Vec::new();
    if let Some(hold) = &observed.quota.hold {
        let pools = spec.pools.iter().filter_map(|pool| {
            let granted = hold.sizes.0.get(&pool.name)?;
            Some(cut(pool, granted))
        });
        spec.to_mut().pools = pools.collect();
        against.push(hold.excess.clone());
    }
    let runs = observed.control_plane.as_ref().map(|held| held.wanted);
    if let (Some(excess), Some(runs)) = (&observed.quota.version, runs)
        && runs != spec.version
    {
        spec.to_mut().version = runs;
        against.push(excess.clone());
    }
    (spec, against)
}

/// A pool that is smaller than granted shrinks all the same.
fn cut(pool: &Pool, granted: &PoolSize) -> Pool {
    let most = granted.most;
    let Machine { cpu, memory, disk } = pool.machine;
    let fits = cpu <= granted.cpu && memory <= granted.memory && disk <= granted.disk;
    Pool {
        size: match pool.size {
            Size::Fixed(count) => Size::Fixed(count.min(most)),
            Size::Between { min, max } => Size::Between {
                min: min.min(most),
                max: max.min(most),
            },
        },
        machine: if fits {
            pool.machine
        } else {
            Machine {
                cpu: granted.cpu,
                memory: granted.memory,
                disk: granted.disk,
            }
        },
        ..pool.clone()
    }
}
