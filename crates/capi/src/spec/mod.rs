//! A tenant cluster whose spec was found to be right: raw fields become values once, here, and nothing below
//! looks at the raw spec again.
//!
//! The schema of the kinds refuses most mistakes at the door; what it cannot know is checked here: what belongs
//! together across objects, and objects that were written before a rule existed. Every fault names its field and
//! the rule, and all of them are reported at once.

use std::net::IpAddr;

use butler_api::{
    butler::{
        butler_config::ButlerConfigSpec, provider_config::ProviderConfig,
        tenant_cluster::TenantCluster,
    },
    types::{Cidr, KubeVersion},
};
use thiserror::Error;

use crate::{
    addons::AddonSet,
    addresses::Source,
    day2::{Hibernation, Window},
    names::Identity,
    provider::Infrastructure,
};

mod control_plane;
mod faults;
mod nodes;
mod pools;
mod schedules;

pub use control_plane::{ControlPlane, Exposure};
pub use faults::{Fault, Faults};
pub use nodes::{Mirror, NodeSettings, Proxy};
pub(crate) use pools::is_copied;
pub use pools::{Machine, Os, Pool, Size, Talos};

/// What a tenant cluster is checked from.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// The cluster.
    pub cluster: &'a TenantCluster,
    /// Where its machines come from.
    pub provider: &'a ProviderConfig,
    /// The platform's defaults.
    pub platform: &'a ButlerConfigSpec,
}

/// A spec that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", .faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct Invalid {
    /// Everything that is wrong.
    pub faults: Vec<Fault>,
}

/// A tenant cluster whose spec was found to be right.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantSpec {
    /// Who it is.
    pub identity: Identity,
    /// Kubernetes release.
    pub version: KubeVersion,
    /// The hosted control plane.
    pub control_plane: ControlPlane,
    /// Ranges and the domain.
    pub network: Network,
    /// Its workers.
    pub pools: Vec<Pool>,
    /// What all machines are told.
    pub nodes: NodeSettings,
    /// Where machines come from.
    pub infrastructure: Infrastructure,
    /// What is installed on it.
    pub addons: AddonSet,
    /// Where addresses of its load balancers come from.
    pub addresses: Source,
    /// When it sleeps.
    pub hibernation: Hibernation,
    /// When it may be disturbed; empty: at any time.
    pub windows: Vec<Window>,
    /// Whether nothing of it may be removed.
    pub protected: bool,
    /// Whether nothing of it is changed.
    pub paused: bool,
}

impl TenantSpec {
    /// Whether nodes wait for a cloud controller manager, which its user installs.
    pub(crate) const fn waits_for_cloud_controller(&self) -> bool {
        self.control_plane.external_cloud_provider && self.infrastructure.has_cloud_controller()
    }
}

/// Ranges and the domain of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Range of pods.
    pub pods: Cidr,
    /// Range of Services.
    pub services: Cidr,
    /// DNS domain.
    pub domain: String,
    /// Addresses for load balancers that are drawn or given.
    pub load_balancer_addresses: u32,
    /// Those that its user brings, as a range or a network.
    pub load_balancer_range: Option<String>,
}

impl Network {
    /// Address of the cluster's name server: the eleventh of the Service range, where kubeadm puts it.
    pub fn dns(&self) -> IpAddr {
        match self.services.network() {
            IpAddr::V4(first) => IpAddr::V4((u32::from(first).saturating_add(10)).into()),
            IpAddr::V6(first) => IpAddr::V6((u128::from(first).saturating_add(10)).into()),
        }
    }
}

/// Checks a cluster and everything it is made from.
pub fn validate(raw: &Raw<'_>) -> Result<TenantSpec, Invalid> {
    let mut faults = Faults::default();
    let spec = &raw.cluster.spec;
    let identity = identity(raw, &mut faults);
    let version: Option<KubeVersion> =
        faults.parse("spec.kubernetesVersion", spec.kubernetes_version.parse());
    let network = network(raw, &mut faults);
    let nodes = nodes::validate(raw, &mut faults);
    let pools = pools::validate(raw, &mut faults);
    let control_plane = control_plane::validate(raw, identity.as_ref(), &mut faults);
    let infrastructure = Infrastructure::resolve(raw, &mut faults);
    let hibernation = schedules::hibernation(raw, &mut faults);
    let windows = schedules::windows(raw, &mut faults);
    if let (Some(infrastructure), Some(identity)) = (&infrastructure, &identity) {
        check_pools(&pools, identity, infrastructure, &nodes, &mut faults);
    }
    if let Some(network) = &network {
        check_room(&pools, network, &mut faults);
    }
    let addons = AddonSet::resolve(raw);
    let whole = (
        identity,
        version,
        network,
        control_plane,
        infrastructure,
        hibernation,
    );
    match whole {
        (
            Some(identity),
            Some(version),
            Some(network),
            Some(control_plane),
            Some(infrastructure),
            Some(hibernation),
        ) if faults.is_empty() => Ok(TenantSpec {
            identity,
            version,
            control_plane,
            addresses: Source::resolve(raw, network.load_balancer_range.as_ref(), &addons),
            network,
            pools,
            nodes,
            infrastructure,
            addons,
            hibernation,
            windows,
            protected: spec.deletion_protection,
            paused: spec.paused,
        }),
        _ => Err(Invalid {
            faults: faults.into_vec(),
        }),
    }
}

fn identity(raw: &Raw<'_>, faults: &mut Faults) -> Option<Identity> {
    let metadata = &raw.cluster.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    let name = faults.parse("metadata.name", name.parse());
    if metadata.uid.as_ref().is_none_or(String::is_empty) {
        faults.add(
            "metadata.uid",
            "the object has no UID: it was not read from an API server",
        );
    }
    Some(Identity::new(name?, raw.cluster))
}

fn network(raw: &Raw<'_>, faults: &mut Faults) -> Option<Network> {
    let networking = &raw.cluster.spec.networking;
    let pods: Option<Cidr> = faults.parse("spec.networking.podCIDR", networking.pod_cidr.parse());
    let services: Option<Cidr> = faults.parse(
        "spec.networking.serviceCIDR",
        networking.service_cidr.parse(),
    );
    let (pods, services) = (pods?, services?);
    if pods.overlaps(services) {
        faults.add(
            "spec.networking.serviceCIDR",
            format!("{services} shares addresses with the pod range {pods}"),
        );
    }
    Some(Network {
        pods,
        services,
        domain: networking.cluster_domain.clone(),
        load_balancer_addresses: load_balancer_addresses(raw),
        load_balancer_range: load_balancer_range(raw),
    })
}

/// The addresses that a cluster brings for its load balancers.
fn load_balancer_range(raw: &Raw<'_>) -> Option<String> {
    let spec = &raw.cluster.spec;
    if let Some(range) = &spec.networking.load_balancer_pool {
        return Some(format!("{}-{}", range.start, range.end));
    }
    let addon = spec.addons.as_ref()?.load_balancer.as_ref()?;
    addon.address_pool.clone()
}

/// How many addresses the cluster's own load balancers take: its own range, or as many as it or its provider says.
fn load_balancer_addresses(raw: &Raw<'_>) -> u32 {
    let networking = &raw.cluster.spec.networking;
    if let Some(range) = &networking.load_balancer_pool {
        let range = butler_api::types::AddressRange::parse(&range.start, &range.end);
        return range.map_or(0, |range| u32::try_from(range.size()).unwrap_or(u32::MAX));
    }
    let provider = &raw.provider.spec.network;
    if provider.mode != butler_api::butler::provider_config::NetworkMode::Ipam {
        return 0;
    }
    let defaults = provider.load_balancer.clone().unwrap_or_default();
    let default = match defaults.allocation_mode {
        butler_api::butler::provider_config::AllocationMode::Static => defaults.default_pool_size,
        butler_api::butler::provider_config::AllocationMode::Elastic => defaults.initial_pool_size,
    };
    u32::try_from(networking.lb_pool_size.unwrap_or(default)).unwrap_or(0)
}

/// What a pool can only be judged by together with its cluster and its provider.
fn check_pools(
    pools: &[Pool],
    identity: &Identity,
    infrastructure: &Infrastructure,
    nodes: &NodeSettings,
    faults: &mut Faults,
) {
    for pool in pools {
        let field = pool.field();
        let name = identity.pool(&pool.name);
        if name.len() > butler_api::types::names::LABEL_MAX {
            faults.add(
                format!("{field}.name"),
                format!(
                    "{name:?} is the name of its machines and has {} characters: with this cluster the name of a pool may have at most {}",
                    name.len(),
                    butler_api::types::names::LABEL_MAX - identity.cluster().len() - 1
                ),
            );
        }
        infrastructure.check(pool, faults);
        crate::node::check(pool, nodes, faults);
    }
}

/// Every node takes a /24 of the pod range (IPv6: a /64), and one that gets none never becomes ready.
fn check_room(pools: &[Pool], network: &Network, faults: &mut Faults) {
    let per_node = if network.pods.is_ipv4() { 24 } else { 64 };
    let spare = u32::from(per_node - network.pods.prefix_len().min(per_node));
    let room = 1_u64.checked_shl(spare).unwrap_or(u64::MAX);
    let most: u64 = pools.iter().map(|pool| u64::from(pool.size.most())).sum();
    if most > room {
        faults.add(
            "spec.networking.podCIDR",
            format!(
                "{} serves {room} nodes and the pools may have {most}: each takes a /{per_node} of it",
                network.pods
            ),
        );
    }
}
