//! `IPAllocation`: the life of a claim besides getting its addresses. Giving them back, being kept for a while so that
//! people see who had what, and being collected when its owner is gone.

mod plan;

use std::{sync::Arc, time::Duration};

use butler_api::{
    addresses::IPAddressClaim,
    butler::{
        IPAllocation, TenantCluster,
        ip_allocation::{AllocationPhase, IPAllocationStatus},
    },
    names,
};
use butler_runtime::{
    apply::Applier,
    clock::SharedClock,
    conditions::{self, Verdict},
    controller::{Reconciler, Wake},
    error::ApiError,
    events::{Events, Note},
    finalizers,
    own_writes::OwnWrites,
    status,
};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, Client, ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};
pub use plan::{Plan, PoolSeen, Step, plan};

use crate::{
    Feeds, MANAGER, Surroundings,
    network_pool::{self, Claim, Known, owner, owner_name, owner_now},
};

/// Reconciles claims.
pub struct Controller {
    feeds: Arc<Feeds>,
    applier: Applier,
    events: Events,
    clock: SharedClock,
}

/// Claims to look at because their pool or their owner came, went or changed.
pub(crate) fn triggers(
    feeds: &Feeds,
) -> impl Stream<Item = ObjectRef<IPAllocation>> + Send + use<> {
    let (store, mut known) = (feeds.allocations.store(), Known::default());
    let pools = feeds.pools.subscribe().map(move |change| {
        let pool = change.object();
        let (namespace, name) = (pool.namespace(), pool.name_any());
        let stage = format!(
            "{:?}/{:?}",
            pool.metadata.generation, pool.metadata.deletion_timestamp
        );
        if !known.is_news(&change, &stage) {
            return Vec::new();
        }
        matching(&store, |claim| {
            claim.spec.pool_ref.name == name && claim.namespace() == namespace
        })
    });
    let (store, mut known) = (feeds.allocations.store(), Known::default());
    let clusters = feeds.clusters.subscribe().map(move |change| {
        let (namespace, name) = (change.object().namespace(), change.object().name_any());
        if !known.is_news(&change, "") {
            return Vec::new();
        }
        matching(&store, |claim| {
            let cluster = &claim.spec.tenant_cluster_ref;
            cluster.name == name && Some(&cluster.namespace) == namespace.as_ref()
        })
    });
    let (store, mut known) = (feeds.allocations.store(), Known::default());
    let address_claims = feeds.address_claims.subscribe().map(move |change| {
        let (namespace, name) = (change.object().namespace(), change.object().name_any());
        if !known.is_news(&change, "") {
            return Vec::new();
        }
        matching(&store, |claim| {
            claim.annotations().get(names::ADDRESS_CLAIM) == Some(&name)
                && Some(&claim.spec.tenant_cluster_ref.namespace) == namespace.as_ref()
        })
    });
    stream::select(pools, stream::select(clusters, address_claims)).flat_map(stream::iter)
}

fn matching(
    store: &Store<IPAllocation>,
    wanted: impl Fn(&IPAllocation) -> bool,
) -> Vec<ObjectRef<IPAllocation>> {
    let claims = store.state_filter(wanted);
    claims
        .iter()
        .map(|claim| ObjectRef::from_obj(&**claim))
        .collect()
}

impl Reconciler for Controller {
    type Object = IPAllocation;
    type Error = ApiError;
    const NAME: &'static str = "ip-allocation";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, claim: Arc<IPAllocation>) -> Result<Wake, ApiError> {
        if claim.metadata.deletion_timestamp.is_some()
            && !finalizers::has(&*claim, names::ALLOCATION_FINALIZER)
        {
            return Ok(Wake::OnChange);
        }
        let now = self.clock.now();
        let seen = Claim::of(
            &claim,
            owner(&claim, owner_now(&self.feeds, &claim).as_deref()),
        );
        let plan = plan(&seen, self.pool_of(&claim), now);
        match plan.step {
            Step::Leave => {}
            Step::NoPool => {
                let name = &claim.spec.pool_ref.name;
                let message = format!("there is no NetworkPool {name} in this namespace");
                let next = IPAllocationStatus {
                    observed_generation: claim.metadata.generation,
                    conditions: self.settle(&claim, Verdict::no("Ready", "PoolNotFound", message)),
                    phase: Some(AllocationPhase::Pending),
                    ..IPAllocationStatus::default()
                };
                self.write(&claim, &next).await?;
            }
            Step::Collect => {
                if !self.collect(&claim).await? {
                    return Ok(Wake::After(Duration::from_secs(1)));
                }
            }
            Step::Release => {
                let message = "the addresses were given back";
                let next = IPAllocationStatus {
                    observed_generation: claim.metadata.generation,
                    conditions: self.settle(&claim, Verdict::no("Ready", "Released", message)),
                    phase: Some(AllocationPhase::Released),
                    released_at: Some(Time(now)),
                    ..claim.status.clone().unwrap_or_default()
                };
                self.write(&claim, &next).await?;
            }
            Step::LetGo => {
                finalizers::remove(&self.api(&claim), &*claim, names::ALLOCATION_FINALIZER).await?;
            }
        }
        Ok(plan.wake)
    }
}

impl Controller {
    pub(crate) fn new(client: &Client, feeds: &Arc<Feeds>, surroundings: &Surroundings) -> Self {
        let clock = Arc::clone(&surroundings.clock);
        Self {
            feeds: Arc::clone(feeds),
            applier: Applier::new(client.clone(), MANAGER),
            events: Events::new(client.clone(), MANAGER, Arc::clone(&clock)),
            clock,
        }
    }

    fn api(&self, claim: &IPAllocation) -> Api<IPAllocation> {
        let namespace = claim.namespace().unwrap_or_default();
        Api::namespaced(self.applier.client().clone(), &namespace)
    }

    fn pool_of(&self, claim: &IPAllocation) -> PoolSeen {
        let namespace = claim.namespace();
        let pool = self
            .feeds
            .pools
            .get(namespace.as_deref(), &claim.spec.pool_ref.name);
        match pool {
            None => PoolSeen::Missing,
            Some(pool) if pool.metadata.deletion_timestamp.is_some() => PoolSeen::Ending,
            Some(pool) => PoolSeen::Keeps(network_pool::validate::retain(&pool)),
        }
    }

    fn settle(&self, claim: &IPAllocation, verdict: Verdict) -> Vec<Condition> {
        let held = claim
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice());
        let generation = claim.metadata.generation;
        conditions::settle(
            held.unwrap_or_default(),
            &[verdict],
            generation,
            self.clock.now(),
        )
    }

    /// Over exactly the claim that was seen: the pool writes the same status, and neither may undo the other.
    async fn write(&self, claim: &IPAllocation, next: &IPAllocationStatus) -> Result<(), ApiError> {
        if claim.status.as_ref() == Some(next) {
            return Ok(());
        }
        status::report_over(&self.applier, claim, next)
            .await
            .map(drop)
    }

    /// Deletes a claim whose owner is gone, if a live read says so too: a watch can be behind, and what is deleted does
    /// not come back. Returns whether it was deleted.
    async fn collect(&self, claim: &IPAllocation) -> Result<bool, ApiError> {
        let present = self.owner_live(claim).await?;
        let network_pool::Owner::Gone(uid) = owner(claim, present.as_deref()) else {
            return Ok(false);
        };
        let note = Note {
            warning: false,
            reason: "OrphanedAllocation",
            action: "Collect",
            message: format!(
                "{} with UID {uid} is gone: its addresses are given back",
                owner_name(claim)
            ),
        };
        self.events.tell(claim, &note).await;
        self.applier.delete(claim).await?;
        Ok(true)
    }

    async fn owner_live(&self, claim: &IPAllocation) -> Result<Option<String>, ApiError> {
        let cluster = &claim.spec.tenant_cluster_ref;
        let client = self.applier.client().clone();
        let name = owner_name(claim);
        let failed = ApiError::of("get", "owner", &name);
        if let Some(address_claim) = claim.annotations().get(names::ADDRESS_CLAIM) {
            let api: Api<IPAddressClaim> = Api::namespaced(client, &cluster.namespace);
            let found = api.get_metadata_opt(address_claim).await.map_err(failed)?;
            return Ok(found.and_then(|found| found.uid()));
        }
        let api: Api<TenantCluster> = Api::namespaced(client, &cluster.namespace);
        let found = api.get_metadata_opt(&cluster.name).await.map_err(failed)?;
        Ok(found.and_then(|found| found.uid()))
    }
}
