//! Machines of the local platform, and the Cluster API infrastructure provider in front of them.
//!
//! [`bootstrap`] is pure: what bootstrap data means. [`runtime`] makes machines of namespaces, and finds, breaks and
//! removes them; it knows no Kubernetes API. [`provider`] reconciles `LocalCluster` and `LocalMachine` by Cluster API's
//! v1beta2 contract; it knows machines and networks as two small traits only.

pub mod bootstrap;
pub mod provider;
pub mod runtime;
