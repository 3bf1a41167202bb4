//! What a tenant cluster becomes, per provider and per node operating system, and what is done to it afterwards.
//!
//! [`spec::validate`] turns a raw `TenantCluster` into values, once. [`plan::plan`] takes those, what was
//! [observed](observe) and the moment, and says what has to be done. Everything here is a function of its arguments:
//! no client, no clock, no chance.
//!
//! The parts: [`core`] has the kinds of Cluster API, [`provider`] those of each infrastructure provider, [`node`] what
//! machines of each operating system are told, [`day2`] the decisions about clusters that work, [`addons`] what is installed on them, [`addresses`] where
//! those of load balancers come from, [`quota`] who may have how much.

pub mod access;
pub mod addons;
pub mod addresses;
pub mod build;
pub mod core;
pub mod day2;
pub mod names;
pub mod node;
pub mod nodes;
pub mod object;
pub mod observe;
pub mod plan;
pub mod provider;
pub mod quota;
pub mod reason;
pub mod secret;
pub mod spec;

pub use object::{Object, ObjectId};
pub use observe::Observed;
pub use plan::{Plan, plan};
pub use reason::{Reason, Retry};
pub use spec::{Invalid, Raw, TenantSpec, validate};
