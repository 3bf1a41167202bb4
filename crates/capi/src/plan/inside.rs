//! What inside a cluster holds something outside of its machines: load balancers and volumes. They are given back while
//! there are machines and a network for that, and not waited for for ever: a pod keeps its volume, and what would give it
//! back may be gone.

use std::{collections::BTreeSet, fmt};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Service};
use kube_core::ResourceExt as _;
use serde::Serialize;

use super::deletion::{ADDON_PATIENCE, serves};
use crate::observe::Observed;

/// How long each may take to go, and how long a cluster is asked that does not answer.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// How many are named at most.
const NAMED: usize = 10;

/// What was seen inside a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Inside {
    /// Nobody looked.
    #[default]
    Unasked,
    /// It did not answer, and why.
    Silent(String),
    /// What holds something outside of the machines.
    Seen(Vec<Held>),
}

/// Something inside a cluster that holds something outside of its machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// What it is.
    pub kind: Holder,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Who it is, unlike any other of its name.
    pub uid: Option<String>,
    /// Since when it is on its way out.
    pub since: Option<Timestamp>,
}

/// What can hold something outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Holder {
    /// A load balancer.
    Service,
    /// A volume that somebody asked for.
    Claim,
    /// A volume that nobody has any more. Who made it removes it.
    Volume,
}

impl fmt::Display for Held {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Holder::Service => "Service",
            Holder::Claim => "PersistentVolumeClaim",
            Holder::Volume => "PersistentVolume",
        };
        match &self.namespace {
            Some(namespace) => write!(formatter, "{kind} {namespace}/{}", self.name),
            None => write!(formatter, "{kind} {}", self.name),
        }
    }
}

/// What holds something outside: load balancers, and volumes that were made for a claim and are to go with it.
pub fn held(
    services: &[Service],
    claims: &[PersistentVolumeClaim],
    volumes: &[PersistentVolume],
) -> Vec<Held> {
    let balances = |service: &&Service| {
        let spec = service.spec.as_ref();
        spec.and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
    };
    let services = services.iter().filter(balances);
    let mut found: Vec<Held> = services.map(|it| holder(Holder::Service, it)).collect();
    let goes = |volume: &&PersistentVolume| {
        let spec = volume.spec.as_ref();
        let policy = spec.and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        let made = volume.annotations();
        policy == Some("Delete") && made.contains_key("pv.kubernetes.io/provisioned-by")
    };
    let going: Vec<&PersistentVolume> = volumes.iter().filter(goes).collect();
    let mut claimed = BTreeSet::new();
    for claim in claims {
        let spec = claim.spec.as_ref();
        let Some(name) = spec.and_then(|spec| spec.volume_name.as_deref()) else {
            continue;
        };
        if going.iter().any(|volume| volume.name_any() == name) {
            claimed.insert(name);
            found.push(holder(Holder::Claim, claim));
        }
    }
    let released = going.into_iter().filter(|volume| {
        let spec = volume.spec.as_ref();
        let was_claimed = spec.is_some_and(|spec| spec.claim_ref.is_some());
        was_claimed && !claimed.contains(volume.name_any().as_str())
    });
    found.extend(released.map(|volume| {
        let held = holder(Holder::Volume, volume);
        let status = volume.status.as_ref();
        let status = status.filter(|status| status.phase.as_deref() != Some("Bound"));
        let moved = status.and_then(|status| status.last_phase_transition_time.as_ref());
        Held {
            since: held.since.or_else(|| moved.map(|time| time.0)),
            ..held
        }
    }));
    found
}

fn holder(kind: Holder, object: &impl kube_core::Resource) -> Held {
    let metadata = object.meta();
    Held {
        kind,
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone(),
        since: metadata.deletion_timestamp.as_ref().map(|time| time.0),
    }
}

/// How it goes on inside a cluster whose addons are gone.
pub(super) enum Outlook {
    /// Some are asked to go, and some are waited for.
    Waits { ask: Vec<Held>, wait: String },
    /// Nothing more can be done, and this is or may be left.
    Over(Vec<String>),
}

pub(super) fn outlook(observed: &Observed, since: Timestamp, now: Timestamp) -> Outlook {
    let is_within = |begin: Timestamp, patience| now.duration_since(begin) <= patience;
    match &observed.inside {
        Inside::Unasked => {
            let started = observed.control_plane.as_ref();
            let started = started.is_some_and(|held| held.initialized);
            // One that never served has nothing inside.
            let is_dead = started && !serves(observed) && observed.left.is_none();
            Outlook::Over(is_dead.then(|| unknown("")).into_iter().collect())
        }
        Inside::Silent(_) if !observed.forced && is_within(since, PATIENCE) => Outlook::Waits {
            ask: Vec::new(),
            wait: "load balancers and volumes inside the cluster are to go, and it does not answer"
                .to_owned(),
        },
        Inside::Silent(why) => Outlook::Over(vec![unknown(&format!(": {why}"))]),
        Inside::Seen(held) => {
            // What is made anew again and again is not waited for for ever.
            let patient = !observed.forced && is_within(since, ADDON_PATIENCE + PATIENCE);
            let is_open = |it: &&Held| it.since.is_none_or(|since| is_within(since, PATIENCE));
            let open: Vec<&Held> = held.iter().filter(is_open).collect();
            if !patient || open.is_empty() {
                return Outlook::Over(held.iter().map(ToString::to_string).collect());
            }
            let is_asked = |it: &&&Held| it.since.is_none() && it.kind != Holder::Volume;
            Outlook::Waits {
                ask: open.iter().filter(is_asked).copied().cloned().collect(),
                wait: format!(
                    "load balancers and volumes inside the cluster are being removed: {}",
                    named(open.iter().map(ToString::to_string).collect())
                ),
            }
        }
    }
}

fn unknown(why: &str) -> String {
    format!("load balancers and volumes of the cluster, which does not answer{why}")
}

/// The first of them, and how many more there are.
pub(super) fn named(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    match more {
        0 => all.join(", "),
        more => format!("{} and {more} more", all.join(", ")),
    }
}
