//! Pods that run, Deployments that roll out, and load balancers that carry.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails where it stands, and its tasks end with it"
)]

mod containers;
mod killed;
mod rollout;
mod support;
