//! Addons on a tenant whose API server is the test's own, installed by the real Helm.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::large_futures,
    reason = "a test fails where it stands"
)]

mod catalogue;
mod every_change;
mod every_write;
mod faults;
mod fleet;
mod fleet_faults;
mod life;
mod real_charts;
mod registry;
mod repository;
mod scene;
mod secrecy;
mod sources;
#[path = "../stage/mod.rs"]
mod stage;
mod trouble;
mod unreachable;
