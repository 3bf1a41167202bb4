//! Addresses on a real API server: pools, claims, machines' claims, providers.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod bad_input;
mod crowd;
mod demand;
mod faults;
mod handover;
mod life;
mod machines;
mod scene;
#[path = "../stage/mod.rs"]
mod stage;
