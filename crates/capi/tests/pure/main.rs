//! Plans, formats and rules, without an API server.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

#[path = "../common/mod.rs"]
mod common;

mod access;
mod addons;
mod day2;
mod deletion;
mod formats;
mod golden;
mod network;
mod phases;
mod planning;
mod quota;
mod validation;
mod wishes;
mod world;
