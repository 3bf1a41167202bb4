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
mod addons_management;
mod addons_versions;
mod day2;
mod deletion;
mod formats;
mod golden;
mod network;
mod pause;
mod phases;
mod planning;
mod quota;
mod removed;
mod validation;
mod wishes;
mod world;
