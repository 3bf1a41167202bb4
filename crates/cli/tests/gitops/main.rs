//! Butler and the real Flux on one API server: Flux is told what to follow, and takes over what Butler installed.
//!
//! The controllers of Flux take minutes to build, so this is no part of `cargo test`: `make e2e`.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::large_futures,
    reason = "a test fails where it stands"
)]

mod bootstrap;
mod fleet;
mod git;
mod handover;
#[path = "../../../controller/tests/tenant_addon/registry.rs"]
mod registry;
#[path = "../../../controller/tests/tenant_addon/repository.rs"]
mod repository;
#[path = "../../../controller/tests/tenant_addon/scene.rs"]
#[allow(dead_code, reason = "the controller's own tests use the rest")]
mod scene;
#[path = "../../../controller/tests/stage/mod.rs"]
mod stage;
