//! Deletion: one step after the other, each with what it waits for, so that it always ends or says why not.
//!
//! Addons go while the cluster still works, because only it can give back the volumes and load balancers they hold.
//! Machines go before the control plane, which they are drained through. Addresses are free only once the machines
//! that announced them are gone. The namespace goes last.

use butler_api::butler::tenant_cluster::Phase;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{Changes, Finding, Numbers, Plan, Truth, Uses};
use crate::{
    addons::{Facts, Role},
    build,
    object::ObjectId,
    observe::{Observed, Standing},
    spec::TenantSpec,
};

/// How long addons may take to go. A cluster whose API server or nodes are dead cannot remove them, and must not
/// be kept for it: its machines and its store go anyway.
const ADDON_PATIENCE: SignedDuration = SignedDuration::from_mins(15);

/// When a deletion that does not get on is called late.
const LATE: SignedDuration = SignedDuration::from_mins(60);

/// How far a deletion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Step {
    /// Nothing is removed: the cluster is protected.
    Protected,
    /// Addons are removed.
    Addons,
    /// The Cluster and its machines are removed.
    Machines,
    /// The control plane and its data are removed.
    ControlPlane,
    /// The namespace is removed.
    Namespace,
    /// Addresses can be given back, and the cluster may go. What a forced deletion leaves is in `waits`.
    Done,
}

pub(super) fn plan(spec: &TenantSpec, observed: &Observed, now: Timestamp) -> Plan {
    let since = observed.deletion.unwrap_or(now);
    let (step, mut delete, mut waits) = step(spec, observed, since, now);
    if step > Step::Addons {
        // Those that are left go with the cluster: there is nothing on which their releases could be removed.
        delete.extend(addon_ids(observed, |_| true));
    }
    let age = now.duration_since(since);
    let is_late = age > LATE && step > Step::Protected && step < Step::Done;
    if is_late {
        waits.push(format!(
            "the deletion is late: it was asked for at {since}; the objects above say what holds them"
        ));
    }
    let message = waits.first().cloned();
    let message = message.unwrap_or_else(|| "everything is removed".to_owned());
    let reason = match step {
        Step::Protected => "DeletionProtected",
        _ if is_late => "DeletionLate",
        Step::Addons => "DeletingAddons",
        Step::Machines => "DeletingMachines",
        Step::ControlPlane => "DeletingControlPlane",
        Step::Namespace => "DeletingNamespace",
        Step::Done => "Deleted",
    };
    let patience = since.checked_add(ADDON_PATIENCE).ok();
    let late = since.checked_add(LATE).ok();
    let wake = [patience, late].into_iter().flatten();
    Plan {
        objects: Vec::new(),
        changes: Changes {
            delete,
            ..Changes::default()
        },
        rolls: Vec::new(),
        waits,
        uses: Uses::default(),
        phase: Phase::Deleting,
        findings: vec![Finding {
            kind: "Ready",
            status: Truth::False,
            reason,
            message,
        }],
        numbers: Numbers::default(),
        deletion: Some(step),
        wake: wake.filter(|wake| *wake > now).min(),
    }
}

/// The step a deletion is at, what it removes now, and what it waits for.
fn step(
    spec: &TenantSpec,
    observed: &Observed,
    since: Timestamp,
    now: Timestamp,
) -> (Step, Vec<ObjectId>, Vec<String>) {
    if spec.protected {
        let wait = "the cluster is protected: set spec.deletionProtection to false to go on";
        return (Step::Protected, Vec::new(), vec![wait.to_owned()]);
    }
    if observed.forced {
        return forced(spec, observed);
    }
    if let Some(wait) = addons(observed, since, now) {
        let delete = addon_ids(observed, |held| !is_network(held));
        return (Step::Addons, delete, vec![wait]);
    }
    if observed.cluster.is_some() || !observed.machines.is_empty() {
        return machines(spec, observed);
    }
    if let Some(held) = &observed.control_plane {
        let id = build::control_plane(spec, held.wanted, 0).id();
        let delete = if held.ending { Vec::new() } else { vec![id] };
        let message = held.message.clone();
        let message = message.unwrap_or_else(|| "its data is being removed".to_owned());
        let wait = format!("the control plane goes: {message}");
        return (Step::ControlPlane, delete, vec![wait]);
    }
    match observed.namespace {
        Standing::Ours => {
            let namespace = build::namespace(spec).id();
            let wait = format!("namespace {} goes with what is left in it", namespace.name);
            (Step::Namespace, vec![namespace], vec![wait])
        }
        Standing::Ending => {
            let left = observed.objects.keys().take(5).map(ToString::to_string);
            let left: Vec<String> = left.collect();
            let what = if left.is_empty() {
                "what is left in it".to_owned()
            } else {
                left.join(", ")
            };
            let name = spec.identity.tenant_namespace();
            let wait = format!("namespace {name} waits for {what}");
            (Step::Namespace, Vec::new(), vec![wait])
        }
        // A namespace of somebody else is not ours to wait for, and never ours to remove.
        Standing::Missing | Standing::Foreign => (Step::Done, Vec::new(), Vec::new()),
    }
}

/// What keeps the addons, while that is worth waiting for.
fn addons(observed: &Observed, since: Timestamp, now: Timestamp) -> Option<String> {
    let serves = observed.control_plane.as_ref();
    let serves = serves.is_some_and(|held| held.available && !held.ending && held.replicas > 0);
    let is_patient = now.duration_since(since) <= ADDON_PATIENCE;
    // Once machines go there is nothing left to run what removes an addon.
    let is_going = observed
        .cluster
        .as_ref()
        .is_none_or(|cluster| cluster.ending);
    if !serves || !is_patient || is_going {
        return None;
    }
    let left = observed.addons.iter().filter(|(_, held)| !is_network(held));
    let left: Vec<String> = left
        .map(|(name, held)| match held.message.as_str() {
            message if held.ending && !message.is_empty() => format!("{name} ({message})"),
            _ => name.clone(),
        })
        .collect();
    (!left.is_empty()).then(|| format!("addons are being removed: {}", left.join(", ")))
}

/// The pod network stays as long as there are machines: what is evicted from them still has to be reached.
fn is_network(held: &Facts) -> bool {
    held.ours && held.role == Role::Cni.as_str()
}

/// Addons that were not asked to go yet.
fn addon_ids(observed: &Observed, which: impl Fn(&Facts) -> bool) -> Vec<ObjectId> {
    let addons = observed.addons.iter();
    addons
        .filter(|(_, held)| !held.ending && which(held))
        .map(|(name, _)| ObjectId {
            api_version: "butler.butlerlabs.dev/v1alpha1".to_owned(),
            kind: "TenantAddon".to_owned(),
            name: name.clone(),
        })
        .collect()
}

/// Asks for everything to go and waits for nothing. What is left is named.
fn forced(spec: &TenantSpec, observed: &Observed) -> (Step, Vec<ObjectId>, Vec<String>) {
    let mut delete = Vec::new();
    let cluster = observed.cluster.as_ref();
    if cluster.is_some_and(|cluster| !cluster.ending) {
        delete.push(build::cluster(spec).id());
    }
    let control_plane = observed.control_plane.as_ref();
    if let Some(held) = control_plane.filter(|held| !held.ending) {
        delete.push(build::control_plane(spec, held.wanted, 0).id());
    }
    if observed.namespace == Standing::Ours {
        delete.push(build::namespace(spec).id());
    }
    if !delete.is_empty() {
        let wait = "everything is asked to go, and nothing is waited for".to_owned();
        return (Step::Namespace, delete, vec![wait]);
    }
    let mut left: Vec<String> = Vec::new();
    if observed.namespace == Standing::Ending {
        left.push(format!("namespace {}", spec.identity.tenant_namespace()));
    }
    let machines = observed.machines.iter();
    left.extend(machines.map(|machine| match &machine.provider_id {
        Some(id) => format!("machine {} ({id})", machine.name),
        None => format!("machine {}", machine.name),
    }));
    left.extend(observed.objects.keys().map(ToString::to_string));
    (Step::Done, delete, left)
}

fn machines(spec: &TenantSpec, observed: &Observed) -> (Step, Vec<ObjectId>, Vec<String>) {
    let cluster = build::cluster(spec).id();
    let is_asked = observed
        .cluster
        .as_ref()
        .is_none_or(|cluster| cluster.ending);
    let delete = if is_asked { Vec::new() } else { vec![cluster] };
    let mut waits: Vec<String> = observed
        .machines
        .iter()
        .take(5)
        .map(|machine| match &machine.message {
            Some(message) => format!("machine {} goes: {message}", machine.name),
            None => format!("machine {} goes", machine.name),
        })
        .collect();
    let more = observed.machines.len().saturating_sub(waits.len());
    if more > 0 {
        waits.push(format!("{more} more machines go"));
    }
    if waits.is_empty() {
        let cluster = observed.cluster.as_ref();
        let message = cluster.and_then(|cluster| cluster.message.clone());
        let message = message.unwrap_or_else(|| "its infrastructure is being removed".to_owned());
        waits.push(format!(
            "Cluster {} goes: {message}",
            spec.identity.cluster()
        ));
    }
    (Step::Machines, delete, waits)
}
