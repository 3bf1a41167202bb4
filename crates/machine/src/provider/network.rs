//! What connects machines, as far as the controllers have to know it.

use std::{net::IpAddr, path::PathBuf};

use async_trait::async_trait;

use super::Trouble;
use crate::runtime::MachineId;

/// The network of one Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNetwork {
    /// UID of the `LocalCluster`: names come back, this does not.
    pub id: String,
    /// Namespace and name of the `LocalCluster`, for people.
    pub name: String,
    /// Namespace of all of its objects.
    pub namespace: String,
    /// Name of the Cluster.
    pub cluster: String,
    /// Name of its control plane, where it has one of its own kind.
    pub control_plane: Option<String>,
    /// Ranges of pods; other Clusters may have the same.
    pub pods: Vec<String>,
    /// Ranges of Services; other Clusters may have the same.
    pub services: Vec<String>,
}

/// How a machine is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its network namespace, ready: loopback up, address and default route set.
    pub namespace: PathBuf,
    /// Its address there, the same for as long as it is attached.
    pub address: IpAddr,
    /// Who answers questions about names.
    pub nameservers: Vec<IpAddr>,
}

/// Connects machines. Everything may be asked again after a crash, and does the same then.
#[async_trait]
pub trait Network: Send + Sync + 'static {
    /// Makes the network of a Cluster, or brings it up to date.
    async fn open(&self, cluster: &ClusterNetwork) -> Result<(), Trouble>;

    /// Removes the network of a Cluster that has no machines any more, by the UID of its `LocalCluster`.
    async fn close(&self, cluster: &str) -> Result<(), Trouble>;

    /// Connects a machine to the network of its Cluster, with the address that a pool gave it, or one of the network's
    /// own choice.
    async fn attach(
        &self,
        machine: &MachineId,
        cluster: &str,
        address: Option<IpAddr>,
    ) -> Result<Attachment, Trouble>;

    /// Takes a machine that is gone off the network.
    async fn detach(&self, machine: &MachineId) -> Result<(), Trouble>;
}
