//! Falling asleep and waking, in an order in which nothing is lost.
//!
//! Workers go first and come last: a machine is drained and its Node removed through the API server, which can
//! only sleep once no machine needs it. Data stays where it is: in the store, and on volumes.

use jiff::Timestamp;

use crate::{
    observe::{ControlPlaneState, Observed},
    spec::TenantSpec,
};

/// How awake a cluster is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doze {
    /// Everything runs.
    Awake,
    /// The control plane comes up; workers wait for it.
    Waking,
    /// Workers go; the control plane waits for them.
    FallingAsleep,
    /// Nothing runs.
    Asleep,
}

/// Decides how awake a cluster is to be.
pub fn doze(spec: &TenantSpec, observed: &Observed, now: Timestamp) -> Doze {
    let machines = observed.machines.len();
    let control_plane = observed.control_plane.as_ref();
    match (spec.hibernation.wants_sleep(now), control_plane) {
        (true, Some(_)) if machines > 0 => Doze::FallingAsleep,
        // Also where nothing was made yet: what is created asleep gets its store and its address, and no pods.
        (true, _) => Doze::Asleep,
        (false, Some(held)) if held.initialized && is_dozing(spec, observed, held) => Doze::Waking,
        (false, _) => Doze::Awake,
    }
}

/// Whether a control plane still sleeps, or was just woken and its workers still sleep.
fn is_dozing(spec: &TenantSpec, observed: &Observed, held: &ControlPlaneState) -> bool {
    let wants_workers = spec.pools.iter().any(|pool| pool.size.fewest() > 0);
    let mut pools = observed.pools.values();
    let all_sleep = !observed.pools.is_empty() && pools.all(|pool| pool.wanted == 0);
    held.replicas == 0 || (!held.available && wants_workers && all_sleep)
}
