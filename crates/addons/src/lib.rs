//! What an addon needs next, decided over plain data: no client, no clock, no files.
//!
//! [`request`] is what somebody wants, [`record`] what Helm wrote down about a release, [`health`] how its objects are,
//! and [`plan`] the one step that comes next.

pub mod compatibility;
pub mod diff;
pub mod failure;
pub mod flux;
pub mod graph;
pub mod health;
pub mod manifest;
pub mod output;
pub mod ownership;
pub mod plan;
pub mod record;
pub mod rendered;
pub mod request;
pub mod rollout;
pub mod values;
