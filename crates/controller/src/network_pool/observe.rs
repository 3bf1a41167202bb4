//! The world of a pool as plain data, from the watches.

use std::sync::Arc;

use butler_api::{
    butler::{IPAllocation, NetworkPool, network_pool::NetworkPoolStatus},
    names,
    types::AddressRange,
};
use jiff::Timestamp;
use kube::ResourceExt;

use super::{
    Claim, Controller, Invalid, Plan, Spec, State, Tier, World, claim, epoch, infrastructure,
    owner, plan, report, validate,
};
use crate::Feeds;

impl Controller {
    /// The claims on a pool that the watch shows.
    pub(super) fn claims_of(&self, pool: &NetworkPool) -> Vec<Arc<IPAllocation>> {
        let (namespace, name) = (pool.namespace(), pool.name_any());
        self.feeds.allocations.store().state_filter(|claim| {
            claim.spec.pool_ref.name == name && claim.metadata.namespace == namespace
        })
    }

    /// What has to be done, and the status that goes with it.
    pub(super) fn decide(
        &self,
        pool: &NetworkPool,
        claims: &[Arc<IPAllocation>],
        now: Timestamp,
    ) -> (Plan, NetworkPoolStatus) {
        let spec = validate(pool);
        let world = self.observe(pool, &spec, claims);
        let plan = plan(&spec, &world, now);
        let next = report::status(pool, &spec, &world, &plan, now);
        (plan, next)
    }

    fn observe(
        &self,
        pool: &NetworkPool,
        spec: &Result<Spec, Invalid>,
        claims: &[Arc<IPAllocation>],
    ) -> World {
        let mut claims: Vec<Claim> = claims
            .iter()
            .map(|claim| {
                Claim::of(
                    claim,
                    owner(claim, owner_now(&self.feeds, claim).as_deref()),
                )
            })
            .collect();
        claims.sort_by(|a, b| a.uid.cmp(&b.uid));
        let held = pool
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let mut world = World {
            claims,
            recorded: epoch::recorded(pool),
            tier: Tier::told(held),
            ..World::default()
        };
        let Ok(spec) = spec else { return world };
        let cidr = spec.layout.cidr();
        world.infrastructure = infrastructure::seen(
            cidr,
            self.feeds
                .services
                .store()
                .state()
                .iter()
                .map(|service| &**service),
            self.feeds.nodes.store().state().iter().map(|node| &**node),
            self.feeds
                .machines
                .store()
                .state()
                .iter()
                .map(|machine| &**machine),
        );
        let others = self.others(pool, spec);
        for other in &others {
            world.elsewhere.extend(self.held_under(other));
        }
        let age = |pool: &NetworkPool| (pool.creation_timestamp(), pool.uid());
        let mut rivals: Vec<String> = others
            .iter()
            .filter(|other| age(other) < age(pool))
            .map(|other| butler_runtime::apply::full_name(&**other))
            .collect();
        rivals.sort();
        world.rivals = rivals;
        world
    }

    /// Other pools that could hand out an address of this one.
    fn others(&self, pool: &NetworkPool, spec: &Spec) -> Vec<Arc<NetworkPool>> {
        self.feeds.pools.store().state_filter(|other| {
            let theirs = || validate(other).is_ok_and(|theirs| theirs.layout.meets(&spec.layout));
            other.uid() != pool.uid() && theirs()
        })
    }

    /// What claims on another pool hold, or gave back and may still announce.
    fn held_under(&self, pool: &NetworkPool) -> Vec<AddressRange> {
        let claims = self.claims_of(pool);
        let known = claims.iter().filter(|held| {
            let state = Claim::of(held, claim::Owner::Missing(String::new())).state;
            !matches!(state, State::Waiting)
        });
        let promised = epoch::recorded(pool)
            .into_iter()
            .flat_map(|held| held.ranges);
        known
            .flat_map(|held| claim::ranges(held))
            .chain(promised)
            .collect()
    }
}

/// UID of whoever has the owner's name now.
pub(crate) fn owner_now(feeds: &Feeds, claim: &IPAllocation) -> Option<String> {
    let cluster = &claim.spec.tenant_cluster_ref;
    match claim.annotations().get(names::ADDRESS_CLAIM) {
        Some(name) => feeds
            .address_claims
            .get(Some(&cluster.namespace), name)?
            .uid(),
        None => feeds
            .clusters
            .get(Some(&cluster.namespace), &cluster.name)?
            .uid(),
    }
}
