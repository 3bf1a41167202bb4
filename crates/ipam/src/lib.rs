//! The address allocator: which addresses a pool hands out next, and when a tenant's share grows or shrinks.
//!
//! Everything here is a function of its arguments: time is one of them, and nothing is remembered that the caller
//! did not put in. Who holds what is told to a [`Pool`] by its caller, which finds it in the API server.

pub mod demand;
mod family;
pub mod layout;
pub mod model;
mod number;
pub mod pool;
mod rest;
pub mod runs;
mod sizes;

pub use layout::{Layout, LayoutError, addresses, network};
pub use number::Number;
pub use pool::{Clash, Figures, Pool, Refusal, Request};
pub use runs::FreeRuns;
