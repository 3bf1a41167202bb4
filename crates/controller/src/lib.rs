//! butler-controller: reconciles Butler's own kinds, one folder a kind.
//!
//! Each folder has the same steps: observe the world into plain data, plan over it without I/O, apply the plan,
//! report. [`run`] wires them: one slim watch per kind, shared by all who need it.

pub mod butler_config;
pub mod namespaces;
pub mod rbac;
pub mod slim;
pub mod team;

use std::{sync::Arc, time::Duration};

use butler_api::butler::{ButlerConfig, Team};
use butler_runtime::{
    clock::SharedClock,
    controller::{self, Bounds},
    endpoints::Readiness,
    metrics::{Metrics, ReconcileMetrics},
    watch::Feed,
};
use k8s_openapi::api::{core::v1::Namespace, rbac::v1::RoleBinding};
use kube::{Api, Client, runtime::watcher};
use slim::ClusterSummary;
use tokio_util::sync::CancellationToken;

/// The field manager of everything this process applies.
pub const MANAGER: &str = "butler-controller";
/// The lease that one replica at a time holds.
pub const LEASE: &str = "butler-controller.butlerlabs.dev";

/// The watches that the controllers share.
pub(crate) struct Feeds {
    pub(crate) configs: Feed<ButlerConfig>,
    pub(crate) teams: Feed<Team>,
    pub(crate) clusters: Feed<ClusterSummary>,
    /// All of them, so that a namespace which is not ours is seen before it is touched.
    pub(crate) namespaces: Feed<Namespace>,
    pub(crate) bindings: Feed<RoleBinding>,
}

impl Feeds {
    fn start(client: &Client) -> Arc<Self> {
        let everything = watcher::Config::default();
        let ours = everything.clone().labels(&namespaces::ours_selector());
        Arc::new(Self {
            configs: Feed::start(Api::all(client.clone()), everything.clone()),
            teams: Feed::start(Api::all(client.clone()), everything.clone()),
            clusters: Feed::start(Api::all(client.clone()), everything.clone()),
            namespaces: Feed::start(Api::all(client.clone()), everything),
            bindings: Feed::start(Api::all(client.clone()), ours),
        })
    }

    async fn ready(&self) {
        let Self {
            configs,
            teams,
            clusters,
            namespaces,
            bindings,
        } = self;
        tokio::join!(
            configs.ready(),
            teams.ready(),
            clusters.ready(),
            namespaces.ready(),
            bindings.ready()
        );
    }
}

/// What the controllers write with besides objects: time, metrics, and a word about being ready.
#[derive(Clone)]
pub struct Surroundings {
    /// Tells the time.
    pub clock: SharedClock,
    /// Where metrics are registered.
    pub metrics: Metrics,
    /// Set once all first lists are complete.
    pub readiness: Readiness,
    /// Counts passes; registered once, although work may start again after a lost lease.
    pub reconciles: ReconcileMetrics,
    /// Clusters by phase; registered once as well.
    pub clusters: butler_config::ClusterGauge,
}

impl Surroundings {
    /// Registers the metrics of the controllers.
    pub fn new(clock: SharedClock, metrics: Metrics, readiness: Readiness) -> Self {
        let reconciles = ReconcileMetrics::new(&metrics);
        let clusters = butler_config::ClusterGauge::new(&metrics);
        Self {
            clock,
            metrics,
            readiness,
            reconciles,
            clusters,
        }
    }
}

/// Runs all controllers until `shutdown` is cancelled; dropping the future ends everything it started.
pub async fn run(client: Client, surroundings: Surroundings, shutdown: CancellationToken) {
    let feeds = Feeds::start(&client);
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = feeds.ready() => surroundings.readiness.set(true),
    }
    let configs = butler_config::Controller::new(&client, &feeds, &surroundings);
    let teams = team::Controller::new(&client, &feeds, &surroundings);
    // Counting many clusters is not worth a pass for each of them.
    let slowly = Bounds {
        concurrency: 1,
        debounce: Duration::from_millis(500),
        ..Bounds::default()
    };
    tokio::join!(
        controller::run(
            configs,
            &feeds.configs,
            butler_config::triggers(&feeds),
            slowly,
            surroundings.reconciles.clone(),
            shutdown.clone(),
        ),
        controller::run(
            teams,
            &feeds.teams,
            team::triggers(&feeds),
            Bounds::default(),
            surroundings.reconciles.clone(),
            shutdown.clone(),
        ),
    );
    surroundings.readiness.set(false);
}
