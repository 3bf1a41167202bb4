//! What limits leave to a cluster, beside the others of its namespace.
//!
//! What was granted stands on tenant namespaces, where no user can write. Passes run side by side and a watch is always
//! a little behind, so what this process has granted is remembered as well: the same worker is never given twice.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
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
use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use kube::{Resource, ResourceExt as _, runtime::reflector::ObjectRef};

use super::{
    report,
    sources::{Sources, provider_of},
};
use crate::Feeds;

/// What this process knows about grants, by namespace of the clusters.
#[derive(Default)]
pub(super) struct Book {
    /// What it granted, by UIDs.
    granted: Mutex<BTreeMap<String, BTreeMap<String, Sizes>>>,
    /// Names of those that got less than they asked for: looking for them among thousands would take long.
    waiting: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

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
        let namespace = raw.namespace().unwrap_or_default();
        if limits.is_empty() {
            self.note(&namespace, &raw.name_any(), false);
            return Quota::default();
        }
        let mut others = clusters.all_in(&namespace);
        let uid = raw.uid().unwrap_or_default();
        others.retain(|other| other.uid().as_deref() != Some(&uid));
        let mut granted = lock(&self.granted);
        let noted = granted.entry(namespace.clone()).or_default();
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
        let waits = quota.refused.is_some() || quota.hold.is_some();
        self.note(&namespace, &raw.name_any(), waits);
        quota
    }

    /// Remembers whether a cluster waits for others to have less.
    fn note(&self, namespace: &str, name: &str, waits: bool) {
        let mut waiting = lock(&self.waiting);
        if waits {
            let names = waiting.entry(namespace.to_owned()).or_default();
            names.insert(name.to_owned());
        } else if let Some(names) = waiting.get_mut(namespace) {
            names.remove(name);
            if names.is_empty() {
                waiting.remove(namespace);
            }
        }
    }

    /// Those of a namespace that wait for others to have less.
    fn waiting(&self, namespace: &str) -> Vec<ObjectRef<TenantCluster>> {
        let waiting = lock(&self.waiting);
        let names = waiting.get(namespace).into_iter().flatten();
        names
            .map(|name| ObjectRef::new(name).within(namespace))
            .collect()
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
    // One that cannot be made for another reason keeps nobody waiting.
    let is_possible = held.is_some() || Sources::of(feeds, raw).is_ok();
    Claim {
        infrastructure: config.map(|config| config.spec.provider),
        held,
        ..asking(
            raw,
            format!("{namespace}/{name}"),
            asks.filter(|_| is_possible),
        )
    }
}

/// A cluster that asks for something and was granted nothing yet. One that leaves asks for nothing.
pub(super) fn asking(raw: &TenantCluster, provider: String, asks: Option<Sizes>) -> Claim {
    let is_leaving = raw.metadata.deletion_timestamp.is_some();
    Claim {
        uid: raw.uid().unwrap_or_default(),
        created: raw.creation_timestamp().map(|time| time.0),
        environment: raw.labels().get(names::ENVIRONMENT).cloned(),
        owner: raw.annotations().get(names::OWNER).cloned(),
        provider,
        infrastructure: None,
        version: raw.spec.kubernetes_version.parse().ok(),
        held: None,
        asks: asks.filter(|_| !is_leaving),
    }
}

/// What was granted to a cluster, if it has a namespace.
fn granted(feeds: &Feeds, raw: &TenantCluster, asks: Option<&Sizes>) -> Option<Sizes> {
    let uid = raw.uid()?;
    let home = tenant_namespace(&raw.name_any(), &uid);
    granted_by(&*feeds.namespaces.get(None, &home)?, &uid, asks)
}

/// What a tenant namespace says was granted. One that was made before there was such a word has what it asks for.
pub(crate) fn granted_by(home: &impl Resource, uid: &str, asks: Option<&Sizes>) -> Option<Sizes> {
    if home.labels().get(names::OWNER_UID).map(String::as_str) != Some(uid) {
        return None;
    }
    let said = home.annotations().get(names::GRANTED);
    let said = said.and_then(|text| serde_json::from_str(text).ok());
    Some(said.or_else(|| asks.cloned()).unwrap_or_default())
}

/// Says that a cluster may not be made.
pub(super) fn refused(raw: &TenantCluster, excess: &Excess, now: Timestamp) -> TenantClusterStatus {
    const KIND: &str = "QuotaSatisfied";
    let (reason, message) = (excess.reason.as_str(), &excess.message);
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
    clusters: &Arc<Feed<TenantCluster>>,
    book: &Arc<Book>,
) -> impl Stream<Item = ObjectRef<TenantCluster>> + Send + use<> {
    // A team's status counts its clusters: only what people changed is of interest.
    let (mut seen, all) = (HashMap::new(), Arc::clone(clusters));
    let teams = feeds.teams.subscribe().map(move |change| {
        let team = change.object();
        let name = team.name_any();
        let is_new = match &change {
            Change::Present(team) => {
                seen.insert(name.clone(), team.metadata.generation)
                    != Some(team.metadata.generation)
            }
            Change::Gone(_) => seen.remove(&name).is_some(),
        };
        let found = if is_new {
            all.all_in(&name)
        } else {
            Vec::new()
        };
        found
            .iter()
            .map(|cluster| ObjectRef::from_obj(&**cluster))
            .collect()
    });
    let noted = Arc::clone(book);
    let gone = clusters.subscribe().map(move |change| match change {
        Change::Present(_) => Vec::new(),
        Change::Gone(cluster) => {
            let namespace = cluster.namespace().unwrap_or_default();
            noted.note(&namespace, &cluster.name_any(), false);
            noted.waiting(&namespace)
        }
    });
    let noted = Arc::clone(book);
    let homes = feeds.namespaces.subscribe().map(move |change| {
        let namespace = change.object().labels().get(names::SOURCE_NAMESPACE);
        namespace.map_or_else(Vec::new, |namespace| noted.waiting(namespace))
    });
    stream::select(teams, stream::select(gone, homes)).flat_map(stream::iter)
}
