//! A real Kubernetes API under every test.
//!
//! [`Server`] is an etcd and a kube-apiserver in a temporary folder, with Butler's and Cluster API's custom
//! resources, for one test or shared by all of them. It is gone when the process that started it is gone.
//!
//! It knows the custom resources as definitions only; it must not know any controller.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test kit: what goes wrong in a helper fails the test with its message, and its tasks live as long as the test"
)]

mod binaries;
mod components;
mod definitions;
mod guardian;
mod host;
mod pki;
mod server;
mod snapshot;
mod user;

pub use server::{Error, Options, SHARED_SERVER, Server};
pub use user::User;
