//! butler-controller: reconciles Butler's own kinds, one folder a kind.
//!
//! Each folder has the same steps: observe the world into plain data, plan over it without I/O, apply the plan,
//! report. [`run`] wires them: one slim watch per kind, shared by all who need it.

pub mod addon_engine;
pub mod addon_rollout;
pub mod address_claim;
pub mod butler_config;
mod claims;
pub mod ip_allocation;
pub mod management_addon;
pub mod namespaces;
pub mod network_pool;
pub mod provider_config;
pub mod rbac;
mod shortages;
pub mod slim;
pub mod team;
pub mod tenant_addon;
pub mod tenant_addresses;
pub mod tenant_cluster;

use std::{sync::Arc, time::Duration};

use butler_api::{
    addresses::{IPAddress, IPAddressClaim},
    butler::{
        AddonDefinition, ButlerConfig, IPAllocation, ManagementAddon, NetworkPool, ProviderConfig,
        Team, TenantAddon,
    },
};
use butler_runtime::{
    clock::SharedClock,
    controller::{self, Bounds},
    endpoints::Readiness,
    metrics::{Metrics, ReconcileMetrics},
    watch::Feed,
};
use butler_steward::Reach;
use k8s_openapi::api::{core::v1::Namespace, rbac::v1::RoleBinding};
use kube::{Api, Client, runtime::watcher};
use network_pool::infrastructure::{MachineView, NodeView, ServiceView};
use shortages::Shortages;
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
    pub(crate) addons: Feed<TenantAddon>,
    pub(crate) definitions: Feed<AddonDefinition>,
    pub(crate) management_addons: Feed<ManagementAddon>,
    /// All of them, so that a namespace which is not ours is seen before it is touched.
    pub(crate) namespaces: Feed<Namespace>,
    pub(crate) bindings: Feed<RoleBinding>,
    pub(crate) pools: Feed<NetworkPool>,
    pub(crate) allocations: Feed<IPAllocation>,
    /// The same by cluster.
    pub(crate) claims: claims::Claims,
    pub(crate) providers: Feed<ProviderConfig>,
    pub(crate) services: Feed<ServiceView>,
    pub(crate) nodes: Feed<NodeView>,
    /// Of Cluster API, which may not be installed: nobody waits for these three.
    pub(crate) machines: Feed<MachineView>,
    pub(crate) address_claims: Feed<IPAddressClaim>,
    pub(crate) addresses: Feed<IPAddress>,
}

impl Feeds {
    fn start(client: &Client) -> Arc<Self> {
        let everything = watcher::Config::default();
        let ours = everything.clone().labels(&namespaces::ours_selector());
        Arc::new(Self {
            configs: Feed::start(Api::all(client.clone()), everything.clone()),
            teams: Feed::start(Api::all(client.clone()), everything.clone()),
            clusters: Feed::start_by_namespace(Api::all(client.clone()), everything.clone()),
            addons: Feed::start_by_namespace(Api::all(client.clone()), everything.clone()),
            definitions: Feed::start(Api::all(client.clone()), everything.clone()),
            management_addons: Feed::start(Api::all(client.clone()), everything.clone()),
            namespaces: Feed::start(Api::all(client.clone()), everything.clone()),
            bindings: Feed::start(Api::all(client.clone()), ours),
            pools: Feed::start(Api::all(client.clone()), everything.clone()),
            allocations: Feed::start(Api::all(client.clone()), everything.clone()),
            claims: claims::Claims::default(),
            providers: Feed::start(Api::all(client.clone()), everything.clone()),
            services: Feed::start(Api::all(client.clone()), everything.clone()),
            nodes: Feed::start(Api::all(client.clone()), everything.clone()),
            machines: Feed::start(Api::all(client.clone()), everything.clone()),
            address_claims: Feed::start_by_namespace(Api::all(client.clone()), everything.clone()),
            addresses: Feed::start(Api::all(client.clone()), everything),
        })
    }

    async fn ready(&self) {
        let Self {
            configs,
            teams,
            clusters,
            addons,
            definitions,
            management_addons,
            namespaces,
            bindings,
            pools,
            allocations,
            claims,
            providers,
            services,
            nodes,
            machines: _,
            address_claims: _,
            addresses: _,
        } = self;
        tokio::join!(
            configs.ready(),
            teams.ready(),
            clusters.ready(),
            addons.ready(),
            definitions.ready(),
            management_addons.ready(),
            namespaces.ready(),
            bindings.ready(),
            pools.ready(),
            allocations.ready(),
            providers.ready(),
            services.ready(),
            nodes.ready()
        );
        claims.fill(allocations);
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
    /// Addresses of pools.
    pub pools: network_pool::PoolMetrics,
    /// What providers have left.
    pub providers: provider_config::ProviderMetrics,
    /// Where Helm is; without it addons are left alone.
    pub addons: Option<addon_engine::Settings>,
    /// Where addons of the management cluster find its API server; otherwise where this process finds it.
    pub management: Option<management_addon::Management>,
    /// How tenants are reached.
    pub reach: Reach,
}

impl Surroundings {
    /// Registers the metrics of the controllers.
    pub fn new(clock: SharedClock, metrics: Metrics, readiness: Readiness) -> Self {
        let reconciles = ReconcileMetrics::new(&metrics);
        let clusters = butler_config::ClusterGauge::new(&metrics);
        let pools = network_pool::PoolMetrics::new(&metrics);
        let providers = provider_config::ProviderMetrics::new(&metrics);
        Self {
            clock,
            metrics,
            readiness,
            reconciles,
            clusters,
            pools,
            providers,
            addons: None,
            management: None,
            reach: Reach::Service,
        }
    }

    /// The same with addons.
    #[must_use]
    pub fn with_addons(self, settings: addon_engine::Settings) -> Self {
        Self {
            addons: Some(settings),
            ..self
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
    // Large, and no part of what the others need.
    let (shortages, news) = Shortages::new();
    let addresses = addresses(&client, &feeds, &surroundings, &shortages, &shutdown);
    let addresses = Box::pin(addresses);
    tokio::join!(
        addresses,
        Box::pin(addons(&client, &feeds, &surroundings, &shutdown)),
        Box::pin(tenant_cluster::run(
            &client,
            &feeds,
            &surroundings,
            (&shortages, news),
            &shutdown
        )),
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

/// Runs the controllers of addons alone, for whoever plays the rest of the platform.
pub async fn run_addons(client: Client, surroundings: Surroundings, shutdown: CancellationToken) {
    let feeds = Feeds::start(&client);
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = feeds.ready() => surroundings.readiness.set(true),
    }
    addons(&client, &feeds, &surroundings, &shutdown).await;
}

/// Addons of tenants and of the management cluster.
async fn addons(
    client: &Client,
    feeds: &Arc<Feeds>,
    surroundings: &Surroundings,
    shutdown: &CancellationToken,
) {
    tokio::join!(
        tenant_addon::run(client, feeds, surroundings, shutdown),
        management_addon::run(client, feeds, surroundings, shutdown),
        addon_rollout::run(client, feeds, surroundings, shutdown),
    );
}

/// Everything about addresses: pools, claims on them, machines' claims, what providers have left, what clusters want.
async fn addresses(
    client: &Client,
    feeds: &Arc<Feeds>,
    surroundings: &Surroundings,
    shortages: &Shortages,
    shutdown: &CancellationToken,
) {
    let pools = network_pool::Controller::new(client, feeds, surroundings);
    let of_pools = network_pool::triggers(feeds, &pools);
    let allocations = ip_allocation::Controller::new(client, feeds, surroundings);
    let claims = address_claim::Controller::new(client, feeds, surroundings);
    let providers = provider_config::Controller::new(client, feeds, surroundings);
    let of_providers = provider_config::triggers(feeds, &providers);
    let services = tenant_addresses::ThroughKubeconfig::new(client.clone(), surroundings.reach);
    let tenants =
        tenant_addresses::Controller::new(client, feeds, surroundings, shortages.clone(), services);
    let of_tenants = tenant_addresses::triggers(feeds, &tenants);
    let reconciles = || surroundings.reconciles.clone();
    // A provider's figures follow every grant of its pools, and are no hurry.
    let slowly = Bounds {
        debounce: Duration::from_millis(250),
        ..Bounds::default()
    };
    tokio::join!(
        controller::run(
            pools,
            &feeds.pools,
            of_pools,
            Bounds::default(),
            reconciles(),
            shutdown.clone(),
        ),
        controller::run(
            allocations,
            &feeds.allocations,
            ip_allocation::triggers(feeds),
            Bounds {
                concurrency: 16,
                ..Bounds::default()
            },
            reconciles(),
            shutdown.clone(),
        ),
        controller::run(
            claims,
            &feeds.address_claims,
            address_claim::triggers(feeds),
            Bounds::default(),
            reconciles(),
            shutdown.clone(),
        ),
        controller::run(
            providers,
            &feeds.providers,
            of_providers,
            slowly,
            reconciles(),
            shutdown.clone(),
        ),
        controller::run(
            tenants,
            &feeds.clusters,
            of_tenants,
            slowly,
            reconciles(),
            shutdown.clone(),
        ),
    );
}
