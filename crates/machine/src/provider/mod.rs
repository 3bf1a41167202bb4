//! The infrastructure provider of the local platform: `LocalCluster` and `LocalMachine`, by Cluster API's v1beta2
//! contract.
//!
//! Machines and networks are behind [`Host`] and [`Network`]: the controllers here know the contract and nothing of
//! namespaces. What may be done next is decided by pure functions over what was observed.

mod capi;
pub mod claims;
mod host;
mod local_cluster;
mod local_host;
mod local_machine;
mod network;
pub mod rbac;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use butler_api::{
    addresses::{IPAddress, IPAddressClaim},
    infrastructure::{LocalCluster, LocalMachine},
    types::KubeVersion,
};
use butler_runtime::{
    clock::SharedClock,
    controller::{self, Bounds},
    endpoints::Readiness,
    error::{ApiError, Category, Classify},
    metrics::ReconcileMetrics,
    watch::Feed,
};
use kube::{Api, Client, runtime::watcher};
use tokio_util::sync::CancellationToken;

pub use self::{
    host::Host,
    local_host::LocalHost,
    network::{Attachment, ClusterNetwork, Network},
};
use crate::runtime::Mirror;

/// The field manager.
const FIELD_MANAGER: &str = "butler-local-provider";
/// The lease that one replica at a time holds.
pub const LEASE: &str = "local-provider.butlerlabs.dev";
/// Keeps an object until what it stands for on the host is gone.
pub const FINALIZER: &str = "local.infrastructure.cluster.x-k8s.io";

/// Whatever a host or a network complains about.
pub type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// What all machines of the platform have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folders with kubelet and kubeadm, for every version there is.
    pub images: BTreeMap<KubeVersion, PathBuf>,
    /// Folder with containerd and its shim.
    pub containerd: PathBuf,
    /// Folder with the CNI plugins.
    pub cni: PathBuf,
    /// Folders with further programs, such as runc where the host has none.
    pub extra: Vec<PathBuf>,
    /// The image that holds a pod's namespaces.
    pub sandbox_image: String,
    /// Where images are pulled from instead.
    pub mirrors: Vec<Mirror>,
    /// A container store to start from.
    pub image_store: Option<PathBuf>,
    /// The `NetworkPool` that addresses come from; without one the network gives them.
    pub pool: Option<String>,
}

/// What the controllers need besides a client.
#[derive(Clone)]
pub struct Surroundings {
    /// Tells the time.
    pub clock: SharedClock,
    /// Counts passes.
    pub reconciles: ReconcileMetrics,
    /// Set once all first lists are complete.
    pub readiness: Readiness,
    /// What all machines have in common.
    pub settings: Settings,
    /// Where machines run.
    pub host: Arc<dyn Host>,
    /// What connects them.
    pub network: Arc<dyn Network>,
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not do what was asked.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The host did not.
    #[error("could not {action} machine {name:?}")]
    Host {
        /// What was tried.
        action: &'static str,
        /// The `LocalMachine`.
        name: String,
        /// Why not.
        #[source]
        source: Trouble,
    },
    /// The network did not.
    #[error("could not {action} the network of {name:?}")]
    Network {
        /// What was tried.
        action: &'static str,
        /// The `LocalMachine` or `LocalCluster`.
        name: String,
        /// Why not.
        #[source]
        source: Trouble,
    },
}

impl Classify for Error {
    fn category(&self) -> Category {
        match self {
            Self::Api(error) => error.category(),
            // The host heals, or somebody heals it; the object does not change by that.
            Self::Host { .. } | Self::Network { .. } => Category::Unavailable,
        }
    }
}

/// The watches that both controllers share.
struct Feeds {
    clusters: Feed<capi::Cluster>,
    machines: Feed<capi::Machine>,
    local_clusters: Feed<LocalCluster>,
    local_machines: Feed<LocalMachine>,
    claims: Feed<IPAddressClaim>,
    addresses: Feed<IPAddress>,
}

impl Feeds {
    fn start(client: &Client) -> Arc<Self> {
        let everything = watcher::Config::default();
        Arc::new(Self {
            clusters: Feed::start(Api::all(client.clone()), everything.clone()),
            machines: Feed::start(Api::all(client.clone()), everything.clone()),
            local_clusters: Feed::start(Api::all(client.clone()), everything.clone()),
            local_machines: Feed::start(Api::all(client.clone()), everything.clone()),
            claims: Feed::start(Api::all(client.clone()), everything.clone()),
            addresses: Feed::start(Api::all(client.clone()), everything),
        })
    }

    async fn ready(&self) {
        let Self {
            clusters,
            machines,
            local_clusters,
            local_machines,
            claims,
            addresses,
        } = self;
        tokio::join!(
            clusters.ready(),
            machines.ready(),
            local_clusters.ready(),
            local_machines.ready(),
            claims.ready(),
            addresses.ready()
        );
    }
}

/// Runs both controllers until `shutdown` is cancelled; machines go on without them.
pub async fn run(client: Client, surroundings: Surroundings, shutdown: CancellationToken) {
    let Surroundings {
        clock,
        reconciles,
        readiness,
        settings,
        host,
        network,
    } = surroundings;
    let feeds = Feeds::start(&client);
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = feeds.ready() => readiness.set(true),
    }
    let clusters = local_cluster::Controller::new(
        &client,
        Arc::clone(&clock),
        Arc::clone(&feeds),
        Arc::clone(&network),
    );
    let cluster_triggers = local_cluster::triggers(&feeds);
    let machine_triggers = local_machine::triggers(&feeds, host.changes());
    let machines =
        local_machine::Controller::new(&client, clock, Arc::clone(&feeds), settings, host, network);
    tokio::join!(
        controller::run(
            clusters,
            &feeds.local_clusters,
            cluster_triggers,
            Bounds::default(),
            reconciles.clone(),
            shutdown.clone(),
        ),
        controller::run(
            machines,
            &feeds.local_machines,
            machine_triggers,
            Bounds::default(),
            reconciles,
            shutdown.clone(),
        ),
    );
    readiness.set(false);
}
