//! A real Kubernetes API under every test.
//!
//! [`Server`] is an etcd and a kube-apiserver in a temporary folder, with Butler's and Cluster API's custom
//! resources, for one test or shared by all of them. It is gone when the process that started it is gone.
//! [`faults`] puts a client between a controller and the server on which things go wrong, and [`at_every_write`]
//! does so at every write a controller makes.
//!
//! ```no_run
//! use butler_testkit::Server;
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! # async fn example() {
//! let server = Server::shared().await;
//! let ns = server.namespace("team").await;
//! let mark = server.mark().await;
//! ns.apply_yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}").await;
//! let map: ConfigMap = ns.get("a").await;
//! let writes = server.writes(mark).await.in_namespace(&ns);
//! assert_eq!(writes.count(), 1, "{writes}");
//! # drop(map);
//! # }
//! ```
//!
//! It knows the custom resources as definitions only; it must not know any controller.

#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::indexing_slicing,
    reason = "a test kit: what goes wrong in a helper fails the test with its message, its tasks live as long as the \
              test, and what is indexed are JSON values, which answer null"
)]

pub mod audit;
mod binaries;
pub mod cluster_api;
mod components;
mod definitions;
mod ended;
pub mod etcd;
pub mod faults;
pub mod flux;
mod guardian;
mod host;
mod kubectl;
mod namespace;
mod objects;
mod pki;
pub mod pods;
mod scenario;

mod server;
mod snapshot;
mod user;
mod wait;

pub use namespace::Namespace;
pub use objects::{ApplyError, FIELD_MANAGER};
pub use pods::{PodOptions, Pods};
pub use scenario::{Failures, Scenario, Summary, World, at_every_write, try_at_every_write};

pub use server::{Error, Options, SHARED_SERVER, Server};
pub use user::User;
pub use wait::{Awaited, PATIENCE, wait_for, wait_for_condition, wait_until_gone};
