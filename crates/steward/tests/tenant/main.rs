//! What stands in a tenant cluster, against a real API server that plays the tenant, and the real kubeadm.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod clients;
mod golden;
mod join;
mod stage;
mod sync;
