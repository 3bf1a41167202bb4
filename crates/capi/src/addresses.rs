//! Where the addresses of a cluster's load balancers and machines come from, and what was seen of them.

use std::fmt;

use butler_api::{
    butler::provider_config::{AllocationMode, NetworkMode, ProviderNetwork},
    common::InfrastructureProvider,
};

use crate::{
    addons::{AddonSet, Role},
    observe::Observed,
    provider::Infrastructure,
    quota,
    spec::{Raw, TenantSpec},
};

/// Where they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The cluster's user brings these.
    Own(String),
    /// The provider gives them.
    Provider,
    /// The agent of the local platform gives them, one for each Service.
    Agent,
    /// They are drawn from pools.
    Pools(Draw),
}

/// What is drawn from pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Namespace and name of the `ProviderConfig` that names the pools.
    pub provider: String,
    /// How many addresses the cluster starts with.
    pub count: u32,
}

impl Source {
    pub(crate) fn resolve(raw: &Raw<'_>, own: Option<&String>, addons: &AddonSet) -> Self {
        let provider = &raw.provider.spec;
        let wants = |role| addons.wanted.iter().any(|addon| addon.role == role);
        if let Some(own) = own {
            return Self::Own(own.clone());
        }
        if provider.network.mode == NetworkMode::Cloud {
            return Self::Provider;
        }
        if provider.provider == InfrastructureProvider::Local && !wants(Role::LoadBalancer) {
            return Self::Agent;
        }
        let asked = raw.cluster.spec.networking.lb_pool_size;
        let asked = asked.and_then(|asked| u32::try_from(asked).ok());
        let metadata = &raw.provider.metadata;
        let text = |name: &Option<String>| name.clone().unwrap_or_default();
        Self::Pools(Draw {
            provider: format!("{}/{}", text(&metadata.namespace), text(&metadata.name)),
            count: first_count(&provider.network, asked, wants(Role::Ingress)),
        })
    }
}

/// How many addresses a cluster starts with: as many as it asks for, or else as its provider says. None at all is fine
/// where addresses follow the demand and nothing asks for one from the start.
pub fn first_count(network: &ProviderNetwork, asked: Option<u32>, needs_some: bool) -> u32 {
    let sizes = network.load_balancer.clone().unwrap_or_default();
    let usual = match sizes.allocation_mode {
        AllocationMode::Static => sizes.default_pool_size,
        AllocationMode::Elastic if needs_some => sizes.initial_pool_size,
        AllocationMode::Elastic => 0,
    };
    let count = asked.unwrap_or_else(|| u32::try_from(usual).unwrap_or(0));
    most(network).map_or(count, |most| count.min(most))
}

/// How many addresses one cluster may have.
pub fn most(network: &ProviderNetwork) -> Option<u32> {
    let most = network.quota_per_tenant.as_ref()?.max_load_balancer_ips?;
    u32::try_from(most).ok()
}

/// How many addresses the machines of a cluster need at most, also while some are replaced; none where their provider
/// finds addresses for them.
pub fn of_machines(spec: &TenantSpec, observed: &Observed) -> Option<u32> {
    let (spec, _) = quota::held(spec, observed);
    for_machines(&spec)
}

pub(crate) fn for_machines(spec: &TenantSpec) -> Option<u32> {
    if !matches!(spec.infrastructure, Infrastructure::Proxmox(_)) {
        return None;
    }
    let pools = spec.pools.iter();
    let counts = pools.map(|pool| pool.size.most().saturating_add(pool.surge));
    // A ProxmoxCluster without any address is refused, although there are no machines yet.
    Some(counts.fold(0, u32::saturating_add).max(1))
}

/// What was seen of addresses that are drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The cluster's claims that are to stay.
    pub claims: Vec<Claim>,
    /// Each pool that its provider names. They count only while there is no claim, which names its own.
    pub pools: Vec<(String, Room)>,
    /// Why those that wait in the cluster get no more.
    pub shortage: Option<Shortage>,
    /// Namespace and name of the first claim for machines.
    pub machines: Option<String>,
}

/// Why a cluster gets no more addresses although load balancers in it wait for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// No pool has so many side by side.
    NoRoom(u32),
    /// It has all it may have.
    AtMost,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom(count) => {
                write!(f, "no pool has {count} free addresses side by side")
            }
            Self::AtMost => f.write_str("the cluster has all it may have"),
        }
    }
}

/// An `IPAllocation` for load balancers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Namespace and name.
    pub name: String,
    /// The pool that it draws from.
    pub pool: String,
    /// What it was given; nothing while it waits.
    pub ranges: Vec<String>,
    /// Why it waits, in a word for programs; nothing while nobody looked at it.
    pub reason: String,
    /// The same in a sentence for people.
    pub message: String,
}

/// Whether a pool has the addresses that a cluster starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// There is no such pool.
    Missing,
    /// It hands out nothing.
    Closed,
    /// It has not that many.
    Full,
    /// It has them.
    Enough,
}
