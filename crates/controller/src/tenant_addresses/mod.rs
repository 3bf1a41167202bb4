//! The load-balancer addresses of a `TenantCluster`: the claims it starts with, and those that come and go with its
//! Services. What to do is decided in [`crate::provider_config::tenant`]; addresses are given by the pool.

pub(crate) mod provider;
pub(crate) mod services;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use butler_api::{
    butler::{
        IPAllocation, ProviderConfig,
        provider_config::{AllocationMode, NetworkMode},
    },
    names,
};
use butler_capi::addresses::Shortage;
use butler_runtime::{
    apply::{Applier, full_name},
    clock::SharedClock,
    controller::{Reconciler, Wake},
    error::{ApiError, Classify, chain},
    events::{Events, Note},
    own_writes::OwnWrites,
};
use futures::{Stream, StreamExt, stream};
use jiff::Timestamp;
use kube::{
    Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    runtime::reflector::ObjectRef,
};
pub use services::{LookError, TenantServices, ThroughKubeconfig, demand};

use crate::{
    Feeds, MANAGER, Surroundings,
    network_pool::Known,
    provider_config::{
        self,
        tenant::{self, Demand, Tenant},
    },
    shortages::Shortages,
    slim::ClusterSummary,
};

/// How often a cluster whose addresses follow the demand is looked at.
const LOOK: Duration = Duration::from_secs(15);

/// Clusters for which no pool has room.
#[derive(Clone, Default)]
struct Blocked(Arc<Mutex<HashSet<ObjectRef<ClusterSummary>>>>);

impl Blocked {
    fn lock(&self) -> MutexGuard<'_, HashSet<ObjectRef<ClusterSummary>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reconciles the addresses of clusters.
pub struct Controller<S> {
    feeds: Arc<Feeds>,
    applier: Applier,
    events: Events,
    clock: SharedClock,
    services: S,
    blocked: Blocked,
    shortages: Shortages,
}

/// Clusters to look at because a claim of theirs, or something that they draw from, changed.
pub(crate) fn triggers<S>(
    feeds: &Arc<Feeds>,
    controller: &Controller<S>,
) -> impl Stream<Item = ObjectRef<ClusterSummary>> + Send + use<S> {
    let known = Arc::clone(feeds);
    let claims = feeds.allocations.subscribe().map(move |change| {
        known.claims.note(&change);
        let cluster = &change.object().spec.tenant_cluster_ref;
        vec![ObjectRef::new(&cluster.name).within(&cluster.namespace)]
    });
    let blocked = controller.blocked.clone();
    let pools = feeds
        .pools
        .subscribe()
        .map(move |_| blocked.lock().drain().collect());
    let (store, mut known) = (feeds.clusters.store(), Known::default());
    let providers = feeds.providers.subscribe().map(move |change| {
        let generation = change.object().metadata.generation.unwrap_or_default();
        if !known.is_news(&change, &generation.to_string()) {
            return Vec::new();
        }
        let all = store.state();
        all.iter()
            .map(|cluster| ObjectRef::from_obj(&**cluster))
            .collect()
    });
    stream::select(claims, stream::select(pools, providers)).flat_map(stream::iter)
}

impl<S: TenantServices> Reconciler for Controller<S> {
    type Object = ClusterSummary;
    type Error = ApiError;
    const NAME: &'static str = "tenant-addresses";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, cluster: Arc<ClusterSummary>) -> Result<Wake, ApiError> {
        let Some(config) = self.drawn_from(&cluster) else {
            self.note(&cluster, None);
            return Ok(Wake::OnChange);
        };
        let network = &config.spec.network;
        let mode = network
            .load_balancer
            .clone()
            .unwrap_or_default()
            .allocation_mode;
        let seen = match mode {
            AllocationMode::Static => None,
            AllocationMode::Elastic => self.look(&cluster).await,
        };
        let now = self.clock.now();
        let world = provider_config::observe(&self.feeds, &config);
        let plan = tenant::plan(
            network,
            &tenant(&cluster),
            &provider_config::candidates(&world),
            &self.claims_of(&cluster),
            seen.as_deref(),
            now,
        );
        self.carry_out(&cluster, &world, &plan).await?;
        Ok(match mode {
            AllocationMode::Static => Wake::OnChange,
            AllocationMode::Elastic if cluster.status.kubeconfig_secret_ref.is_none() => {
                Wake::OnChange
            }
            AllocationMode::Elastic => Wake::After(until(plan.again, now).min(LOOK)),
        })
    }
}

impl<S: TenantServices> Controller<S> {
    pub(crate) fn new(
        client: &Client,
        feeds: &Arc<Feeds>,
        surroundings: &Surroundings,
        shortages: Shortages,
        services: S,
    ) -> Self {
        let clock = Arc::clone(&surroundings.clock);
        Self {
            feeds: Arc::clone(feeds),
            applier: Applier::new(client.clone(), MANAGER),
            events: Events::new(client.clone(), MANAGER, Arc::clone(&clock)),
            clock,
            services,
            blocked: Blocked::default(),
            shortages,
        }
    }

    /// The provider whose pools the cluster draws from, if it draws from any.
    fn drawn_from(&self, cluster: &ClusterSummary) -> Option<Arc<ProviderConfig>> {
        if cluster.metadata.deletion_timestamp.is_some() || cluster.has_own_addresses() {
            return None;
        }
        let config = provider::provider(&self.feeds, cluster)?;
        (config.spec.network.mode != NetworkMode::Cloud).then_some(config)
    }

    fn note(&self, cluster: &ClusterSummary, shortage: Option<Shortage>) {
        let place = cluster.namespace().unwrap_or_default();
        let named = ObjectRef::new(&cluster.name_any()).within(&place);
        let uid = cluster.uid().unwrap_or_default();
        self.shortages.note(&uid, named, shortage);
    }

    /// A tenant that does not answer neither grows nor shrinks, and its first claim is made all the same.
    async fn look(&self, cluster: &ClusterSummary) -> Option<Vec<Demand>> {
        match self.services.look(cluster).await {
            Ok(seen) => seen,
            Err(error) => {
                tracing::info!(
                    error = chain(&error),
                    category = error.category().as_str(),
                    "the Services of a tenant were not seen"
                );
                None
            }
        }
    }

    /// The claims that were made here for exactly this cluster.
    fn claims_of(&self, cluster: &ClusterSummary) -> Vec<IPAllocation> {
        let uid = cluster.uid().unwrap_or_default();
        let ours = self.feeds.claims.of(&self.feeds.allocations, &uid);
        let ours = ours.iter().map(|claim| (**claim).clone());
        ours.filter(|claim| claim.labels().contains_key(names::ALLOCATION_ROLE))
            .collect()
    }

    async fn carry_out(
        &self,
        cluster: &ClusterSummary,
        world: &provider_config::World,
        plan: &tenant::Plan,
    ) -> Result<(), ApiError> {
        for claim in &plan.create {
            let mut claim = claim.clone();
            let mut pools = world.pools.iter();
            let pool = pools.find(|(name, ..)| *name == claim.spec.pool_ref.name);
            claim.metadata.namespace = pool.and_then(|(.., pool)| pool.as_ref()?.namespace());
            // One that an earlier pass made and the watch does not show yet is a conflict: the next pass sees it.
            self.applier.create(&claim).await?;
        }
        let claims = self.claims_of(cluster);
        for claim in claims
            .iter()
            .filter(|claim| plan.delete.contains(&claim.name_any()))
        {
            self.applier.delete(claim).await?;
        }
        for (name, since) in &plan.unused {
            if let Some(claim) = claims.iter().find(|claim| claim.name_any() == *name) {
                self.note_unused(claim, *since).await?;
            }
        }
        self.note(cluster, plan.shortage);
        if let Some(why) = plan.shortage {
            self.blocked.lock().insert(ObjectRef::from_obj(cluster));
            let note = Note {
                warning: true,
                reason: "AddressesMissing",
                action: "Allocate",
                message: format!("load balancers wait for addresses: {why}"),
            };
            self.events.tell(cluster, &note).await;
        }
        Ok(())
    }

    /// Over exactly the claim that was judged.
    async fn note_unused(
        &self,
        claim: &IPAllocation,
        since: Option<Timestamp>,
    ) -> Result<(), ApiError> {
        let change = serde_json::json!({"metadata": {
            "resourceVersion": claim.resource_version(),
            "annotations": tenant::unused_annotation(since),
        }});
        let api = self.applier.beside(claim);
        let patched = api
            .patch(
                &claim.name_any(),
                &PatchParams::default(),
                &Patch::Merge(&change),
            )
            .await;
        let kind = IPAllocation::kind(&());
        patched
            .map(drop)
            .map_err(ApiError::of("annotate", &kind, &full_name(claim)))
    }
}

fn tenant(cluster: &ClusterSummary) -> Tenant {
    let wants = cluster.spec.networking.lb_pool_size;
    Tenant {
        name: cluster.name_any(),
        namespace: cluster.namespace().unwrap_or_default(),
        uid: cluster.uid().unwrap_or_default(),
        wants: wants.and_then(|wants| u32::try_from(wants).ok()),
        needs_some: cluster.needs_addresses(),
    }
}

fn until(then: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = then.map(|then| Duration::try_from(then.duration_since(now)).unwrap_or_default());
    left.unwrap_or(Duration::MAX)
}
