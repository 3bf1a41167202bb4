//! `NetworkPool`: the only place that hands out addresses.
//!
//! Watches wake the pass and show it the world; a grant is written down in the status of the pool, over exactly the
//! version that it was decided on, before it is written on its claim (ADR-0017).

mod claim;
mod epoch;
mod grant;
pub mod infrastructure;
mod metrics;
mod observe;
mod plan;
mod report;
mod say;
mod triggers;
pub(crate) mod validate;

use std::{collections::HashMap, sync::Arc, time::Duration};

use butler_api::{
    butler::{IPAllocation, NetworkPool, network_pool::NetworkPoolStatus},
    names,
};
use butler_runtime::{
    apply::{Applier, full_name},
    clock::SharedClock,
    controller::{Reconciler, Wake},
    error::{ApiError, Category, Classify},
    events::Events,
    finalizers,
    own_writes::OwnWrites,
    status,
};
pub use claim::{Claim, Owner, State, owner, owner_name, ranges};
use epoch::{Epoch, Epochs, LAG, version};
use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt, api::ListParams};
pub use metrics::PoolMetrics;
pub(crate) use observe::owner_now;
pub use plan::{BATCH, Grant, Plan, Recorded, Refused, World, plan};
pub use say::Tier;
pub(crate) use triggers::{Known, triggers};
pub use validate::{Invalid, Spec, validate};

use crate::{Feeds, MANAGER, Surroundings};

/// Claims written at the same time.
const WRITERS: usize = 32;
/// When to judge claims again that were not as they had been judged.
const AGAIN: Duration = Duration::from_millis(250);
/// How often a pass starts over because somebody else changed the pool meanwhile.
const ATTEMPTS: usize = 3;

/// Reconciles pools.
pub struct Controller {
    feeds: Arc<Feeds>,
    applier: Applier,
    events: Events,
    clock: SharedClock,
    metrics: PoolMetrics,
    epochs: Epochs,
}

impl Reconciler for Controller {
    type Object = NetworkPool;
    type Error = ApiError;
    const NAME: &'static str = "network-pool";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, pool: Arc<NetworkPool>) -> Result<Wake, ApiError> {
        if finalizers::has(&*pool, names::POOL_FINALIZER) {
        } else if pool.metadata.deletion_timestamp.is_some() {
            return Ok(Wake::OnChange);
        } else {
            finalizers::add(&self.pools(&pool), &*pool, names::POOL_FINALIZER).await?;
            // The watch brings the pool as it is now.
            return Ok(Wake::OnChange);
        }
        let mut attempt = 1;
        loop {
            match self.pass(&pool).await {
                Err(error) if attempt < ATTEMPTS && error.category() == Category::Conflict => {
                    attempt += 1;
                }
                result => return result,
            }
        }
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
            metrics: surroundings.pools.clone(),
            epochs: Epochs::default(),
        }
    }

    fn pools(&self, pool: &NetworkPool) -> Api<NetworkPool> {
        let namespace = pool.namespace().unwrap_or_default();
        Api::namespaced(self.applier.client().clone(), &namespace)
    }

    async fn pass(&self, watched: &NetworkPool) -> Result<Wake, ApiError> {
        let now = self.clock.now();
        let uid = watched.uid().unwrap_or_default();
        // Taken out: whatever goes wrong below, the next pass begins with a live read.
        let epoch = self.epochs.take(&uid).filter(|epoch| {
            version(watched) <= version(&epoch.pool)
                && epoch
                    .behind_since()
                    .is_none_or(|since| now.duration_since(since) < LAG)
        });
        let mut epoch = if let Some(epoch) = epoch {
            epoch
        } else {
            // What the watches show decides whether there is anything to do at all: a restart reads nothing live.
            let claims = self.claims_of(watched);
            let (work, next) = self.decide(watched, &claims, now);
            if work.idle(watched, &next, &claims, now) {
                self.measure(watched, &work);
                return Ok(work.wake);
            }
            self.begin(watched, now).await?
        };
        let claims = epoch.merge(self.claims_of(watched));
        let (work, next) = self.decide(&epoch.pool, &claims, now);
        self.measure(watched, &work);
        if work.release {
            // Nothing may hold an address that the watches do not show yet.
            let epoch = self.begin(watched, now).await?;
            let mut live = epoch.clone();
            let (work, _) = self.decide(&epoch.pool, &live.merge(Vec::new()), now);
            if work.release {
                finalizers::remove(&self.pools(watched), &epoch.pool, names::POOL_FINALIZER)
                    .await?;
                return Ok(Wake::OnChange);
            }
        }
        let mut changed = false;
        if !work.idle(&epoch.pool, &next, &claims, now) {
            if epoch.pool.status.as_ref() != Some(&next) {
                epoch.pool = status::report_over(&self.applier, &epoch.pool, &next).await?;
            }
            changed = self.carry_out(&mut epoch, &work, &claims, now).await?;
            for note in &work.notes {
                self.events.tell(watched, note).await;
            }
        }
        let lagging = epoch.behind_since().is_some();
        self.epochs.put(uid, epoch);
        Ok(match work.wake {
            // The watch usually tells first; a refusal that nothing else follows must not be the last word.
            _ if changed => Wake::After(AGAIN),
            Wake::OnChange if lagging => Wake::After(LAG.unsigned_abs()),
            wake => wake,
        })
    }

    /// Begins an epoch: the pool first, then the claims, so that every grant recorded before is in one of the two.
    async fn begin(&self, watched: &NetworkPool, now: Timestamp) -> Result<Epoch, ApiError> {
        let name = watched.name_any();
        let pool = self.pools(watched).get(&name).await.map_err(ApiError::of(
            "get",
            "NetworkPool",
            &full_name(watched),
        ))?;
        let namespace = watched.namespace().unwrap_or_default();
        let api: Api<IPAllocation> = Api::namespaced(self.applier.client().clone(), &namespace);
        let of_pool = ListParams::default().fields(&format!("spec.poolRef.name={name}"));
        let claims = api.list(&of_pool).await.map_err(ApiError::of(
            "list",
            "IPAllocations of",
            &full_name(watched),
        ))?;
        Ok(Epoch::begin(pool, claims.items, now))
    }

    /// Writes what was decided on the claims; the grants are on record by now. Returns whether one of them was not as it
    /// had been judged, and has to be judged again.
    async fn carry_out(
        &self,
        epoch: &mut Epoch,
        work: &Plan,
        claims: &[Arc<IPAllocation>],
        now: Timestamp,
    ) -> Result<bool, ApiError> {
        let by_uid = by_uid(claims);
        let (namespace, pool) = (
            epoch.pool.namespace().unwrap_or_default(),
            epoch.pool.name_any(),
        );
        let mut tasks = Vec::new();
        for grant in &work.grants {
            if let Some(claim) = by_uid.get(grant.what.uid.as_str()) {
                let (applier, claim, grant) =
                    (self.applier.clone(), Arc::clone(claim), grant.clone());
                let give = async move { grant::give(&applier, &claim, &grant, now).await };
                tasks.push(give.map(|outcome| (outcome, "success")).boxed());
            }
        }
        for refused in &work.refusals {
            let claim = by_uid.get(refused.uid.as_str());
            if let Some(claim) = claim.filter(|claim| !grant::says(claim, refused, now)) {
                let (applier, claim, refused) =
                    (self.applier.clone(), Arc::clone(claim), refused.clone());
                let refuse = async move { grant::refuse(&applier, &claim, &refused, now).await };
                tasks.push(refuse.map(|outcome| (outcome, "failed")).boxed());
            }
        }
        let written: Vec<_> = stream::iter(tasks)
            .buffer_unordered(WRITERS)
            .collect()
            .await;
        let (mut failure, mut changed) = (None, false);
        for (outcome, result) in written {
            match outcome {
                Ok(Some(claim)) => {
                    self.metrics.count(&namespace, &pool, result);
                    epoch.note(claim, now);
                }
                Ok(None) => changed = true,
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(changed), Err)
    }

    fn measure(&self, pool: &NetworkPool, work: &Plan) {
        if let Some(figures) = &work.figures {
            let namespace = pool.namespace().unwrap_or_default();
            self.metrics
                .set(&namespace, &pool.name_any(), figures, work.holders);
        }
    }
}

impl Plan {
    /// Whether nothing has to be written.
    fn idle(
        &self,
        pool: &NetworkPool,
        next: &NetworkPoolStatus,
        claims: &[Arc<IPAllocation>],
        now: Timestamp,
    ) -> bool {
        if self.release || !self.grants.is_empty() || pool.status.as_ref() != Some(next) {
            return false;
        }
        let claims = by_uid(claims);
        self.refusals.iter().all(|refused| {
            let claim = claims.get(refused.uid.as_str());
            claim.is_none_or(|claim| grant::says(claim, refused, now))
        })
    }
}

fn by_uid(claims: &[Arc<IPAllocation>]) -> HashMap<&str, &Arc<IPAllocation>> {
    let known = claims
        .iter()
        .filter_map(|claim| Some((claim.metadata.uid.as_deref()?, claim)));
    known.collect()
}
