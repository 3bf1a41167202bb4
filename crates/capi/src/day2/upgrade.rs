//! Upgrades: first checks, then the control plane, then the pools one by one.
//!
//! A control plane moves one minor version at a time and never back, both counted from what it runs: a wish that has
//! not come true may be exchanged for any other within reach, or taken back. Kubelets may be older than it, at most by
//! [`SKEW`] minor versions, and never newer: so pools follow, and a pool that is left behind holds the next upgrade.

use butler_api::types::KubeVersion;
use jiff::Timestamp;

use super::{
    removed::{Calls, RemovedApi},
    schedule::{next_opening, open_until},
};
use crate::{
    addons::{self, Unsuited},
    observe::{ControlPlaneState, Observed},
    reason::Reason,
    spec::TenantSpec,
};

/// How many minor versions a kubelet may be behind its API server.
pub const SKEW: u16 = 3;

/// Why an upgrade does not start yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The step is not one that upstream supports.
    Step {
        /// What runs.
        from: KubeVersion,
        /// What is wanted.
        to: KubeVersion,
    },
    /// A pool would be too far behind.
    Skew {
        /// The pool.
        pool: String,
        /// What its machines run.
        version: KubeVersion,
    },
    /// The control plane does not work, or is busy with an earlier change.
    ControlPlane,
    /// A pool is busy with an earlier change.
    Pool(String),
    /// An addon does not run on the release.
    Addon(Unsuited),
    /// Somebody still calls APIs that the release no longer has.
    RemovedApis(Vec<RemovedApi>),
    /// What is still called could not be found out.
    Unanswered(String),
    /// Outside all maintenance windows.
    Window {
        /// When the next one opens.
        opens: Option<Timestamp>,
    },
}

impl Obstacle {
    /// Whether it passes by itself, or stays until somebody does something about it.
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Step { .. }
            | Self::Addon(_)
            | Self::RemovedApis(_)
            | Self::Window { opens: None } => Reason::ActionNeeded,
            Self::Skew { .. }
            | Self::ControlPlane
            | Self::Pool(_)
            | Self::Unanswered(_)
            | Self::Window { opens: Some(_) } => Reason::Waiting,
        }
    }

    /// A sentence for people.
    pub fn message(&self, wanted: KubeVersion) -> String {
        match self {
            Self::Step { from, to } => format!(
                "the control plane runs {from} and cannot go to {to} in one step: upgrade one minor version at a time, and never back; set spec.kubernetesVersion to a release within reach"
            ),
            Self::Skew { pool, version } => format!(
                "pool {pool} runs {version}, more than {SKEW} minor versions behind {wanted}: its machines have to follow first"
            ),
            Self::ControlPlane => {
                format!("the upgrade to {wanted} waits for the control plane to be available")
            }
            Self::Pool(pool) => format!(
                "the upgrade to {wanted} waits for pool {pool}, which still replaces machines"
            ),
            Self::Addon(Unsuited {
                name,
                version,
                range,
            }) => format!(
                "the upgrade to {wanted} waits for TenantAddon {name}: its version {version} runs on Kubernetes {range}; give the addon a version that runs on {wanted}, set spec.kubernetesVersion to a release in that range, or remove the addon"
            ),
            Self::RemovedApis(apis) => {
                let apis: Vec<String> = apis.iter().map(ToString::to_string).collect();
                format!(
                    "the upgrade to {wanted} waits: the cluster was asked for APIs that are gone then: {}; let whoever calls them use a later version, then restart the control plane, which counts calls from its start on",
                    apis.join(", ")
                )
            }
            Self::Unanswered(trouble) => format!(
                "the upgrade to {wanted} waits: the cluster was asked in vain for calls of APIs that are gone then: {trouble}"
            ),
            Self::Window { opens: Some(opens) } => {
                format!(
                    "the upgrade to {wanted} waits for the maintenance window that opens at {opens}"
                )
            }
            Self::Window { opens: None } => {
                format!("the upgrade to {wanted} waits for a maintenance window, and none comes")
            }
        }
    }
}

/// What versions are written now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// Of the control plane.
    pub control_plane: KubeVersion,
    /// Of machines that are made from now on; `None` while the control plane is on its way.
    pub machines: Option<KubeVersion>,
    /// Why the upgrade does not go on.
    pub obstacle: Option<Obstacle>,
}

/// Decides which versions are written.
pub fn decide(spec: &TenantSpec, observed: &Observed, now: Timestamp) -> Upgrade {
    let wanted = spec.version;
    let Some(held) = &observed.control_plane else {
        return Upgrade {
            control_plane: wanted,
            machines: None,
            obstacle: None,
        };
    };
    if held.wanted == wanted {
        return Upgrade {
            control_plane: wanted,
            machines: serves(held, wanted),
            obstacle: None,
        };
    }
    match obstacle(spec, held, observed, now) {
        None => Upgrade {
            control_plane: wanted,
            machines: None,
            obstacle: None,
        },
        Some(obstacle) => Upgrade {
            control_plane: held.wanted,
            machines: serves(held, held.wanted),
            obstacle: Some(obstacle),
        },
    }
}

/// The version that machines may have: that of the API server, once it serves it.
///
/// Cluster API makes no machine while the two differ, and looks again only after a quarter of a minute.
fn serves(held: &ControlPlaneState, version: KubeVersion) -> Option<KubeVersion> {
    (held.initialized && held.running == Some(version)).then_some(version)
}

/// The checks before an upgrade, cheapest to explain first.
fn obstacle(
    spec: &TenantSpec,
    held: &ControlPlaneState,
    observed: &Observed,
    now: Timestamp,
) -> Option<Obstacle> {
    let (wanted, windows) = (spec.version, &spec.windows);
    // Nothing runs yet: there is nothing to protect.
    if !held.initialized {
        return None;
    }
    let from = held.running.unwrap_or(held.wanted);
    if !from.can_upgrade_to(wanted) {
        return Some(Obstacle::Step { from, to: wanted });
    }
    // Taking back what has not come true disturbs nobody, and may be what repairs the cluster.
    if held.running == Some(wanted) {
        return None;
    }
    let behind = observed.machines.iter().find_map(|machine| {
        let version = machine.version?;
        let far = version.minor() + SKEW < wanted.minor();
        far.then(|| Obstacle::Skew {
            pool: machine.pool.clone(),
            version,
        })
    });
    if behind.is_some() {
        return behind;
    }
    // One that does not serve because of the release it was told to run is helped by another release.
    let is_moving = held.running.is_some_and(|running| running != held.wanted);
    if !held.available && !is_moving {
        return Some(Obstacle::ControlPlane);
    }
    let busy = observed.pools.iter().find(|(_, pool)| pool.is_rolling());
    if let Some((name, _)) = busy {
        return Some(Obstacle::Pool(name.clone()));
    }
    // Before the window: whoever has to act can do so while it is closed.
    if let Some(unsuited) = addons::unsuited(spec, observed, wanted, now) {
        return Some(Obstacle::Addon(unsuited));
    }
    if open_until(windows, now).is_none() {
        return Some(Obstacle::Window {
            opens: next_opening(windows, now),
        });
    }
    match &observed.removed_apis {
        Calls::Counted(apis) if !apis.is_empty() => Some(Obstacle::RemovedApis(apis.clone())),
        Calls::Unanswered(trouble) => Some(Obstacle::Unanswered(trouble.clone())),
        Calls::Unasked | Calls::Counted(_) => None,
    }
}

/// Whether an upgrade that nothing else holds goes to a release that may have fewer APIs: then is the time to ask which
/// are called. A control plane that does not serve cannot say so, and is helped by another release.
pub fn removes_apis(spec: &TenantSpec, observed: &Observed, now: Timestamp) -> bool {
    let wanted = spec.version;
    observed.control_plane.as_ref().is_some_and(|held| {
        let goes_on = held
            .running
            .is_some_and(|from| from.minor() < wanted.minor());
        held.available
            && goes_on
            && held.wanted != wanted
            && obstacle(spec, held, observed, now).is_none()
    })
}
