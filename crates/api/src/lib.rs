//! Butler's custom resources, one file per kind, and the newtypes below them.
//!
//! This crate is the contract between users and every Butler process. It knows no client, no clock, no
//! randomness and no async; `cargo xtask layers` holds it to that. Raw resource types are lenient, so that
//! one malformed object cannot stop a watch; the newtypes are what a controller works with after `validate`.

#![allow(
    clippy::doc_markdown,
    reason = "doc comments of fields are what kubectl explain shows, as plain text"
)]
#![allow(
    unreachable_pub,
    clippy::duplicated_attributes,
    reason = "both come from the code and attributes of kube-derive, not from ours"
)]

pub mod addresses;
pub mod butler;
pub mod cel;
pub mod common;
pub mod controlplane;
pub mod crd;
pub mod infrastructure;
pub mod names;
pub mod schema;
pub mod steward;
pub mod types;
