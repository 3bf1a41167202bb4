//! How large the pools of a cluster are at their largest: what is asked for, and what was granted.

use std::collections::BTreeMap;

use butler_api::{
    butler::tenant_cluster::{DEFAULT_POOL, MachineTemplate, TenantClusterSpec},
    types::Quantity,
};
use serde::{Deserialize, Serialize};

use crate::spec::Pool;

/// How large one pool is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSize {
    /// The most workers it may have.
    pub most: u32,
    /// CPUs of one.
    pub cpu: u32,
    /// Memory of one.
    pub memory: Quantity,
    /// Disk of one.
    pub disk: Quantity,
}

/// The pools of a cluster by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sizes(pub BTreeMap<String, PoolSize>);

/// What clusters take altogether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Workers.
    pub nodes: u32,
    /// Their CPUs.
    pub cpu: Quantity,
    /// Their memory.
    pub memory: Quantity,
    /// Their disks.
    pub disk: Quantity,
}

impl Total {
    /// The same with one more cluster.
    #[must_use]
    pub fn with(self, sizes: &Sizes) -> Self {
        let one = sizes.total();
        Self {
            nodes: self.nodes.saturating_add(one.nodes),
            cpu: more(self.cpu, one.cpu),
            memory: more(self.memory, one.memory),
            disk: more(self.disk, one.disk),
        }
    }
}

impl Sizes {
    /// What a checked spec asks for.
    pub fn of(pools: &[Pool]) -> Self {
        let sizes = pools.iter().map(|pool| {
            let size = PoolSize {
                most: pool.size.most(),
                cpu: pool.machine.cpu,
                memory: pool.machine.memory,
                disk: pool.machine.disk,
            };
            (pool.name.clone(), size)
        });
        Self(sizes.collect())
    }

    /// What a raw spec asks for; nothing when it cannot be read, since then nothing is made of it either.
    pub fn asked(spec: &TenantClusterSpec) -> Option<Self> {
        let mut sizes = BTreeMap::new();
        for pool in &spec.worker_pools {
            let most = pool.replicas.or(pool.max_replicas)?;
            sizes.insert(pool.name.clone(), size(most, &pool.machine_template)?);
        }
        let workers = &spec.workers;
        if workers.replicas > 0 || sizes.is_empty() {
            let own = size(workers.replicas, &workers.machine_template)?;
            sizes.insert(DEFAULT_POOL.to_owned(), own);
        }
        Some(Self(sizes))
    }

    /// What that is altogether.
    pub(super) fn total(&self) -> Total {
        let mut total = Total::default();
        for size in self.0.values() {
            let cpu = Quantity::from_milli(i128::from(size.cpu) * 1000);
            total.nodes = total.nodes.saturating_add(size.most);
            total.cpu = more(total.cpu, times(cpu, size.most));
            total.memory = more(total.memory, times(size.memory, size.most));
            total.disk = more(total.disk, times(size.disk, size.most));
        }
        total
    }
}

/// Amounts that nobody can count are above every limit.
const ENDLESS: Quantity = Quantity::from_milli(i128::MAX);

/// The sum, written as the second is: the first may be nothing yet.
pub(super) fn more(sum: Quantity, by: Quantity) -> Quantity {
    by.checked_add(sum).unwrap_or(ENDLESS)
}

fn times(each: Quantity, count: u32) -> Quantity {
    each.checked_mul(count).unwrap_or(ENDLESS)
}

fn size(most: i32, template: &MachineTemplate) -> Option<PoolSize> {
    let cpu = Quantity::try_from(&template.cpu).ok()?;
    Some(PoolSize {
        most: u32::try_from(most).ok()?,
        cpu: u32::try_from(cpu.ceil()).ok()?,
        memory: Quantity::try_from(&template.memory).ok()?,
        disk: Quantity::try_from(&template.disk_size).ok()?,
    })
}
