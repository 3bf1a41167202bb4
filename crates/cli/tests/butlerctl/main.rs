//! `butlerctl`, and what `butleradm` does for addons, as people use them: the real programs against a real API server.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod addon;
mod changes;
#[path = "../../../controller/tests/tenant_cluster/driver.rs"]
#[allow(dead_code, reason = "the controller's own tests use the rest")]
mod driver;
mod errors;
mod export;
mod life;
mod management_addon;
mod program;
#[path = "../../../controller/tests/tenant_addon/repository.rs"]
mod repository;
#[path = "../../../controller/tests/stage/mod.rs"]
mod stage;
mod tour;
