//! Whether a cluster may have what it asks for, beside the other clusters of its team.
//!
//! What was granted stays granted: a limit that is lowered later stops growth and takes nothing away. Whoever asks
//! first gets it, by age and then by UID, so that all clusters come to the same answer whatever order they are looked
//! at in.

mod decide;
mod hold;
mod limits;
mod sizes;
mod usage;

pub use decide::{Claim, decide};
pub use limits::{EnvironmentLimits, Limits, ProviderLimits, TeamLimits};
pub use sizes::{PoolSize, Sizes, Total};
pub use usage::{Usage, usage};

pub(crate) use hold::held;

use crate::reason::Reason;

/// What the limits say about one cluster. The default is that it may have what it asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Nothing of it may be made.
    pub refused: Option<Excess>,
    /// It stands, and has to stay at these sizes.
    pub hold: Option<Hold>,
    /// It stands, and its release is not one that it may move to.
    pub version: Option<Excess>,
}

/// Sizes that a cluster has to stay at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// What was granted to it.
    pub sizes: Sizes,
    /// What is against more.
    pub excess: Excess,
}

/// Which limit is against something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excess {
    /// One word for programs.
    pub reason: Reason,
    /// The figures, and what can be done about them.
    pub message: String,
}
