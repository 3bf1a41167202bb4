//! The `TenantAddon`s of a cluster as its plan sees them, and the addresses that its load balancer may give out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use butler_api::{
    butler::{
        AddonDefinition, TenantAddon, TenantCluster,
        tenant_addon::TenantAddonPhase,
        tenant_cluster::{AddonManager, AddonState, ObservedAddon},
    },
    names,
};
use butler_capi::{
    TenantSpec,
    addons::{AddonSet, Entry, Facts, Role},
    names::Identity,
};
use butler_runtime::{apply::Applier, conditions, error::ApiError, watch::Feed};
use futures::{Stream, StreamExt as _, stream};
use kube::{Api, Resource as _, ResourceExt as _, api::ListParams, runtime::reflector::ObjectRef};
use serde_json::{Value, json};

use super::{network, observe};
use crate::Feeds;

/// Clusters whose addons, or whose addresses, changed, and those that wait for another word of the catalogue.
pub(super) fn triggers(
    feeds: &Arc<Feeds>,
    clusters: &Feed<TenantCluster>,
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
    let store = clusters.store();
    let entries = feeds.definitions.subscribe().flat_map(move |_| {
        let concerned = store.state_filter(heeds_catalogue);
        let concerned = concerned.into_iter();
        stream::iter(concerned.map(|cluster| ObjectRef::from_obj(&*cluster)))
    });
    stream::select(entries, stream::select(addons, addresses))
}

/// Whether a change of the catalogue may be one of the cluster's plan: versions of its addons are written down for it, or
/// an upgrade of it may be held by an addon.
fn heeds_catalogue(cluster: &TenantCluster) -> bool {
    let maintenance = cluster.spec.maintenance.as_ref();
    let has_windows = maintenance.is_some_and(|held| !held.windows.is_empty());
    let status = cluster.status.as_ref();
    let seen = status.and_then(|status| status.observed_state.as_ref());
    let running = seen.and_then(|seen| seen.kubernetes_version.as_ref());
    has_windows || running.is_some_and(|running| *running != cluster.spec.kubernetes_version)
}

/// Names in the catalogue of the addons that a cluster has or wants.
pub(super) fn entries<'a>(
    spec: &'a TenantSpec,
    held: &'a BTreeMap<String, Facts>,
) -> BTreeSet<&'a str> {
    let wanted = spec.addons.wanted.iter().map(|wanted| wanted.addon);
    let held = held.values().map(|held| held.addon.as_str());
    wanted.chain(held).filter(|name| !name.is_empty()).collect()
}

/// What the catalogue says about them, from the watch.
pub(super) fn catalogue(
    feeds: &Feeds,
    spec: &TenantSpec,
    held: &BTreeMap<String, Facts>,
) -> BTreeMap<String, Entry> {
    let known = entries(spec, held).into_iter().filter_map(|name| {
        let definition = feeds.definitions.get(None, name)?;
        Some((name.to_owned(), Entry::from(definition)))
    });
    known.collect()
}

/// The same as it is now. Whoever may not read the catalogue plans without it.
pub(super) async fn live_catalogue(
    applier: &Applier,
    spec: &TenantSpec,
    held: &BTreeMap<String, Facts>,
) -> Result<BTreeMap<String, Entry>, ApiError> {
    let api: Api<AddonDefinition> = Api::all(applier.client().clone());
    let mut known = BTreeMap::new();
    for name in entries(spec, held) {
        let found = match api.get_opt(name).await {
            Err(kube::Error::Api(status)) if status.code == 403 => return Ok(BTreeMap::new()),
            found => found.map_err(ApiError::of("get", "AddonDefinition", name))?,
        };
        known.extend(found.map(|found| (name.to_owned(), Entry::from(Arc::new(found)))));
    }
    Ok(known)
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
        asked: asked(addon),
        attempted: status.last_attempted_version,
        version: status.installed_version,
        ending: addon.metadata.deletion_timestamp.is_some(),
    }
}

/// The version that an addon is asked to have, by its spec or by a rollout.
fn asked(addon: &TenantAddon) -> Option<String> {
    let own = addon.spec.version.as_ref();
    let own = own.filter(|version| !version.is_empty());
    own.or_else(|| addon.annotations().get(names::CATALOGUE_VERSION))
        .cloned()
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
