//! The addresses of a cluster's load balancers as its plan sees them, from the watches alone.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use butler_api::butler::{
    IPAllocation, NetworkPool, ProviderConfig, TenantCluster,
    ip_allocation::{AllocationPhase, AllocationType},
};
use butler_capi::addresses::{Claim, Draw, Facts, Room, Source};
use butler_ipam::demand::choose;
use butler_runtime::{apply::full_name, sync::lock, watch::Change};
use futures::{Stream, StreamExt as _, stream};
use kube::runtime::reflector::ObjectRef;

use super::sources::Sources;
use crate::{Feeds, network_pool::Known, provider_config};

/// Clusters without a claim: what is said of them hangs on pools, and no pool names them.
#[derive(Clone, Default)]
pub(super) struct Unserved(Arc<Mutex<HashSet<ObjectRef<TenantCluster>>>>);

impl Unserved {
    /// What is seen of a cluster's addresses.
    pub(super) fn look(&self, feeds: &Feeds, sources: &Sources) -> Facts {
        let identity = &sources.spec.identity;
        let cluster = ObjectRef::new(identity.name.as_str()).within(&identity.namespace);
        let Source::Pools(draw) = &sources.spec.addresses else {
            self.forget(&cluster);
            return Facts::default();
        };
        let claims = claims(feeds, &identity.uid);
        if draw.count == 0 || !claims.is_empty() {
            self.forget(&cluster);
            return Facts {
                claims,
                ..Facts::default()
            };
        }
        // First: a pool that changes while it is looked at wakes the cluster again.
        self.add(cluster);
        let pools = rooms(feeds, &sources.provider, draw);
        Facts {
            claims,
            pools,
            ..Facts::default()
        }
    }

    /// What is said of a cluster hangs on pools; whether that is new.
    pub(super) fn add(&self, cluster: ObjectRef<TenantCluster>) -> bool {
        lock(&self.0).insert(cluster)
    }

    /// It does not hang on them any more.
    pub(super) fn forget(&self, cluster: &ObjectRef<TenantCluster>) {
        lock(&self.0).remove(cluster);
    }

    fn take(&self) -> HashSet<ObjectRef<TenantCluster>> {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// Clusters without a claim, whenever a pool may have room for them, or has none any more.
pub(super) fn triggers<P>(
    pools: P,
    unserved: &Unserved,
) -> impl Stream<Item = ObjectRef<TenantCluster>> + Send + use<P>
where
    P: Stream<Item = Change<NetworkPool>> + Send,
{
    let (unserved, mut known) = (unserved.clone(), Known::default());
    let woken = pools.map(move |change| {
        let seen = provider_config::candidate("", 0, change.object());
        let stage = format!("{} {}", seen.ready, seen.largest);
        if known.is_news(&change, &stage) {
            unserved.take()
        } else {
            HashSet::new()
        }
    });
    woken.flat_map(stream::iter)
}

/// Which of a provider's pools have what a cluster starts with.
fn rooms(feeds: &Feeds, provider: &ProviderConfig, draw: &Draw) -> Vec<(String, Room)> {
    let world = provider_config::observe(feeds, provider);
    let there = provider_config::candidates(&world);
    let room = |name: &str| match there.iter().find(|pool| pool.name == name) {
        None => Room::Missing,
        Some(pool) if !pool.ready => Room::Closed,
        Some(pool) => match choose(std::slice::from_ref(pool), draw.count.into()) {
            Some(_) => Room::Enough,
            None => Room::Full,
        },
    };
    let named = world.pools.iter();
    named.map(|(name, ..)| (name.clone(), room(name))).collect()
}

/// The claims of a cluster for its load balancers, without those that go.
pub(super) fn claims(feeds: &Feeds, uid: &str) -> Vec<Claim> {
    let mut claims = feeds.claims.of(&feeds.allocations, uid);
    claims.retain(|claim| {
        claim.spec.type_ == AllocationType::Loadbalancer
            && claim.metadata.deletion_timestamp.is_none()
    });
    claims.iter().map(|claim| seen(claim)).collect()
}

fn seen(claim: &IPAllocation) -> Claim {
    let status = claim.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    let said = conditions.find(|condition| condition.type_ == "Ready");
    let given = status.filter(|status| status.phase == Some(AllocationPhase::Allocated));
    Claim {
        name: full_name(claim),
        pool: claim.spec.pool_ref.name.clone(),
        ranges: given
            .map(|status| status.ranges.clone())
            .unwrap_or_default(),
        reason: said.map(|said| said.reason.clone()).unwrap_or_default(),
        message: said.map(|said| said.message.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;

    fn pool(free: i64, largest: i64) -> Change<NetworkPool> {
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let pool = json!({
            "metadata": {"name": "ten", "namespace": "butler-system", "uid": "1"},
            "spec": {"cidr": "10.40.0.0/24"},
            "status": {"conditions": [ready], "availableIPs": free, "largestFreeBlock": largest},
        });
        Change::Present(Arc::new(serde_json::from_value(pool).unwrap()))
    }

    #[test]
    fn clusters_without_a_claim_are_woken_when_a_pool_has_another_longest_run_and_not_before() {
        let unserved = Unserved::default();
        let (send, receive) = futures::channel::mpsc::unbounded();
        let mut woken = triggers(receive, &unserved);
        let mut next = |change: Change<NetworkPool>| {
            lock(&unserved.0).insert(ObjectRef::new("demo").within("team-a"));
            send.unbounded_send(change).unwrap();
            let first = woken.next().now_or_never().flatten();
            first.map(|cluster| cluster.name)
        };
        let demo = Some("demo".to_owned());
        assert_eq!(next(pool(2, 2)), demo, "the pool is new");
        assert_eq!(next(pool(1, 2)), None, "nothing that counts has changed");
        assert_eq!(next(pool(4, 3)), demo, "there is more room");
        let Change::Present(gone) = pool(4, 3) else {
            panic!("it was made so")
        };
        assert_eq!(next(Change::Gone(gone)), demo, "the pool is gone");
    }

    #[test]
    fn only_what_was_granted_counts_as_given() {
        let claim = |phase: &str| {
            let claim = json!({
                "metadata": {"name": "lb-0", "namespace": "butler-system"},
                "spec": {"poolRef": {"name": "ten"}, "type": "loadbalancer",
                    "tenantClusterRef": {"name": "demo", "namespace": "team-a"}},
                "status": {"phase": phase, "ranges": ["10.40.0.1-10.40.0.3"]},
            });
            seen(&serde_json::from_value(claim).unwrap()).ranges
        };
        assert_eq!(claim("Allocated"), ["10.40.0.1-10.40.0.3"]);
        for phase in ["Pending", "Released", "Failed"] {
            assert!(claim(phase).is_empty(), "{phase}");
        }
    }
}
