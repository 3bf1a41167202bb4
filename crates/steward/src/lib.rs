//! Steward: hosted control planes.
//!
//! One folder per concern. `spec`, `endpoint` and `workload` are pure: what a `TenantControlPlane` becomes in the
//! management cluster. `store` talks to etcd, `tenant` to the tenants' own API servers; `data_store`, `control_plane`
//! and `kubeconfig_generator` are the controllers that wire them, and `provider` shows control planes to Cluster API.
//! `metering` measures what tenants hold, and `metrics` shows it.
//! One process serves all tenants: no manager, cache or watch for each.

pub mod control_plane;
pub mod data_store;
pub mod endpoint;
pub mod kubeconfig_generator;
mod metering;
pub mod metrics;
pub mod names;
pub mod provider;
pub mod rbac;
pub mod spec;
pub mod store;
pub mod tenant;
pub mod workload;

use std::{sync::Arc, time::Duration};

use butler_api::steward::{DataStore, KubeconfigGenerator, TenantControlPlane};
use butler_runtime::{
    clock::SharedClock,
    controller::{self, Bounds},
    endpoints::Readiness,
    events::Events,
    metrics::{Metrics, ReconcileMetrics},
    packed::Packed,
    task::{self, Task},
    watch::{Feed, Watchable},
};
pub use control_plane::{Reach, Settings};
use data_store::{Directory, Inspector};
use futures::{
    Stream, StreamExt,
    channel::mpsc::{UnboundedSender, unbounded},
    future, stream,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Secret, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, ResourceExt,
    runtime::{reflector::ObjectRef, watcher},
};
use metering::{Figures, Metering};
use metrics::{TenantMetrics, View};
use tokio_util::sync::CancellationToken;

/// The lease that one replica at a time holds.
pub const LEASE: &str = "steward.butlerlabs.dev";

/// The watches that the controllers share.
pub(crate) struct Feeds {
    pub(crate) control_planes: Arc<Feed<TenantControlPlane>>,
    pub(crate) stores: Feed<DataStore>,
    pub(crate) deployments: Feed<Packed<Deployment>>,
    pub(crate) services: Feed<Service>,
    /// Keys and certificates of control planes: a Secret that somebody changes is noticed at once.
    pub(crate) secrets: Feed<Packed<Secret>>,
    pub(crate) config_maps: Feed<ConfigMap>,
    pub(crate) budgets: Feed<PodDisruptionBudget>,
    pub(crate) generators: Feed<KubeconfigGenerator>,
    pub(crate) namespaces: Feed<Namespace>,
}

impl Feeds {
    fn start(client: &Client) -> Arc<Self> {
        let everything = watcher::Config::default();
        let ours = everything
            .clone()
            .labels(&format!("{}={}", names::PROJECT, names::STEWARD));
        Arc::new(Self {
            control_planes: Arc::new(Feed::start(Api::all(client.clone()), everything.clone())),
            stores: Feed::start(Api::all(client.clone()), everything.clone()),
            generators: Feed::start(Api::all(client.clone()), everything.clone()),
            namespaces: Feed::start(Api::all(client.clone()), everything),
            deployments: Feed::start(Api::all(client.clone()), ours.clone()),
            services: Feed::start(Api::all(client.clone()), ours.clone()),
            secrets: Feed::start(Api::all(client.clone()), ours.clone()),
            config_maps: Feed::start(Api::all(client.clone()), ours.clone()),
            budgets: Feed::start(Api::all(client.clone()), ours),
        })
    }

    async fn ready(&self) {
        let Self {
            control_planes,
            stores,
            deployments,
            services,
            secrets,
            config_maps,
            budgets,
            generators,
            namespaces,
        } = self;
        tokio::join!(
            control_planes.ready(),
            stores.ready(),
            deployments.ready(),
            services.ready(),
            secrets.ready(),
            config_maps.ready(),
            budgets.ready(),
            generators.ready(),
            namespaces.ready()
        );
    }
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
    /// What the platform decides for all control planes.
    pub settings: Settings,
    /// Shows tenants and stores.
    pub tenants: TenantMetrics,
    /// How often things are looked at that no watch tells of.
    pub pace: Pace,
}

impl Surroundings {
    /// Surroundings at the usual pace; registers all metrics, so it is called once in a process.
    pub fn new(
        clock: SharedClock,
        metrics: &Metrics,
        readiness: Readiness,
        settings: Settings,
    ) -> Self {
        Self {
            clock,
            reconciles: ReconcileMetrics::new(metrics),
            readiness,
            settings,
            tenants: TenantMetrics::new(metrics),
            pace: Pace::default(),
        }
    }
}

/// How often things are looked at that no watch tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Each store is asked how it is.
    pub look: Duration,
    /// All tenants are measured.
    pub round: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            look: Duration::from_mins(1),
            round: Duration::from_mins(5),
        }
    }
}

/// Looks at a store between two inspections of its tenants' rights.
const INSPECTION: u32 = 5;

/// Runs all controllers until `shutdown` is cancelled; dropping the future ends everything it started.
pub async fn run(client: Client, surroundings: Surroundings, shutdown: CancellationToken) {
    let Surroundings {
        clock,
        reconciles,
        readiness,
        settings,
        tenants,
        pace,
    } = surroundings;
    let feeds = Feeds::start(&client);
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = feeds.ready() => readiness.set(true),
    }
    let directory = Arc::new(Directory::default());
    let figures = Arc::new(Figures::default());
    let _shown = tenants.show(View {
        planes: feeds.control_planes.store(),
        stores: feeds.stores.store(),
        figures: Arc::clone(&figures),
    });
    let stores = data_store::Controller::new(
        &client,
        Arc::clone(&clock),
        Arc::clone(&directory),
        Arc::clone(&feeds.control_planes),
        Arc::clone(&figures),
        pace.look,
    );
    let (news, measured) = unbounded();
    let _background = background(&client, &clock, &feeds, &directory, &figures, pace, news);
    let of_stores = stream::select(
        data_store::users::changes(&feeds.control_planes),
        data_store::secrets::changes(client.clone(), &feeds.stores),
    );
    let generators =
        kubeconfig_generator::Controller::new(&client, Arc::clone(&clock), Arc::clone(&feeds));
    let clusters = provider::run(
        client.clone(),
        Arc::clone(&clock),
        Arc::clone(&feeds.control_planes),
        reconciles.clone(),
        shutdown.clone(),
    );
    let planes = control_plane::Controller::new(
        &client,
        clock,
        Arc::clone(&feeds),
        Arc::clone(&directory),
        figures,
        settings,
    );
    let _forgetting = task::spawn("forget stores", stores.forget_gone(&feeds.stores));
    tokio::join!(
        clusters,
        controller::run(
            stores,
            &feeds.stores,
            of_stores,
            Bounds::default(),
            reconciles.clone(),
            shutdown.clone(),
        ),
        controller::run(
            generators,
            &feeds.generators,
            kubeconfig_generator::triggers(&feeds),
            Bounds::default(),
            reconciles.clone(),
            shutdown.clone(),
        ),
        controller::run(
            planes,
            &feeds.control_planes,
            stream::select(measured, triggers(&feeds, &directory)),
            Bounds {
                concurrency: 32,
                ..Bounds::default()
            },
            reconciles,
            shutdown.clone(),
        ),
    );
    readiness.set(false);
}

/// Work that no pass waits for: measuring tenants, and putting right what others change in stores.
fn background(
    client: &Client,
    clock: &SharedClock,
    feeds: &Arc<Feeds>,
    directory: &Arc<Directory>,
    figures: &Arc<Figures>,
    pace: Pace,
    news: UnboundedSender<ObjectRef<TenantControlPlane>>,
) -> [Task; 2] {
    let inspector = Inspector {
        client: client.clone(),
        planes: Arc::clone(&feeds.control_planes),
        directory: Arc::clone(directory),
        events: Events::new(client.clone(), names::STEWARD, Arc::clone(clock)),
        pause: pace.look * INSPECTION,
    };
    let metering = Metering {
        feeds: Arc::clone(feeds),
        directory: Arc::clone(directory),
        figures: Arc::clone(figures),
        clock: Arc::clone(clock),
        round: pace.round,
        news,
    };
    [
        task::spawn("inspect stores", inspector.run()),
        task::spawn("measure tenants", metering.run()),
    ]
}

/// Control planes to look at because something of theirs changed: their Service, their pods,
/// their Secrets, their store.
fn triggers(
    feeds: &Feeds,
    directory: &Directory,
) -> impl Stream<Item = ObjectRef<TenantControlPlane>> + Send + use<> {
    let children = stream::select_all([
        children(&feeds.deployments).boxed(),
        children(&feeds.services).boxed(),
        children(&feeds.secrets).boxed(),
        children(&feeds.config_maps).boxed(),
        children(&feeds.budgets).boxed(),
    ]);
    let planes = feeds.control_planes.store();
    let of_store = directory.changes().flat_map(move |store| {
        let uses = |plane: &TenantControlPlane| {
            let used = data_store::users::store_of(plane);
            // A control plane that has no store yet may be waiting for this one.
            let kept_there = |name: &String| {
                let mut others = plane.spec.data_store_overrides.iter();
                others.any(|other| other.data_store == *name)
            };
            store.is_none()
                || used.is_none()
                || store.as_ref().is_some_and(kept_there)
                || used == store.as_deref()
        };
        let planes = planes.state_filter(uses);
        stream::iter(planes.into_iter().map(|plane| ObjectRef::from_obj(&*plane)))
    });
    stream::select(of_store, children)
}

/// The control planes whose objects of one kind change.
fn children<K: Watchable>(
    feed: &Feed<K>,
) -> impl Stream<Item = ObjectRef<TenantControlPlane>> + Send + use<K> {
    let changes = feed.subscribe();
    changes.filter_map(|change| future::ready(plane_of(&**change.object())))
}

/// The control plane that an object belongs to, by its label.
fn plane_of<K: kube::Resource>(object: &K) -> Option<ObjectRef<TenantControlPlane>> {
    let plane = ObjectRef::new(object.labels().get(names::NAME)?);
    Some(match object.namespace() {
        Some(namespace) => plane.within(&namespace),
        None => plane,
    })
}
