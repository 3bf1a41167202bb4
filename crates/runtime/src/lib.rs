//! The controller kit that every Butler process stands on.
//!
//! It holds what is the same for all kinds: watch little, apply what differs, prune what is ours and no
//! longer planned, report conditions, retry with patience, and stop when the lease is lost. It knows no
//! Butler kind and takes no decision about one. Everything takes a [`kube::Client`] and a [`clock::Clock`],
//! so a client with faults and a clock that stands still can take their place.

pub mod apply;
pub mod backoff;
pub mod brief;
pub mod chance;
pub mod clock;
pub mod conditions;
pub mod controller;
pub mod drift;
pub mod endpoints;
pub mod error;
pub mod events;
pub mod finalizers;
pub mod lease;
pub mod logging;
pub mod metrics;
pub mod own_writes;
pub mod packed;
mod pressure;
mod queue;
pub mod rbac;
pub mod shutdown;
pub mod status;
pub mod sync;
pub mod task;
pub mod watch;
