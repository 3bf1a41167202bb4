//! `ProviderConfig`: how much of its pools is left, and the claims that a cluster makes on them.

pub(crate) mod machines;
mod metrics;
mod plan;
pub mod tenant;

use std::sync::Arc;

use butler_api::butler::{NetworkPool, ProviderConfig, provider_config::ProviderConfigStatus};
use butler_runtime::{
    apply::Applier,
    clock::SharedClock,
    conditions,
    controller::{Reconciler, Wake},
    error::ApiError,
    own_writes::OwnWrites,
    status,
};
use futures::{Stream, StreamExt, stream};
use kube::{Client, ResourceExt, runtime::reflector::ObjectRef};
pub use metrics::ProviderMetrics;
pub(crate) use plan::candidate;
pub use plan::{Plan, World, candidates, first_block, plan, pool_namespaces};

use crate::{Feeds, MANAGER, Surroundings};

/// Reconciles providers, as far as addresses go.
pub struct Controller {
    feeds: Arc<Feeds>,
    applier: Applier,
    clock: SharedClock,
    metrics: ProviderMetrics,
}

/// Providers to look at because a pool of theirs changed. Those that are gone lose their metrics on the way.
pub(crate) fn triggers(
    feeds: &Feeds,
    controller: &Controller,
) -> impl Stream<Item = ObjectRef<ProviderConfig>> + Send + use<> {
    let store = feeds.providers.store();
    let pools = feeds.pools.subscribe().flat_map(move |change| {
        let name = change.object().name_any();
        let users = store.state_filter(|config: &ProviderConfig| {
            config
                .spec
                .network
                .pool_refs
                .iter()
                .any(|pool| pool.name == name)
        });
        stream::iter(
            users
                .into_iter()
                .map(|config| ObjectRef::from_obj(&*config))
                .collect::<Vec<_>>(),
        )
    });
    let metrics = controller.metrics.clone();
    let gone = feeds.providers.subscribe().filter_map(move |change| {
        if let butler_runtime::watch::Change::Gone(config) = &change {
            metrics.remove(config);
        }
        futures::future::ready(None)
    });
    stream::select(pools, gone)
}

impl Reconciler for Controller {
    type Object = ProviderConfig;
    type Error = ApiError;
    const NAME: &'static str = "provider-config";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, config: Arc<ProviderConfig>) -> Result<Wake, ApiError> {
        let plan = plan(&config, &observe(&self.feeds, &config));
        self.metrics.set(&config, &plan);
        let held = config.status.clone().unwrap_or_default();
        let generation = config.metadata.generation;
        let next = ProviderConfigStatus {
            observed_generation: generation,
            conditions: conditions::settle(
                &held.conditions,
                &plan.verdicts,
                generation,
                self.clock.now(),
            ),
            ready: plan.ready,
            capacity: plan.capacity,
            ..ProviderConfigStatus::default()
        };
        status::report(&self.applier, &*config, config.status.as_ref(), &next).await?;
        Ok(Wake::OnChange)
    }
}

impl Controller {
    pub(crate) fn new(client: &Client, feeds: &Arc<Feeds>, surroundings: &Surroundings) -> Self {
        Self {
            feeds: Arc::clone(feeds),
            applier: Applier::new(client.clone(), MANAGER),
            clock: Arc::clone(&surroundings.clock),
            metrics: surroundings.providers.clone(),
        }
    }
}

/// The pools of a provider, as the watch shows them.
pub(crate) fn observe(feeds: &Feeds, config: &ProviderConfig) -> World {
    let namespaces = pool_namespaces(config);
    let find = |name: &str| -> Option<Arc<NetworkPool>> {
        namespaces
            .iter()
            .find_map(|namespace| feeds.pools.get(Some(namespace), name))
    };
    let refs = config.spec.network.pool_refs.iter();
    World {
        pools: refs
            .map(|pool| {
                (
                    pool.name.clone(),
                    pool.priority,
                    find(&pool.name).map(|pool| (*pool).clone()),
                )
            })
            .collect(),
    }
}
