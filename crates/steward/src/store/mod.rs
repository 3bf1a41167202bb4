//! Where tenants keep their state: the etcd side of a `DataStore`.
//!
//! Many tenants share one etcd. Each has a prefix, a role that may use exactly that prefix, and a user with that
//! role; all are named after the tenant's UID. [`identity`] makes the names, [`setup`] creates what they stand for,
//! [`usage`] measures it, [`access`] puts right what others changed, [`remove`] takes it away, [`health`] says whether
//! the store can be used at all.
//!
//! Nothing here knows Kubernetes: Secrets arrive as bytes, verdicts leave as plain values.

pub mod access;
mod auth;
mod claims;
pub mod credentials;
pub mod error;
mod handshake;
pub mod health;
pub mod identity;
mod leisure;
mod pool;
pub mod remove;
mod session;
pub mod setup;
mod tally;
pub mod usage;
mod wire;

pub use auth::Auth;
pub use credentials::{Credentials, Material};
pub use error::{Error, Trouble};
pub use identity::{Chosen, Identity, Owner};
pub(crate) use leisure::at_leisure;
pub use pool::Sessions;
pub use session::{Session, Settings};
