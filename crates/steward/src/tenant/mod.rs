//! The tenant's side: what stands inside of the clusters that we run the control plane of.
//!
//! [`objects`] says what has to stand there, as data. [`sync`] brings it about, with nothing sent that is already so.
//! Tenants are looked at, not watched: no cache, task or connection is kept for one, [`schedule`] says when to look again,
//! and [`breaker`] that a dead one is left alone, so that it costs the others nothing. [`client`] makes the clients and
//! [`nodes`] reads which releases kubelets run; [`rewrite`] has a change of encryption reach everything that is stored.
//!
//! Nothing here knows the custom resources or the management cluster.

pub mod breaker;
pub mod client;
mod compare;
pub mod error;
mod images;
pub mod nodes;
pub mod objects;
pub mod rewrite;
pub mod schedule;
pub mod settings;
pub mod sync;

pub use error::TenantError;
pub use objects::{ObjectKey, TenantObject, TenantPlan, plan};
pub use settings::TenantSettings;
