//! The `TenantAddon`s of a cluster as its plan sees them, and the addresses that its load balancer may give out.

use std::{collections::BTreeMap, sync::Arc};

use butler_api::{
    butler::{
        TenantAddon, TenantCluster,
        tenant_addon::TenantAddonPhase,
        tenant_cluster::{AddonManager, AddonState, ObservedAddon},
    },
    names,
};
use butler_capi::{
    TenantSpec,
    addons::{AddonSet, Facts, Role},
    names::Identity,
};
use butler_runtime::{apply::Applier, conditions, error::ApiError};
use futures::{Stream, StreamExt as _, stream};
use kube::{Api, Resource as _, ResourceExt as _, api::ListParams, runtime::reflector::ObjectRef};
use serde_json::{Value, json};

use super::{network, observe};
use crate::Feeds;

/// Clusters whose addons, or whose addresses, changed.
pub(super) fn triggers(
    feeds: &Arc<Feeds>,
) -> impl Stream<Item = ObjectRef<TenantCluster>> + Send + use<> {
    let addons = feeds.addons.subscribe().map(|change| {
        let addon = change.object();
        let cluster = ObjectRef::new(&addon.spec.cluster_ref.name);
        cluster.within(&addon.namespace().unwrap_or_default())
    });
    let known = Arc::clone(feeds);
    let addresses = feeds.allocations.subscribe().map(move |change| {
        known.claims.note(&change);
        let cluster = &change.object().spec.tenant_cluster_ref;
        ObjectRef::new(&cluster.name).within(&cluster.namespace)
    });
    stream::select(addons, addresses)
}

/// The addons that name a cluster, from the watch.
pub(super) fn watched(feeds: &Feeds, identity: &Identity) -> Vec<Arc<TenantAddon>> {
    let mut found = feeds.addons.all_in(&identity.namespace);
    found.retain(|addon| addon.spec.cluster_ref.name == identity.name.as_str());
    found
}

/// The same as they are now.
pub(super) async fn live(
    applier: &Applier,
    identity: &Identity,
) -> Result<Vec<Arc<TenantAddon>>, ApiError> {
    let api: Api<TenantAddon> = Api::namespaced(applier.client().clone(), &identity.namespace);
    let listed = api.list(&ListParams::default()).await;
    let listed = listed.map_err(ApiError::of("list", "TenantAddons of", identity.cluster()))?;
    let ours = listed.items.into_iter();
    let ours = ours.filter(|addon| addon.spec.cluster_ref.name == identity.name.as_str());
    Ok(ours.map(Arc::new).collect())
}

/// An addon as what stands is compared.
pub(super) fn described(addon: &TenantAddon) -> Value {
    let (version, kind) = (TenantAddon::api_version(&()), TenantAddon::kind(&()));
    observe::described(json!(addon), &version, &kind)
}

/// What a plan needs of them, by name.
pub(super) fn facts(addons: &[Arc<TenantAddon>], uid: &str) -> BTreeMap<String, Facts> {
    let named = addons
        .iter()
        .map(|addon| (addon.name_any(), fact(addon, uid)));
    named.collect()
}

fn fact(addon: &TenantAddon, uid: &str) -> Facts {
    let status = addon.status.clone().unwrap_or_default();
    let label = |key: &str| addon.labels().get(key);
    // What it says about something else than it is asked for by now does not count.
    let is_current = status.observed_generation == addon.metadata.generation;
    let said = is_current || addon.metadata.deletion_timestamp.is_some();
    Facts {
        ours: label(names::OWNER_UID).is_some_and(|owner| owner == uid),
        role: label(names::ADDON_ROLE).cloned().unwrap_or_default(),
        addon: addon.spec.addon.clone().unwrap_or_default(),
        ready: is_current && conditions::is_true(&status.conditions, "Ready"),
        phase: status.phase.filter(|_| is_current),
        message: status
            .message
            .filter(|_| said)
            .unwrap_or_else(|| "not looked at yet".to_owned()),
        version: status.installed_version,
        ending: addon.metadata.deletion_timestamp.is_some(),
    }
}

/// What is reported about them. Those of a cluster that goes are ours to remove, whoever kept them.
pub(super) fn observed(
    set: Option<&AddonSet>,
    facts: &BTreeMap<String, Facts>,
) -> Vec<ObservedAddon> {
    let all = facts.iter().map(|(name, held)| ObservedAddon {
        name: name.clone(),
        version: held.version.clone().unwrap_or_default(),
        status: match held.phase {
            _ if held.ready => AddonState::Healthy,
            None | Some(TenantAddonPhase::Pending) => AddonState::Pending,
            Some(
                TenantAddonPhase::Installing
                | TenantAddonPhase::Upgrading
                | TenantAddonPhase::Installed
                | TenantAddonPhase::Deleting,
            ) => AddonState::Installing,
            Some(TenantAddonPhase::Degraded) => AddonState::Degraded,
            Some(TenantAddonPhase::Failed) => AddonState::Failed,
        },
        managed_by: set.map_or(AddonManager::Butler, |set| {
            set.manager(held.version.is_some())
        }),
    });
    all.take(MOST).collect()
}

/// As many as the schema of the status allows.
const MOST: usize = 256;

/// The ranges that a cluster was given for its load balancer, in order.
pub(super) fn ranges(feeds: &Feeds, spec: &TenantSpec) -> Vec<String> {
    let mut wanted = spec.addons.wanted.iter();
    let draws = wanted.any(|addon| addon.role == Role::LoadBalancer)
        && spec.network.load_balancer_range.is_none();
    if !draws {
        return Vec::new();
    }
    let claims = network::claims(feeds, &spec.identity.uid);
    let mut ranges: Vec<String> = claims.into_iter().flat_map(|claim| claim.ranges).collect();
    ranges.sort();
    ranges
}
