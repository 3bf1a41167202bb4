//! Replacing the machines of a pool: when it starts, when it is over, and how it is taken back.
//!
//! What a pool's machines are made from is three things: the version, the machine template and the bootstrap data.
//! Together they are a [`Target`]. The pool remembers the one it came from, so that a rollout that stops can be
//! undone, and the one that failed, so that it is not tried again until the user changes something.

use butler_api::types::KubeVersion;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::upgrade::SKEW;
use crate::{
    object::{ObjectId, digest},
    observe::PoolState,
};

/// How long no new machine may become ready before a rollout counts as stopped.
///
/// Longer than a machine may take to appear before it is repaired, so that one bad machine gets a second chance.
pub const ROLLOUT_DEADLINE: SignedDuration = SignedDuration::from_mins(45);

/// What the machines of a pool are made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Kubernetes release.
    pub version: KubeVersion,
    /// The machine template.
    pub machine_template: Content,
    /// The bootstrap template or Secret.
    pub bootstrap: Content,
}

/// An object whose name stands for its content. The kind is part of it: another operating system or provider may
/// make a pool from objects of another kind, and a pool that waits keeps those it has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Content {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl From<ObjectId> for Content {
    fn from(id: ObjectId) -> Self {
        Self {
            kind: id.kind,
            name: id.name,
        }
    }
}

impl Target {
    /// One word for all three.
    pub fn fingerprint(&self) -> String {
        digest(&json!(self))
    }
}

/// What a pool is made from next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Make it; there was none.
    Make(Target),
    /// Leave it as it is.
    Stay(Target),
    /// Replace its machines.
    Roll {
        /// By these.
        to: Target,
        /// What it can go back to.
        from: Target,
    },
    /// It is being replaced and gets on.
    Rolling {
        /// By these.
        to: Target,
        /// What it can go back to.
        from: Option<Target>,
    },
    /// It should be replaced, but not now.
    Hold {
        /// What it stays at.
        at: Target,
        /// Why.
        because: String,
    },
    /// It stopped, and goes back.
    TakeBack {
        /// To these.
        to: Target,
        /// What failed.
        failed: String,
    },
    /// It failed before and was taken back; the same is not tried again.
    Failed {
        /// What it stays at.
        at: Target,
        /// What failed.
        failed: String,
    },
    /// It stopped, and there is no way back.
    Stuck {
        /// What it stays at.
        at: Target,
        /// Why it cannot go back.
        because: String,
    },
}

impl Decision {
    /// What is written.
    pub const fn target(&self) -> &Target {
        match self {
            Self::Make(target)
            | Self::Stay(target)
            | Self::Roll { to: target, .. }
            | Self::Rolling { to: target, .. }
            | Self::Hold { at: target, .. }
            | Self::TakeBack { to: target, .. }
            | Self::Failed { at: target, .. }
            | Self::Stuck { at: target, .. } => target,
        }
    }

    /// What the pool came from, while it may still have to go back.
    pub const fn came_from(&self) -> Option<&Target> {
        match self {
            Self::Roll { from, .. } => Some(from),
            Self::Rolling { from, .. } => from.as_ref(),
            Self::Make(_)
            | Self::Stay(_)
            | Self::Hold { .. }
            | Self::TakeBack { .. }
            | Self::Failed { .. }
            | Self::Stuck { .. } => None,
        }
    }

    /// The target that must not be tried again.
    pub fn failed(&self) -> Option<&str> {
        match self {
            Self::TakeBack { failed, .. } | Self::Failed { failed, .. } => Some(failed),
            Self::Make(_)
            | Self::Stay(_)
            | Self::Roll { .. }
            | Self::Rolling { .. }
            | Self::Hold { .. }
            | Self::Stuck { .. } => None,
        }
    }
}

/// Decides what a pool is made from.
///
/// `may_start` is why no rollout may start now, if there is a reason; one that is under way is never held, since
/// half of a pool on each side is the worst place to stop.
pub fn decide(
    wanted: Target,
    pool: Option<&PoolState>,
    held_back: Option<&str>,
    api_server: Option<KubeVersion>,
    now: Timestamp,
) -> Decision {
    let Some(pool) = pool else {
        return Decision::Make(wanted);
    };
    let current = pool.target.clone();
    if let Some(failed) = &pool.failed
        && *failed == wanted.fingerprint()
        && current != wanted
    {
        return Decision::Failed {
            at: current,
            failed: failed.clone(),
        };
    }
    if current == wanted {
        if !pool.is_rolling() {
            return Decision::Stay(current);
        }
        return if has_stopped(pool, now) {
            take_back(pool, &current, api_server)
        } else {
            Decision::Rolling {
                to: current,
                from: pool.came_from.clone(),
            }
        };
    }
    match held_back {
        Some(because) => Decision::Hold {
            at: current,
            because: because.to_owned(),
        },
        None => Decision::Roll {
            to: wanted,
            // While the last rollout is under way its own way back is the one that is known to work.
            from: match &pool.came_from {
                Some(earlier) if pool.is_rolling() => earlier.clone(),
                _ => current,
            },
        },
    }
}

fn has_stopped(pool: &PoolState, now: Timestamp) -> bool {
    let Some(progress) = pool.last_progress() else {
        return false;
    };
    now.duration_since(progress) > ROLLOUT_DEADLINE
}

/// The way back, if the machines it leads to may still join.
fn take_back(pool: &PoolState, current: &Target, api_server: Option<KubeVersion>) -> Decision {
    let stuck = |because: String| Decision::Stuck {
        at: current.clone(),
        because,
    };
    let Some(to) = &pool.came_from else {
        return stuck("it is the first one of this pool".to_owned());
    };
    let too_old = api_server.is_some_and(|server| to.version.minor() + SKEW < server.minor());
    if too_old {
        return stuck(format!(
            "machines of {} are too old for the API server",
            to.version
        ));
    }
    Decision::TakeBack {
        to: to.clone(),
        failed: current.fingerprint(),
    }
}
