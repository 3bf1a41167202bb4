//! Deletion: one step after the other, each with what it waits for, so that it always ends or says why not.
//!
//! Addons go while the cluster still works, because only it can remove them; then the load balancers and volumes inside it,
//! with the addons that give these back still there, which go after them. Machines go before the control plane, which they are drained through. Addresses are free only once the machines
//! that announced them are gone. The namespace goes last.

use butler_api::butler::tenant_cluster::Phase;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{
    Changes, Finding, Leaving, Numbers, Plan, Truth, Uses,
    inside::{self, Held, Outlook},
};
use crate::{
    addons::{Facts, Role},
    object::ObjectId,
    observe::{Observed, Standing},
    reason::Reason,
};

/// How long addons may take to go. A cluster whose API server or nodes are dead cannot remove them, and must not
/// be kept for it: its machines and its store go anyway.
pub(super) const ADDON_PATIENCE: SignedDuration = SignedDuration::from_mins(15);

/// When a deletion that does not get on is called late.
const LATE: SignedDuration = SignedDuration::from_mins(60);

/// How soon a cluster is looked into again: it is not watched.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(3);

/// The condition that names what was given up. It is written before anything follows from that, and stays: once machines
/// go nobody can find out any more.
pub const LEFT_BEHIND: &str = "LeftBehind";

/// How far a deletion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Step {
    /// Nothing is removed: the cluster is protected.
    Protected,
    /// Addons are removed.
    Addons,
    /// Load balancers and volumes inside the cluster are removed.
    Inside,
    /// The Cluster and its machines are removed.
    Machines,
    /// The control plane and its data are removed.
    ControlPlane,
    /// The namespace is removed.
    Namespace,
    /// Addresses can be given back, and the cluster may go. What a forced deletion leaves is in `waits`.
    Done,
}

/// What is done now.
struct Move {
    step: Step,
    delete: Vec<ObjectId>,
    /// What is asked to go inside the cluster.
    ask: Vec<Held>,
    waits: Vec<String>,
    /// What was given up.
    left: Option<String>,
}

impl Move {
    fn new(step: Step, delete: Vec<ObjectId>, waits: Vec<String>) -> Self {
        Self {
            step,
            delete,
            ask: Vec::new(),
            waits,
            left: None,
        }
    }
}

/// Whether somebody has to look into the cluster before its end can be planned.
pub fn asks_inside(leaving: &Leaving, observed: &Observed, now: Timestamp) -> bool {
    let since = observed.deletion.unwrap_or(now);
    let is_next = observed.forced || addons(observed, since, now, is_first).is_none();
    !leaving.protected && !is_going(observed) && is_next && serves(observed)
}

/// Decides what has to be done for a cluster that goes.
pub fn end(leaving: &Leaving, observed: &Observed, now: Timestamp) -> Plan {
    let since = observed.deletion.unwrap_or(now);
    let Move {
        step,
        mut delete,
        ask,
        mut waits,
        left,
    } = step(leaving, observed, since, now);
    if step > Step::Inside {
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
    let left = left.or_else(|| observed.left.clone());
    let patience = since.checked_add(ADDON_PATIENCE).ok();
    let late = since.checked_add(LATE).ok();
    let look = now
        .checked_add(LOOK_AGAIN)
        .ok()
        .filter(|_| step == Step::Inside);
    let wake = [patience, late, look].into_iter().flatten();
    let mut findings = vec![ready(step, is_late, waits.first(), left.as_deref())];
    findings.extend(left.clone().map(|message| Finding {
        kind: LEFT_BEHIND,
        status: Truth::True,
        reason: Reason::GivenUp,
        message,
    }));
    if step == Step::Done {
        waits.extend(left);
    }
    let resume = resumed(leaving, observed, &delete);
    Plan {
        objects: Vec::new(),
        changes: Changes {
            delete,
            ..Changes::default()
        },
        inside: ask,
        resume,
        rolls: Vec::new(),
        waits,
        uses: Uses::default(),
        phase: Phase::Deleting,
        findings,
        numbers: Numbers::default(),
        deletion: Some(step),
        wake: wake.filter(|wake| *wake > now).min(),
    }
}

/// A Cluster that is paused keeps its finalizer.
fn resumed(leaving: &Leaving, observed: &Observed, delete: &[ObjectId]) -> Option<ObjectId> {
    let held = observed.cluster.as_ref().filter(|held| held.paused)?;
    let cluster = leaving.cluster();
    (held.ending || delete.contains(&cluster)).then_some(cluster)
}

fn ready(step: Step, is_late: bool, wait: Option<&String>, left: Option<&str>) -> Finding {
    let reason = match step {
        Step::Protected => Reason::DeletionProtected,
        _ if is_late => Reason::DeletionLate,
        Step::Addons => Reason::DeletingAddons,
        Step::Inside => Reason::DeletingServicesAndVolumes,
        Step::Machines => Reason::DeletingMachines,
        Step::ControlPlane => Reason::DeletingControlPlane,
        Step::Namespace => Reason::DeletingNamespace,
        Step::Done => Reason::Deleted,
    };
    let wait = wait.map_or("everything is removed", String::as_str);
    Finding {
        kind: "Ready",
        status: Truth::False,
        reason,
        message: match left {
            Some(left) => format!("{wait}; left behind: {left}"),
            None => wait.to_owned(),
        },
    }
}

/// The step a deletion is at, what it removes now, and what it waits for.
fn step(leaving: &Leaving, observed: &Observed, since: Timestamp, now: Timestamp) -> Move {
    if leaving.protected {
        let wait = "the cluster is protected: set spec.deletionProtection to false to go on";
        return Move::new(Step::Protected, Vec::new(), vec![wait.to_owned()]);
    }
    if !is_going(observed)
        && let Some(first) = before_machines(observed, since, now)
    {
        return first;
    }
    let (step, delete, waits) = if observed.forced {
        forced(leaving, observed)
    } else if observed.cluster.is_some() || !observed.machines.is_empty() {
        machines(leaving, observed)
    } else {
        rest(leaving, observed)
    };
    Move::new(step, delete, waits)
}

/// What needs machines to go, or to be given up.
fn before_machines(observed: &Observed, since: Timestamp, now: Timestamp) -> Option<Move> {
    let removal = |which: fn(&Facts) -> bool| {
        let wait = addons(observed, since, now, which).filter(|_| !observed.forced)?;
        let delete = addon_ids(observed, which);
        Some(Move::new(Step::Addons, delete, vec![wait]))
    };
    if let Some(first) = removal(is_first) {
        return Some(first);
    }
    match inside::outlook(observed, since, now) {
        Outlook::Waits { ask, wait } => Some(Move {
            ask,
            ..Move::new(Step::Inside, Vec::new(), vec![wait])
        }),
        Outlook::Over(mut left) => {
            if let Some(others) = removal(is_removed) {
                return Some(others);
            }
            let releases = observed.addons.iter();
            let releases = releases.filter(|(_, held)| is_removed(held));
            left.extend(releases.map(|(name, _)| format!("the release of addon {name}")));
            let is_news = !left.is_empty() && observed.left.is_none();
            is_news.then(|| Move {
                left: Some(inside::named(left)),
                ..Move::new(
                    Step::Inside,
                    Vec::new(),
                    vec!["machines go next".to_owned()],
                )
            })
        }
    }
}

/// Whether machines were asked to go, or there never were any: nothing is left to run what removes an addon.
fn is_going(observed: &Observed) -> bool {
    let cluster = observed.cluster.as_ref();
    cluster.is_none_or(|cluster| cluster.ending)
}

/// Whether the API server of the cluster answers.
pub(super) fn serves(observed: &Observed) -> bool {
    let held = observed.control_plane.as_ref();
    held.is_some_and(|held| held.available && !held.ending && held.replicas > 0)
}

/// The control plane without machines, then the namespace.
fn rest(leaving: &Leaving, observed: &Observed) -> (Step, Vec<ObjectId>, Vec<String>) {
    if let Some(held) = &observed.control_plane {
        let id = leaving.control_plane();
        let delete = if held.ending { Vec::new() } else { vec![id] };
        let message = held.message.clone();
        let message = message.unwrap_or_else(|| "its data is being removed".to_owned());
        let wait = format!("the control plane goes: {message}");
        return (Step::ControlPlane, delete, vec![wait]);
    }
    match observed.namespace {
        Standing::Ours => {
            let namespace = leaving.namespace();
            let wait = format!("namespace {} goes with what is left in it", namespace.name);
            (Step::Namespace, vec![namespace], vec![wait])
        }
        Standing::Ending => {
            let left = observed.objects.keys().take(5).map(ToString::to_string);
            let left: Vec<String> = left.collect();
            let what = match &observed.remains {
                Some(remains) => remains.clone(),
                None if left.is_empty() => "what is left in it".to_owned(),
                None => left.join(", "),
            };
            let name = leaving.identity.tenant_namespace();
            let wait = format!("namespace {name} waits for {what}");
            (Step::Namespace, Vec::new(), vec![wait])
        }
        // A namespace of somebody else is not ours to wait for, and never ours to remove.
        Standing::Missing | Standing::Foreign => (Step::Done, Vec::new(), Vec::new()),
    }
}

/// What keeps the addons, while that is worth waiting for.
fn addons(
    observed: &Observed,
    since: Timestamp,
    now: Timestamp,
    which: fn(&Facts) -> bool,
) -> Option<String> {
    let is_patient = now.duration_since(since) <= ADDON_PATIENCE;
    if !serves(observed) || !is_patient {
        return None;
    }
    let left = observed.addons.iter().filter(|(_, held)| which(held));
    let left: Vec<String> = left
        .map(|(name, held)| match held.message.as_str() {
            message if held.ending && !message.is_empty() => format!("{name} ({message})"),
            _ => name.clone(),
        })
        .collect();
    (!left.is_empty()).then(|| format!("addons are being removed: {}", left.join(", ")))
}

/// What goes before load balancers and volumes: everything but what gives these back.
fn is_first(held: &Facts) -> bool {
    const LATER: [Role; 3] = [Role::LoadBalancer, Role::StorageOperator, Role::Storage];
    let is_later = held.ours && LATER.iter().any(|role| held.role == role.as_str());
    is_removed(held) && !is_later
}

/// What is removed at all. The pod network stays as long as there are machines: what is evicted from them still has to be
/// reached.
fn is_removed(held: &Facts) -> bool {
    !(held.ours && held.role == Role::Cni.as_str())
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
fn forced(leaving: &Leaving, observed: &Observed) -> (Step, Vec<ObjectId>, Vec<String>) {
    let mut delete = Vec::new();
    let cluster = observed.cluster.as_ref();
    if cluster.is_some_and(|cluster| !cluster.ending) {
        delete.push(leaving.cluster());
    }
    let control_plane = observed.control_plane.as_ref();
    if control_plane.is_some_and(|held| !held.ending) {
        delete.push(leaving.control_plane());
    }
    if observed.namespace == Standing::Ours {
        delete.push(leaving.namespace());
    }
    if !delete.is_empty() {
        let wait = "everything is asked to go, and nothing is waited for".to_owned();
        return (Step::Namespace, delete, vec![wait]);
    }
    let mut left: Vec<String> = Vec::new();
    if observed.namespace == Standing::Ending {
        left.push(format!("namespace {}", leaving.identity.tenant_namespace()));
    }
    let machines = observed.machines.iter();
    left.extend(machines.map(|machine| match &machine.provider_id {
        Some(id) => format!("machine {} ({id})", machine.name),
        None => format!("machine {}", machine.name),
    }));
    left.extend(observed.objects.keys().map(ToString::to_string));
    (Step::Done, delete, left)
}

fn machines(leaving: &Leaving, observed: &Observed) -> (Step, Vec<ObjectId>, Vec<String>) {
    let cluster = leaving.cluster();
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
            leaving.identity.cluster()
        ));
    }
    (Step::Machines, delete, waits)
}
