//! Steward: hosted control planes.
//!
//! One folder per concern. `spec`, `endpoint` and `workload` are pure: what a `TenantControlPlane` becomes in the
//! management cluster. `store` talks to etcd, `tenant` to the tenants' own API servers; `data_store`, `control_plane`
//! and `kubeconfig_generator` are the controllers that wire them, and `provider` shows control planes to Cluster API.
//! One process serves all tenants: no manager, cache or watch for each.

pub mod control_plane;
pub mod data_store;
pub mod endpoint;
pub mod kubeconfig_generator;
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
    metrics::ReconcileMetrics,
    task,
    watch::Feed,
};
pub use control_plane::{Reach, Settings};
use data_store::Directory;
use futures::{Stream, StreamExt, future, stream};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, ResourceExt,
    runtime::{reflector::ObjectRef, watcher},
};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// The lease that one replica at a time holds.
pub const LEASE: &str = "steward.butlerlabs.dev";

/// The watches that the controllers share.
pub(crate) struct Feeds {
    pub(crate) control_planes: Arc<Feed<TenantControlPlane>>,
    pub(crate) stores: Feed<DataStore>,
    pub(crate) deployments: Feed<Deployment>,
    pub(crate) services: Feed<Service>,
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
}

/// Runs all controllers until `shutdown` is cancelled; dropping the future ends everything it started.
pub async fn run(client: Client, surroundings: Surroundings, shutdown: CancellationToken) {
    let Surroundings {
        clock,
        reconciles,
        readiness,
        settings,
    } = surroundings;
    let feeds = Feeds::start(&client);
    tokio::select! {
        () = shutdown.cancelled() => return,
        () = feeds.ready() => readiness.set(true),
    }
    let directory = Arc::new(Directory::default());
    let stores = data_store::Controller::new(
        &client,
        Arc::clone(&clock),
        Arc::clone(&directory),
        Arc::clone(&feeds.control_planes),
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
        settings,
    );
    let _forgetting = task::spawn("forget stores", stores.forget_gone(&feeds.stores));
    tokio::join!(
        clusters,
        controller::run(
            stores,
            &feeds.stores,
            users(&feeds),
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
            triggers(&feeds, &directory),
            Bounds {
                concurrency: 32,
                // A pass makes a dozen objects, and each of them is an event about it: one more pass is enough.
                debounce: Duration::from_millis(150),
                ..Bounds::default()
            },
            reconciles,
            shutdown.clone(),
        ),
    );
    readiness.set(false);
}

/// Stores whose users changed.
fn users(feeds: &Feeds) -> impl Stream<Item = ObjectRef<DataStore>> + Send + use<> {
    let planes = feeds.control_planes.subscribe();
    planes.filter_map(|change| future::ready(data_store::store_of(change.object())))
}

/// Control planes to look at because something of theirs changed: their Service, their pods, their store.
fn triggers(
    feeds: &Feeds,
    directory: &Directory,
) -> impl Stream<Item = ObjectRef<TenantControlPlane>> + Send + use<> {
    let owner = |name: Option<&String>, namespace: Option<String>| {
        let plane = ObjectRef::new(name?);
        Some(namespace.map_or_else(
            || plane.clone(),
            |namespace| plane.clone().within(&namespace),
        ))
    };
    let deployments = feeds.deployments.subscribe().map(move |change| {
        let object = change.object();
        owner(object.labels().get(names::NAME), object.namespace())
    });
    let services = feeds.services.subscribe().map(move |change| {
        let object = change.object();
        owner(object.labels().get(names::NAME), object.namespace())
    });
    let config_maps = feeds.config_maps.subscribe().map(move |change| {
        let object = change.object();
        owner(object.labels().get(names::NAME), object.namespace())
    });
    let budgets = feeds.budgets.subscribe().map(move |change| {
        let object = change.object();
        owner(object.labels().get(names::NAME), object.namespace())
    });
    let planes = feeds.control_planes.store();
    let stores = stream::unfold(directory.changes(), |mut changes| async move {
        match changes.recv().await {
            Ok(store) => Some((Some(store), changes)),
            Err(RecvError::Lagged(_)) => Some((None, changes)),
            Err(RecvError::Closed) => None,
        }
    });
    let of_store = stores.flat_map(move |store| {
        let uses = |plane: &TenantControlPlane| {
            let used = data_store::store_of(plane);
            // A control plane that has no store yet may be waiting for this one.
            let kept_there = |name: &String| {
                let mut others = plane.spec.data_store_overrides.iter();
                others.any(|other| other.data_store == *name)
            };
            store.is_none()
                || used.is_none()
                || store.as_ref().is_some_and(kept_there)
                || used.is_some_and(|used| Some(&used.name) == store.as_ref())
        };
        let planes = planes.state_filter(uses);
        stream::iter(
            planes
                .into_iter()
                .map(|plane| Some(ObjectRef::from_obj(&*plane))),
        )
    });
    let small = stream::select(config_maps, budgets);
    let of_objects = stream::select(stream::select(deployments, services), small);
    stream::select(of_store, of_objects).filter_map(future::ready)
}
