//! The world as a plan sees it: plain data, filled by whoever reads the API servers.

use std::collections::{BTreeMap, BTreeSet};

use butler_api::{
    butler::tenant_cluster::Phase,
    types::{AddressRange, KubeVersion},
};
use jiff::Timestamp;

use crate::{
    access::Audience,
    addons, addresses,
    day2::{Calls, Target},
    node::{JoinTicket, TalosTrust},
    object::ObjectId,
    plan::{dns, inside::Inside},
    quota::Quota,
    secret::Hidden,
};

/// Everything that was seen of one tenant cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Since when it is to be deleted.
    pub deletion: Option<Timestamp>,
    /// Whether its user gave up waiting for what cannot be reached.
    pub forced: bool,
    /// The phase that was last reported.
    pub phase: Option<Phase>,
    /// Whether the last report was about the spec as it is now.
    pub is_reported: bool,
    /// Whether its user asked to try again after it failed.
    pub retry: bool,
    /// The tenant namespace.
    pub namespace: Standing,
    /// Its control plane.
    pub control_plane: Option<ControlPlaneState>,
    /// Its Cluster.
    pub cluster: Option<ClusterState>,
    /// Its pools, by name.
    pub pools: BTreeMap<String, PoolState>,
    /// Its machines.
    pub machines: Vec<MachineState>,
    /// Every object that carries its UID, with the hash it was last applied with.
    pub objects: BTreeMap<ObjectId, Option<String>>,
    /// Every `TenantAddon` that names it, by name.
    pub addons: BTreeMap<String, addons::Facts>,
    /// What was seen of the addresses of its load balancers; nothing where nobody looked.
    pub addresses: Option<addresses::Facts>,
    /// What is missing of DNS inside the cluster; nothing where nobody looked.
    pub dns: Option<dns::Gap>,
    /// What inside the cluster holds something outside of its machines; nothing where nobody looked.
    pub inside: Inside,
    /// What its end was written down to leave behind.
    pub left: Option<String>,
    /// What keeps its namespace on its way out.
    pub remains: Option<String>,
    /// Calls of APIs that are gone with the release that is wanted.
    pub removed_apis: Calls,
    /// What cannot be made better by waiting.
    pub failure: Option<String>,
    /// What the limits of its team and its provider say.
    pub quota: Quota,
    /// What plans are made from beside the spec.
    pub inputs: Inputs,
}

/// What plans are made from beside the spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    /// What the credentials' Secret of the provider holds.
    pub credentials: BTreeMap<String, Hidden>,
    /// Who of its team may see what.
    pub access: Audience,
    /// What the catalogue says of the addons that it has or wants, by their names there.
    pub catalogue: BTreeMap<String, addons::Entry>,
    /// Addresses that machines may have, where the provider has to be told.
    pub machine_addresses: Vec<AddressRange>,
    /// Why machines have none yet, and what can be done about it.
    pub address_shortage: Option<String>,
    /// Addresses that its load balancers were given.
    pub load_balancer_ranges: Vec<String>,
    /// How machines without a bootstrap provider join, once the control plane can say so.
    pub join: Option<JoinTicket>,
    /// What Talos machines trust.
    pub talos: Option<TalosTrust>,
}

/// What is known of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has it.
    #[default]
    Missing,
    /// It is ours.
    Ours,
    /// It is on its way out.
    Ending,
    /// Somebody else has it.
    Foreign,
}

/// A control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlaneState {
    /// The version it was told to run.
    pub wanted: KubeVersion,
    /// The version it runs.
    pub running: Option<KubeVersion>,
    /// Pods it was told to run.
    pub replicas: u32,
    /// Whether it has come up once.
    pub initialized: bool,
    /// Whether it serves.
    pub available: bool,
    /// Host and port.
    pub endpoint: Option<String>,
    /// Whether it is on its way out.
    pub ending: bool,
    /// What it says about itself when it does not serve.
    pub message: Option<String>,
}

/// A Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterState {
    /// Whether its infrastructure stands.
    pub infrastructure: bool,
    /// Whether it is on its way out.
    pub ending: bool,
    /// Whether Cluster API leaves everything of it alone.
    pub paused: bool,
    /// What its infrastructure says when it does not stand.
    pub message: Option<String>,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolState {
    /// What its machines are made from.
    pub target: Target,
    /// What it came from.
    pub came_from: Option<Target>,
    /// What failed and was taken back.
    pub failed: Option<String>,
    /// Machines it was told to have.
    pub wanted: u32,
    /// Machines it has.
    pub replicas: u32,
    /// Machines that are made from `target`.
    pub up_to_date: u32,
    /// Machines whose Node is ready.
    pub ready: u32,
    /// Whether the numbers speak about the last change.
    pub current: bool,
    /// Since when its machines are being replaced, as it was told.
    pub began: Option<Timestamp>,
    /// When one of its machines last became ready or was let go for another; that may have been long before a rollout
    /// began.
    pub progress: Option<Timestamp>,
}

impl PoolState {
    /// When a rollout last got on: when it began, or when a machine last took another's place.
    pub fn last_progress(&self) -> Option<Timestamp> {
        self.began.max(self.progress)
    }

    /// Machines that are made from something else than `target`.
    pub const fn out_of_date(&self) -> u32 {
        self.replicas.saturating_sub(self.up_to_date)
    }

    /// Whether its machines are being replaced. A pool that only grows is not: it has nothing to go back to, and numbers
    /// that are yet to come speak of its size.
    pub fn is_rolling(&self) -> bool {
        let is_told = self.came_from.is_some() || self.failed.is_some();
        (is_told && !self.current)
            || self.up_to_date < self.replicas
            || (self.came_from.is_some() && self.up_to_date < self.wanted)
    }
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineState {
    /// Its name.
    pub name: String,
    /// Its pool.
    pub pool: String,
    /// The version of its kubelet.
    pub version: Option<KubeVersion>,
    /// Its Node.
    pub node: Option<String>,
    /// Its id at the provider.
    pub provider_id: Option<String>,
    /// Its addresses.
    pub addresses: BTreeSet<String>,
    /// Whether it is on its way out.
    pub ending: bool,
    /// What it waits for.
    pub message: Option<String>,
    /// What its provider says while it cannot give the machine.
    pub obstacle: Option<String>,
}
