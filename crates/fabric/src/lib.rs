//! The network of the local platform, built like the network of a small cloud.
//!
//! One network namespace is the router. Every cluster has a bridge and a route table of its own there, and machines
//! have single addresses, so clusters with equal pod ranges live side by side and cannot reach each other. The host
//! is connected by one veth and nothing has a way out.
//!
//! [`records`] is what the platform knows, [`plan`] turns it into the complete wanted [`state`], [`diff`] compares
//! that with what was observed; these are pure. [`Fabric`] observes and applies, [`Keeper`] does so whenever the
//! records change or somebody touches the network. Nothing here knows Kubernetes.

pub mod diff;
mod fabric;
mod filter;
mod iproute;
mod keeper;
pub mod layout;
pub mod plan;
pub mod records;
mod space;
pub mod state;

pub use fabric::{Error, Fabric};
pub use keeper::Keeper;
pub use layout::{Layout, LayoutError};
pub use plan::plan;
pub use records::{Balancer, Cluster, Endpoint, Machine, Node, Records, Table};
pub use state::{Space, State};
