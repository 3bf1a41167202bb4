//! What limits leave to a cluster, beside the others of its namespace.
//!
//! What was granted stands on tenant namespaces, where no user can write. Passes run side by side and a watch is always
//! a little behind, so what this process has granted is remembered as well: the same worker is never given twice.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
};

use butler_api::{
    butler::{TenantCluster, butler_config::ButlerConfigSpec, tenant_cluster::TenantClusterStatus},
    names,
};
use butler_capi::{
    names::tenant_namespace,
    quota::{Claim, Excess, Limits, Quota, Sizes, decide},
};
use butler_runtime::{
    conditions::{self, Verdict},
    sync::lock,
    watch::{Change, Feed},
};
use futures::{Stream, StreamExt as _, future, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};

use super::{
    report,
    sources::{Sources, provider_of},
};
use crate::Feeds;

/// What was granted by this process, by namespace of the clusters and by their UIDs.
#[derive(Default)]
pub(super) struct Book(Mutex<BTreeMap<String, BTreeMap<String, Sizes>>>);

impl Book {
    /// What a cluster may have. From here on that is its own.
    pub(super) fn judge(
        &self,
        feeds: &Feeds,
        clusters: &Feed<TenantCluster>,
        raw: &TenantCluster,
        sources: &Sources,
    ) -> Quota {
        let platform = &sources.platform;
        let limits = limits(feeds, sources);
        if limits.is_empty() {
            return Quota::default();
        }
        let namespace = raw.namespace().unwrap_or_default();
        let mut others = clusters.all_in(&namespace);
        let uid = raw.uid().unwrap_or_default();
        others.retain(|other| other.uid().as_deref() != Some(&uid));
        let mut granted = lock(&self.0);
        let noted = granted.entry(namespace).or_default();
        noted.retain(|held, _| {
            *held == uid || others.iter().any(|it| it.uid().as_deref() == Some(held))
        });
        let own = Claim {
            asks: Some(Sizes::of(&sources.spec.pools)),
            ..claim(feeds, platform, noted, raw)
        };
        let mut claims: Vec<Claim> = others
            .iter()
            .map(|other| claim(feeds, platform, noted, other))
            .collect();
        let (asks, held) = (own.asks.clone(), own.held.clone());
        claims.push(own);
        let quota = decide(&limits, &claims, &uid);
        let next = match (&quota.refused, &quota.hold) {
            (Some(_), _) => None,
            (None, Some(_)) => held,
            (None, None) => asks,
        };
        if let Some(next) = next {
            noted.insert(uid, next);
        }
        quota
    }
}

fn limits(feeds: &Feeds, sources: &Sources) -> Limits {
    let configs = feeds.providers.store().state();
    let named = configs.iter().map(|config| {
        let namespace = config.namespace().unwrap_or_default();
        (format!("{namespace}/{}", config.name_any()), &**config)
    });
    Limits::of(sources.team.as_deref(), &sources.platform, named)
}

/// One cluster as far as limits go.
fn claim(
    feeds: &Feeds,
    platform: &ButlerConfigSpec,
    noted: &BTreeMap<String, Sizes>,
    raw: &TenantCluster,
) -> Claim {
    let uid = raw.uid().unwrap_or_default();
    let asks = Sizes::asked(&raw.spec);
    let (namespace, name) = provider_of(raw, platform);
    let config = feeds.providers.get(Some(&namespace), &name);
    let held = noted.get(&uid).cloned();
    let held = held.or_else(|| granted(feeds, raw, asks.as_ref()));
    let is_leaving = raw.metadata.deletion_timestamp.is_some();
    // One that cannot be made for another reason keeps nobody waiting.
    let is_possible = held.is_some() || Sources::of(feeds, raw).is_ok();
    Claim {
        created: raw.creation_timestamp().map(|time| time.0),
        environment: raw.labels().get(names::ENVIRONMENT).cloned(),
        owner: raw.annotations().get(names::OWNER).cloned(),
        provider: format!("{namespace}/{name}"),
        infrastructure: config.map(|config| config.spec.provider),
        version: raw.spec.kubernetes_version.parse().ok(),
        asks: asks.filter(|_| !is_leaving && is_possible),
        held,
        uid,
    }
}

/// What the tenant namespace says was granted. One that was made before there was such a word has what it asks for.
fn granted(feeds: &Feeds, raw: &TenantCluster, asks: Option<&Sizes>) -> Option<Sizes> {
    let uid = raw.uid()?;
    let home = tenant_namespace(&raw.name_any(), &uid);
    let home = feeds.namespaces.get(None, &home)?;
    if home.labels().get(names::OWNER_UID) != Some(&uid) {
        return None;
    }
    let said = home.annotations().get(names::GRANTED);
    let said = said.and_then(|text| serde_json::from_str(text).ok());
    Some(said.or_else(|| asks.cloned()).unwrap_or_default())
}

/// Says that a cluster may not be made.
pub(super) fn refused(raw: &TenantCluster, excess: &Excess, now: Timestamp) -> TenantClusterStatus {
    const KIND: &str = "QuotaSatisfied";
    let Excess { reason, message } = excess;
    let mut status = report::refused(raw, reason, message.clone(), now);
    let held = raw.status.as_ref().map(|held| held.conditions.as_slice());
    let verdict = Verdict::no(KIND, reason, message.clone());
    let said = conditions::settle(
        held.unwrap_or_default(),
        &[verdict],
        raw.metadata.generation,
        now,
    );
    status.conditions.retain(|it| it.type_ != KIND);
    status.conditions.extend(said);
    status
}

/// Clusters to look at because limits changed, or because another cluster of their namespace now has less. Only those
/// that wait for that are looked at.
pub(super) fn triggers(
    feeds: &Feeds,
    clusters: &Feed<TenantCluster>,
) -> impl Stream<Item = ObjectRef<TenantCluster>> + Send + use<> {
    // A team's status counts its clusters: only what people changed is of interest.
    let mut seen = HashMap::new();
    let teams = feeds.teams.subscribe().filter_map(move |change| {
        let team = change.object();
        let name = team.name_any();
        let is_new = match &change {
            Change::Present(team) => {
                seen.insert(name.clone(), team.metadata.generation)
                    != Some(team.metadata.generation)
            }
            Change::Gone(_) => seen.remove(&name).is_some(),
        };
        future::ready(is_new.then_some((name, false)))
    });
    let gone = clusters.subscribe().filter_map(|change| {
        future::ready(match change {
            Change::Present(_) => None,
            Change::Gone(cluster) => cluster.namespace().map(|namespace| (namespace, true)),
        })
    });
    let homes = feeds.namespaces.subscribe().filter_map(|change| {
        let source = source_namespace(change.object());
        future::ready(source.map(|namespace| (namespace, true)))
    });
    let store = clusters.store();
    stream::select(teams, stream::select(gone, homes)).flat_map(move |(namespace, only_waiting)| {
        stream::iter(those_in(&store, &namespace, only_waiting))
    })
}

fn source_namespace(home: &Namespace) -> Option<String> {
    home.labels().get(names::SOURCE_NAMESPACE).cloned()
}

fn those_in(
    store: &Store<TenantCluster>,
    namespace: &str,
    only_waiting: bool,
) -> Vec<ObjectRef<TenantCluster>> {
    let found = store.state_filter(|cluster| {
        cluster.metadata.namespace.as_deref() == Some(namespace)
            && (!only_waiting || waits(cluster))
    });
    found
        .iter()
        .map(|cluster| ObjectRef::from_obj(&**cluster))
        .collect()
}

fn waits(cluster: &TenantCluster) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|it| it.type_ == "QuotaSatisfied" && it.status == "False")
}
