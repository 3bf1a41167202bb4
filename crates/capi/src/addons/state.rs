//! How far the addons of a cluster are.
//!
//! Without a pod network nothing works, so its failure holds the cluster up. Every other addon that fails is said, and the
//! cluster works without it.

use butler_api::butler::{
    tenant_addon::TenantAddonPhase,
    tenant_cluster::{ManagementMode, Phase},
};

use super::{Role, Wanted, build};
use crate::{observe::Observed, plan::Numbers, spec::TenantSpec};

/// What was seen of one `TenantAddon` of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether it was made for this cluster by Butler; otherwise it is its user's own.
    pub ours: bool,
    /// What it is for, if it is ours.
    pub role: String,
    /// Its name in the catalogue.
    pub addon: String,
    /// Whether it works as it was last asked for.
    pub ready: bool,
    /// Where it is in its life.
    pub phase: Option<TenantAddonPhase>,
    /// What it says.
    pub message: String,
    /// The version that it is asked to have, by its spec or by a rollout of the catalogue's.
    pub asked: Option<String>,
    /// The version that was last tried.
    pub attempted: Option<String>,
    /// The version that runs.
    pub version: Option<String>,
    /// Whether it is on its way out.
    pub ending: bool,
}

impl Facts {
    /// The version that it has, or is on its way to.
    pub(super) fn stands_at(&self) -> Option<&str> {
        let known = [&self.asked, &self.attempted, &self.version];
        known.into_iter().flatten().next().map(String::as_str)
    }

    /// Whether it cannot be waited for: it tries again, and may do so for ever.
    fn is_troubled(&self) -> bool {
        matches!(
            self.phase,
            Some(TenantAddonPhase::Failed | TenantAddonPhase::Degraded)
        )
    }
}

/// How far the addons of a cluster are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing to install them on yet.
    Waiting,
    /// The cluster is to have no workers: they come with the first one.
    Unneeded,
    /// On their way; what is missing.
    Installing(String),
    /// The pod network does not come up; why.
    Blocked(String),
    /// The cluster works, and something of it does not; what.
    Degraded(String),
    /// Butler only looks on, and all that it installed before work; how many.
    Observed(String),
    /// All of them work.
    Installed,
}

/// One addon.
enum Standing {
    Works,
    Coming(String),
    Troubled(String),
}

/// How far they are.
pub fn state(spec: &TenantSpec, observed: &Observed, workers: &Numbers) -> State {
    let control_plane = observed.control_plane.as_ref();
    if control_plane.is_none_or(|held| !held.initialized) {
        return State::Waiting;
    }
    let looks_on = spec.addons.mode == ManagementMode::Observe;
    let own = || observed.addons.iter().filter(|(_, held)| held.ours);
    if workers.desired == 0 && observed.machines.is_empty() {
        return match spec.addons.wanted.is_empty() {
            _ if looks_on => State::Observed(watched(0)),
            true => State::Installed,
            false => State::Unneeded,
        };
    }
    if observed.machines.iter().all(|it| it.node.is_none()) {
        return State::Waiting;
    }
    let (mut coming, mut troubled) = (Vec::new(), Vec::new());
    for wanted in &spec.addons.wanted {
        match standing(spec, observed, wanted) {
            Standing::Works => {}
            Standing::Coming(what) => coming.push(what),
            Standing::Troubled(what) if wanted.role == Role::Cni => return State::Blocked(what),
            Standing::Troubled(what) => troubled.push(what),
        }
    }
    if looks_on {
        // Nobody is about to put them right, so none of them is on its way.
        let broken = own().filter(|(_, held)| !held.ready);
        troubled.extend(broken.map(|(name, held)| format!("{name}: {}", held.message)));
    }
    if let Some(wait) = unready_nodes(observed, workers) {
        coming.push(wait);
    }
    match &observed.dns {
        Some(gap) if gap.is_late => troubled.push(gap.missing.clone()),
        Some(gap) => coming.push(gap.missing.clone()),
        None => {}
    }
    if !coming.is_empty() {
        return State::Installing(coming.join("; "));
    }
    if !troubled.is_empty() {
        return State::Degraded(troubled.join("; "));
    }
    if looks_on {
        State::Observed(watched(own().count()))
    } else {
        State::Installed
    }
}

/// What is said of addons that Butler only looks at.
fn watched(count: usize) -> String {
    match count {
        0 => "Butler only looks on, and installed none of them".to_owned(),
        count => format!("Butler only looks on: {count} that it installed work"),
    }
}

/// No Node is ready without a network. Once it was there, Nodes that are not ready are said elsewhere, unless none is.
fn unready_nodes(observed: &Observed, workers: &Numbers) -> Option<String> {
    let Numbers { ready, desired, .. } = workers;
    if matches!(observed.phase, Some(Phase::Ready | Phase::Updating)) && *ready > 0 {
        return None;
    }
    (ready < desired)
        .then(|| format!("waits for the pod network: {ready} of {desired} Nodes are ready"))
}

fn standing(spec: &TenantSpec, observed: &Observed, wanted: &Wanted) -> Standing {
    let name = spec.identity.addon(wanted.addon);
    let Some(held) = observed.addons.get(&name) else {
        return Standing::Coming(format!("{name} is being asked for"));
    };
    if !held.ours {
        return Standing::Troubled(format!(
            "TenantAddon {name} was made by somebody else, and the cluster's own needs this name: delete it"
        ));
    }
    if held.ending {
        return Standing::Coming(format!("{name} is being removed and comes again after"));
    }
    if held.ready {
        return Standing::Works;
    }
    let said = format!("{name}: {}", held.message);
    let mut needs = build::needs(spec, wanted.role);
    let is_hopeless = needs.any(|other| {
        let other = observed.addons.get(&spec.identity.addon(other.addon));
        other.is_some_and(|other| !other.ready && other.is_troubled())
    });
    if held.is_troubled() || is_hopeless {
        Standing::Troubled(said)
    } else {
        Standing::Coming(said)
    }
}
