//! Which pools to look at because something changed.

use std::collections::HashMap;

use butler_api::butler::{IPAllocation, NetworkPool};
use butler_runtime::watch::{Change, Watchable};
use futures::{Stream, StreamExt, stream};
use kube::{
    Resource, ResourceExt,
    runtime::reflector::{ObjectRef, Store},
};

use super::Controller;
use crate::Feeds;

/// Pools whose claims, neighbours, or surroundings changed. What is gone is forgotten on the way.
pub(crate) fn triggers(
    feeds: &Feeds,
    controller: &Controller,
) -> impl Stream<Item = ObjectRef<NetworkPool>> + Send + use<> {
    let epochs = controller.epochs.clone();
    let claims = feeds.allocations.subscribe().map(move |change| {
        if let Change::Gone(claim) = &change {
            epochs.claim_gone(&claim.uid().unwrap_or_default());
        }
        vec![pool_of(change.object())]
    });

    let (epochs, metrics) = (controller.epochs.clone(), controller.metrics.clone());
    let store = feeds.pools.store();
    let mut known = Known::default();
    let pools = feeds.pools.subscribe().map(move |change| {
        if let Change::Gone(pool) = &change {
            epochs.pool_gone(&pool.uid().unwrap_or_default());
            metrics.remove(&pool.namespace().unwrap_or_default(), &pool.name_any());
        }
        // Two pools can overlap: a change of one is news for the others. Its status is not.
        let generation = change.object().metadata.generation.unwrap_or_default();
        if known.is_news(&change, &generation.to_string()) {
            all(&store)
        } else {
            Vec::new()
        }
    });

    let (store, mut known) = (feeds.allocations.store(), Known::default());
    let clusters = feeds.clusters.subscribe().map(move |change| {
        if !known.is_news(&change, "") {
            return Vec::new();
        }
        let (namespace, name) = (change.object().namespace(), change.object().name_any());
        let of_cluster = store.state_filter(|claim: &IPAllocation| {
            let cluster = &claim.spec.tenant_cluster_ref;
            cluster.name == name && Some(&cluster.namespace) == namespace.as_ref()
        });
        of_cluster.iter().map(|claim| pool_of(claim)).collect()
    });

    let store = feeds.pools.store();
    let services = feeds.services.subscribe().map(drop);
    let nodes = feeds.nodes.subscribe().map(drop);
    let machines = feeds.machines.subscribe().map(drop);
    let around =
        stream::select(services, stream::select(nodes, machines)).map(move |()| all(&store));

    let claims_and_clusters = stream::select(claims, clusters);
    stream::select(claims_and_clusters, stream::select(pools, around)).flat_map(stream::iter)
}

/// The pool that a claim draws from.
fn pool_of(claim: &IPAllocation) -> ObjectRef<NetworkPool> {
    ObjectRef::new(&claim.spec.pool_ref.name).within(&claim.namespace().unwrap_or_default())
}

fn all(pools: &Store<NetworkPool>) -> Vec<ObjectRef<NetworkPool>> {
    pools
        .state()
        .iter()
        .map(|pool| ObjectRef::from_obj(&**pool))
        .collect()
}

/// What was last seen of each object, to tell news from noise.
#[derive(Default)]
pub(crate) struct Known(HashMap<String, String>);

impl Known {
    /// Whether the object came, went, or is at another `stage` than it was.
    pub(crate) fn is_news<K: Watchable + Resource<DynamicType = ()>>(
        &mut self,
        change: &Change<K>,
        stage: &str,
    ) -> bool {
        let uid = change.object().uid().unwrap_or_default();
        match change {
            Change::Present(_) => self
                .0
                .insert(uid, stage.to_owned())
                .is_none_or(|held| held != stage),
            Change::Gone(_) => {
                self.0.remove(&uid);
                true
            }
        }
    }
}
