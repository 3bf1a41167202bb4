//! The claims that a cluster makes on its provider's pools: the first one, and those that come and go with the demand.
//! Pure; whoever reconciles clusters applies what is decided here.

use std::{collections::BTreeMap, net::IpAddr};

use butler_api::{
    butler::{
        IPAllocation,
        ip_allocation::{AllocationPhase, AllocationType, IPAllocationSpec},
        provider_config::{AllocationMode, ProviderNetwork},
    },
    common::{LocalRef, NamespacedRef},
    names,
};
use butler_capi::addresses::{Shortage, first_count, most};
use butler_ipam::demand::{self, Block, Candidate, Policy, Waiting};
use jiff::Timestamp;
use kube::{ResourceExt, api::ObjectMeta};

use crate::{namespaces::owned_labels, network_pool};

/// Value of the role label of a cluster's first claim.
pub const INITIAL: &str = "initial";
/// Value of the role label of a claim that was added on demand.
pub const GROWTH: &str = "growth";

/// The cluster that the addresses are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its identity.
    pub uid: String,
    /// How many addresses it asks for itself.
    pub wants: Option<u32>,
    /// Whether anything in it will ask for an address from the start, such as an ingress controller.
    pub needs_some: bool,
}

/// A load-balancer Service inside the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Since when it is there.
    pub since: Timestamp,
    /// Its addresses, none while it waits.
    pub addresses: Vec<IpAddr>,
    /// Whether another load balancer's class is on it, or an address that no pool of ours can give.
    pub foreign: bool,
}

/// What to do about a cluster's addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Claims to make.
    pub create: Vec<IPAllocation>,
    /// Claims to delete, by name.
    pub delete: Vec<String>,
    /// Since when claims are unused, by name, to be noted in their annotation.
    pub unused: Vec<(String, Option<Timestamp>)>,
    /// Why demand is not met.
    pub shortage: Option<Shortage>,
    /// When to look again although nothing changed.
    pub again: Option<Timestamp>,
}

/// Decides about all claims of a cluster. `claims` are those of this cluster by its UID, also those that go. While its
/// Services cannot be seen nothing grows, and nothing that may be in use is given back.
pub fn plan(
    network: &ProviderNetwork,
    tenant: &Tenant,
    pools: &[Candidate],
    claims: &[IPAllocation],
    services: Option<&[Demand]>,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    let live: Vec<&IPAllocation> = claims
        .iter()
        .filter(|claim| claim.metadata.deletion_timestamp.is_none())
        .collect();
    let count = first_count(network, tenant.wants, tenant.needs_some);
    if count > 0 && !live.iter().any(|claim| !is_growth(claim)) {
        place(&mut plan, tenant, pools, count, INITIAL, "0");
    }
    let sizes = network.load_balancer.clone().unwrap_or_default();
    let (AllocationMode::Elastic, Some(services)) = (sizes.allocation_mode, services) else {
        return plan;
    };
    let policy = Policy::new(
        u32::try_from(sizes.growth_increment).unwrap_or(1),
        most(network),
    );
    let blocks: Vec<Block> = live.iter().map(|claim| block(claim, services)).collect();
    let waiting: Vec<Waiting> = services
        .iter()
        .filter(|service| service.addresses.is_empty())
        .map(|service| Waiting {
            since: service.since,
            foreign: service.foreign,
        })
        .collect();
    let decision = demand::decide(&policy, &blocks, &waiting, now);
    if let Some(grow) = decision.grow {
        place(&mut plan, tenant, pools, grow, GROWTH, &free_number(claims));
    }
    if decision.denied > 0 {
        plan.shortage = Some(Shortage::AtMost);
    }
    plan.delete = decision.shrink;
    plan.unused = decision.notes;
    plan.again = decision.again;
    plan
}

fn place(
    plan: &mut Plan,
    tenant: &Tenant,
    pools: &[Candidate],
    count: u32,
    role: &str,
    number: &str,
) {
    match demand::choose(pools, count.into()) {
        Some(pool) => plan
            .create
            .push(claim(tenant, &pool.name, count, role, number)),
        None => plan.shortage = Some(Shortage::NoRoom(count)),
    }
}

fn claim(tenant: &Tenant, pool: &str, count: u32, role: &str, number: &str) -> IPAllocation {
    let purpose = AllocationType::Loadbalancer;
    let mut claim = drawn(tenant, pool, count, purpose, number);
    let labels = claim.metadata.labels.get_or_insert_default();
    labels.insert(names::ALLOCATION_ROLE.to_owned(), role.to_owned());
    claim
}

/// A claim, named by the UID of its cluster: names of two clusters can join to the same text, and a later cluster of
/// the same name is another one.
pub(super) fn drawn(
    tenant: &Tenant,
    pool: &str,
    count: u32,
    purpose: AllocationType,
    number: &str,
) -> IPAllocation {
    let mut labels = owned_labels(&tenant.uid);
    labels.insert(names::NETWORK_POOL.to_owned(), pool.to_owned());
    labels.insert(names::TENANT.to_owned(), tenant.name.clone());
    let start = match purpose {
        AllocationType::Loadbalancer => "lb",
        AllocationType::Nodes => "nodes",
    };
    IPAllocation {
        metadata: ObjectMeta {
            name: Some(format!("{start}-{}-{number}", tenant.uid)),
            labels: Some(labels),
            finalizers: Some(vec![names::ALLOCATION_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: IPAllocationSpec {
            pool_ref: LocalRef {
                name: pool.to_owned(),
            },
            tenant_cluster_ref: NamespacedRef {
                name: tenant.name.clone(),
                namespace: tenant.namespace.clone(),
            },
            type_: purpose,
            count: i32::try_from(count).ok(),
            ..IPAllocationSpec::default()
        },
        status: None,
    }
}

/// One more than the highest number in use, those that go included: a number that is free again only by chance would
/// meet a claim that is still being kept.
pub(super) fn free_number(claims: &[IPAllocation]) -> String {
    let numbers = claims.iter().filter_map(|claim| {
        let name = claim.name_any();
        name.rsplit_once('-')
            .and_then(|(_, number)| number.parse::<u32>().ok())
    });
    numbers
        .max()
        .map_or(1, |highest| highest.saturating_add(1))
        .to_string()
}

fn is_growth(claim: &IPAllocation) -> bool {
    claim
        .labels()
        .get(names::ALLOCATION_ROLE)
        .is_some_and(|role| role == GROWTH)
}

fn block(claim: &IPAllocation, services: &[Demand]) -> Block {
    let granted = claim
        .status
        .as_ref()
        .is_some_and(|status| status.phase == Some(AllocationPhase::Allocated));
    let ranges = network_pool::ranges(claim);
    let used = services
        .iter()
        .flat_map(|service| &service.addresses)
        .filter(|ip| ranges.iter().any(|range| range.contains(**ip)))
        .count();
    let noted = claim.annotations().get(names::UNUSED_SINCE);
    Block {
        name: claim.name_any(),
        count: claim
            .spec
            .count
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(0),
        used: u32::try_from(used).unwrap_or(u32::MAX),
        granted,
        growth: is_growth(claim) && claim.spec.pinned_range.is_none(),
        unused_since: noted.and_then(|text| text.parse().ok()),
    }
}

/// The annotations that note since when a claim is unused.
pub fn unused_annotation(since: Option<Timestamp>) -> BTreeMap<String, Option<String>> {
    BTreeMap::from([(
        names::UNUSED_SINCE.to_owned(),
        since.map(|since| since.to_string()),
    )])
}

#[cfg(test)]
mod tests;
