//! What stands of a cluster, put together for its plan.

use std::sync::Arc;

use butler_api::{
    butler::{TenantAddon, TenantCluster},
    names,
};
use butler_capi::{
    Observed, TenantSpec,
    day2::Calls,
    observe::{Inputs, Standing as NamespaceStanding},
    plan::inside::Inside,
    quota::Quota,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{
    Controller, Error, addons,
    carry_out::{Place, Standing, index},
    observe, pools,
};
use crate::namespaces;

impl Controller {
    /// From the watches.
    pub(super) async fn observe(
        &self,
        raw: &TenantCluster,
        spec: &TenantSpec,
        place: &Place<'_>,
    ) -> Result<(Observed, Standing), Error> {
        let uid = &spec.identity.uid;
        let machines = self.children.machines.all_in(place.namespace);
        let machines = machines.iter().map(|packed| json!(packed.unpack()));
        let machines: Vec<Value> = machines.collect();
        let namespace = self.feeds.namespaces.get(None, place.namespace);
        let addons = addons::watched(&self.feeds, &spec.identity);
        let mut objects = self.children.objects(place.namespace);
        let kinds = spec.infrastructure.kinds();
        match self.infrastructure.objects(kinds, place.namespace).await {
            Some(known) => objects.extend(known),
            None => objects.extend(place.infrastructure(kinds).await?),
        }
        objects.extend(addons.iter().map(|addon| addons::described(addon)));
        objects.retain(|object| observe::is_of(object, uid));
        let seen = Seen {
            objects: &objects,
            machines: &machines,
            namespace: namespace.as_deref(),
            addons: &addons,
        };
        let mut observed = observed(raw, uid, &seen);
        if observed.pools.values().any(pools::seems_replaced) {
            let sets = place.list("cluster.x-k8s.io/v1beta2", "MachineSet");
            pools::distrust(&mut observed.pools, &sets.await?);
        }
        let mut standing = index(objects);
        if let Some(namespace) = namespace {
            let value = observe::described(json!(*namespace), "v1", "Namespace");
            standing.insert(observe::id(&value), value);
        }
        Ok((observed, standing))
    }
}

/// What stands of a cluster.
pub(super) struct Seen<'a> {
    pub(super) objects: &'a [Value],
    pub(super) machines: &'a [Value],
    pub(super) namespace: Option<&'a Namespace>,
    pub(super) addons: &'a [Arc<TenantAddon>],
}

/// What is known of a cluster, from what stands of it.
pub(super) fn observed(raw: &TenantCluster, uid: &str, seen: &Seen<'_>) -> Observed {
    let Seen {
        objects,
        machines,
        namespace,
        addons,
    } = *seen;
    let find = |kind: &str| objects.iter().find(|object| observe::is_a(object, kind));
    Observed {
        deletion: raw.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        forced: raw.annotations().contains_key(names::FORCE_DELETE),
        phase: raw.status.as_ref().and_then(|status| status.phase),
        is_reported: is_reported(raw),
        retry: raw.annotations().contains_key(names::RETRY),
        namespace: standing_of(namespace, uid),
        control_plane: find("StewardControlPlane").and_then(observe::control_plane),
        cluster: find("Cluster").map(observe::cluster),
        pools: pools::all(objects, machines),
        machines: machines.iter().map(observe::machine).collect(),
        objects: objects
            .iter()
            .map(|object| (observe::id(object), observe::hash(object)))
            .collect(),
        addons: addons::facts(addons, uid),
        addresses: None,
        dns: None,
        inside: Inside::default(),
        left: None,
        remains: None,
        removed_apis: Calls::default(),
        failure: observe::failure(objects, machines),
        quota: Quota::default(),
        inputs: Inputs::default(),
    }
}

pub(super) fn is_reported(raw: &TenantCluster) -> bool {
    let status = raw.status.as_ref();
    status.and_then(|status| status.observed_generation) == raw.metadata.generation
}

pub(super) fn standing_of(namespace: Option<&Namespace>, uid: &str) -> NamespaceStanding {
    match namespaces::Standing::of(namespace, uid) {
        namespaces::Standing::Missing => NamespaceStanding::Missing,
        namespaces::Standing::Ours(_) => NamespaceStanding::Ours,
        namespaces::Standing::Ending => NamespaceStanding::Ending,
        namespaces::Standing::Foreign => NamespaceStanding::Foreign,
    }
}
