//! What a cluster takes of limited things, at its largest.

use butler_api::types::Quantity;
use serde::Serialize;

use crate::{
    addresses,
    spec::{Exposure, TenantSpec},
};

/// What a cluster takes of limited things.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Uses {
    /// Workers.
    pub nodes: u32,
    /// CPUs of the workers.
    pub cpu: Option<Quantity>,
    /// Memory of the workers.
    pub memory: Option<Quantity>,
    /// Disks of the workers.
    pub disk: Option<Quantity>,
    /// Addresses of machines that Butler hands out, also of those that are there only while others are replaced.
    pub machine_addresses: u32,
    /// Addresses of the cluster's own load balancers.
    pub load_balancer_addresses: u32,
    /// Addresses of the API server.
    pub api_addresses: u32,
}

pub(super) fn of(spec: &TenantSpec) -> Uses {
    let mut uses = Uses {
        load_balancer_addresses: spec.network.load_balancer_addresses,
        api_addresses: u32::from(spec.control_plane.exposure == Exposure::LoadBalancer),
        machine_addresses: addresses::for_machines(spec).unwrap_or_default(),
        ..Uses::default()
    };
    let add = |sum: Option<Quantity>, each: Quantity, times: u32| {
        let more = each.checked_mul(times)?;
        sum.map_or(Some(more), |sum| sum.checked_add(more))
    };
    for pool in &spec.pools {
        let (most, machine) = (pool.size.most(), &pool.machine);
        let cpu = Quantity::from_milli(i128::from(machine.cpu) * 1000);
        uses.nodes = uses.nodes.saturating_add(most);
        uses.cpu = add(uses.cpu, cpu, most);
        uses.memory = add(uses.memory, machine.memory, most);
        uses.disk = add(uses.disk, machine.disk, most);
    }
    uses
}
