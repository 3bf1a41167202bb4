//! The real Cluster API over real control planes: its core manager with webhooks and managed topologies, and
//! `clusterctl move` between two management clusters.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod managers;
mod moving;
#[path = "../store/raw.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the tests of stores use more of it, from another place"
)]
mod raw;
mod stage;
