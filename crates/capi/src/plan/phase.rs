//! Where in its life a cluster is.
//!
//! One that worked once never becomes `Failed`: what is wrong with it stands in its conditions, and goes away there when it is
//! right again.

use butler_api::butler::tenant_cluster::Phase;

use super::report::Facts;
use crate::{addons::State, day2::Doze, observe::Observed};

pub(super) fn phase(facts: &Facts<'_>) -> Phase {
    let observed = facts.observed;
    match observed.phase {
        Some(Phase::Ready | Phase::Updating) if is_changing(facts) => Phase::Updating,
        // A change is complete when its workers are ready. One that is lost later is no change of the spec.
        Some(Phase::Updating) if lacks_workers(observed) => Phase::Updating,
        Some(Phase::Ready) if !observed.is_reported && lacks_workers(observed) => Phase::Updating,
        Some(Phase::Ready | Phase::Updating) => Phase::Ready,
        held if observed.failure.is_some() => failed(held, observed.retry || !observed.is_reported),
        // What failed is right again.
        Some(Phase::Failed) => Phase::Pending,
        _ => growing(facts),
    }
}

/// The phase of a cluster for which something failed that waiting does not make better. One that worked once does not
/// become `Failed`. `again` says that another try is wanted, by the user's word or by a spec that was not tried yet.
pub fn failed(held: Option<Phase>, again: bool) -> Phase {
    match held {
        Some(worked @ (Phase::Ready | Phase::Updating | Phase::Deleting)) => worked,
        Some(Phase::Failed) if again => Phase::Pending,
        None | Some(Phase::Pending | Phase::Provisioning | Phase::Installing | Phase::Failed) => {
            Phase::Failed
        }
    }
}

/// Whether a pool has fewer ready workers than it was told to have.
pub(super) fn lacks_workers(observed: &Observed) -> bool {
    observed.pools.values().any(|pool| pool.ready < pool.wanted)
}

/// A cluster on its way to its first `Ready`.
fn growing(facts: &Facts<'_>) -> Phase {
    let control_plane = facts.observed.control_plane.as_ref();
    let serves = control_plane.is_some_and(|held| held.initialized && held.available);
    // A Node is ready only with a network, which is an addon: so machines count once they have joined.
    let joined = facts.numbers.joined >= facts.numbers.desired;
    let sleeps = facts.doze == Doze::Asleep && control_plane.is_some();
    match facts.addons {
        _ if sleeps => Phase::Ready,
        State::Installed | State::Observed(_) | State::Unneeded | State::Degraded(_)
            if serves && joined =>
        {
            Phase::Ready
        }
        _ if serves && joined => Phase::Installing,
        _ => Phase::Provisioning,
    }
}

/// Whether a change of the spec is being carried out.
fn is_changing(facts: &Facts<'_>) -> bool {
    let observed = facts.observed;
    let upgrading = observed.control_plane.as_ref().is_none_or(|held| {
        held.running != Some(facts.upgrade.control_plane) && facts.doze == Doze::Awake
    });
    let pools = &facts.spec.pools;
    let resizing = facts.doze == Doze::Awake
        && pools.iter().any(|pool| {
            let held = observed.pools.get(&pool.name);
            held.is_none_or(|held| {
                held.is_rolling()
                    || held.wanted < pool.size.fewest()
                    || held.wanted > pool.size.most()
                    || held.replicas != held.wanted
            })
        });
    let leftover = observed.pools.keys();
    let removing = leftover.filter(|name| pools.iter().all(|pool| pool.name != **name));
    let dozing = matches!(facts.doze, Doze::Waking | Doze::FallingAsleep);
    upgrading || resizing || dozing || !facts.rolls.is_empty() || removing.count() > 0
}
