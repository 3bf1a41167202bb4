//! The objects of control planes as text, and their command lines against the real components.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod accepted;
mod flags;
mod golden;
mod stage;
