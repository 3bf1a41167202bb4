//! What has to be done for a tenant cluster: a value that leaves no choices to whoever carries it out.
//!
//! The same plan serves the controller, a dry run before a change, and the tests. It says which objects are to be
//! there, which go, what that means for nodes, addresses and quota, what is waited for, and what to report.

use std::collections::BTreeSet;

use butler_api::butler::tenant_cluster::Phase;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    access,
    addons::{self, Removal},
    build,
    core::INFRASTRUCTURE,
    day2::{self, Content, Doze, Upgrade},
    node, nodes,
    object::{Object, ObjectId},
    observe::{ControlPlaneState, Observed, Standing},
    provider::Missing,
    quota::{self, Excess},
    reason::Reason,
    spec::TenantSpec,
};

mod deletion;
pub mod dns;
mod finding;
pub mod inside;
mod leaving;
mod limited;
mod network;
mod paused;
mod phase;
mod pools;
mod print;
mod report;
mod uses;

pub use deletion::{LEFT_BEHIND, Step, asks_inside, end};
pub use finding::{Finding, Truth};
pub use leaving::Leaving;
pub use phase::failed;
pub use pools::Roll;
pub use report::Numbers;
pub use uses::Uses;

/// How soon a tenant that could not be asked about joining is asked again.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// How soon a tenant is asked again which APIs are called: its answer is long.
const ASK_ABOUT_CALLS: SignedDuration = SignedDuration::from_mins(2);

/// What has to be done for a tenant cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Objects that are to be there, complete, in the order they are applied. A plan that is written down hides
    /// what Secrets hold.
    #[serde(serialize_with = "print::without_secrets")]
    pub objects: Vec<Object>,
    /// What that changes.
    pub changes: Changes,
    /// What is asked to go inside the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inside: Vec<inside::Held>,
    /// The Cluster that Cluster API is let go on with, because it has to remove what it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<ObjectId>,
    /// Machines that are replaced.
    pub rolls: Vec<Roll>,
    /// What is waited for, in sentences for people.
    pub waits: Vec<String>,
    /// What the cluster takes of limited things.
    pub uses: Uses,
    /// The phase to report.
    pub phase: Phase,
    /// The conditions to report.
    pub findings: Vec<Finding>,
    /// Workers that are wanted and ready.
    pub numbers: Numbers,
    /// How far a deletion is.
    pub deletion: Option<Step>,
    /// When to look again, if nothing happens before.
    pub wake: Option<Timestamp>,
}

/// What a plan changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Objects that are made.
    pub create: Vec<ObjectId>,
    /// Objects that are changed.
    pub change: Vec<ObjectId>,
    /// Objects that are removed.
    pub delete: Vec<ObjectId>,
}

impl Changes {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.change.is_empty() && self.delete.is_empty()
    }
}

/// What a plan waits for.
struct Wait {
    /// What that means for the cluster that works meanwhile.
    reason: Reason,
    /// A sentence for people.
    message: String,
}

/// A plan while it is being made.
struct Draft<'a> {
    spec: &'a TenantSpec,
    observed: &'a Observed,
    /// What is against the spec that was asked for; `spec` is what it leaves.
    against: Vec<Excess>,
    now: Timestamp,
    objects: Vec<Object>,
    /// Objects that are not written but stay.
    keep: BTreeSet<Content>,
    rolls: Vec<Roll>,
    waits: Vec<Wait>,
    /// Whether something could not be written because something else is missing: nothing is removed then.
    is_partial: bool,
    /// Whether old templates are still needed.
    is_settled: bool,
    wake: Vec<Timestamp>,
}

impl Draft<'_> {
    /// Adds an object, or what it waits for.
    fn add(&mut self, object: Result<Object, Missing>) {
        match object {
            Ok(object) => self.objects.push(object),
            Err(missing) => self.lack(&missing),
        }
    }

    fn lack(&mut self, missing: &Missing) {
        self.is_partial = true;
        self.wait(Reason::Waiting, missing.to_string());
    }

    fn wait(&mut self, reason: Reason, message: String) {
        self.waits.push(Wait { reason, message });
    }
}

/// Decides what has to be done.
pub fn plan(spec: &TenantSpec, observed: &Observed, now: Timestamp) -> Plan {
    if observed.deletion.is_some() {
        return end(&Leaving::from(spec), observed, now);
    }
    if let Some(excess) = &observed.quota.refused {
        return limited::refused(spec, excess);
    }
    let (spec, against) = quota::held(spec, observed);
    let spec = &*spec;
    let waits = against.iter().map(|excess| Wait {
        reason: Reason::ActionNeeded,
        message: excess.message.clone(),
    });
    let mut draft = Draft {
        spec,
        observed,
        now,
        objects: Vec::new(),
        keep: BTreeSet::new(),
        rolls: Vec::new(),
        waits: waits.collect(),
        against,
        is_partial: false,
        is_settled: true,
        wake: Vec::new(),
    };
    let doze = day2::doze(spec, observed, now);
    let upgrade = day2::decide_upgrade(spec, observed, now);
    match observed.namespace {
        Standing::Missing | Standing::Ours => serve(&mut draft, doze, &upgrade),
        Standing::Ending => {
            draft.is_partial = true;
            draft.wait(
                Reason::Waiting,
                format!(
                    "namespace {} of an earlier cluster is still being removed",
                    spec.identity.tenant_namespace()
                ),
            );
        }
        Standing::Foreign => {
            draft.is_partial = true;
            draft.wait(Reason::ActionNeeded, format!(
                "namespace {} exists and does not belong to this cluster: remove it, or make the cluster under another name",
                spec.identity.tenant_namespace()
            ));
            // It does not say whom it keeps waiting, so that nobody is woken when it goes.
            draft.wake.extend(now.checked_add(ASK_AGAIN));
        }
    }
    let is_paused = spec.paused;
    let mut plan = finish(draft, doze, &upgrade);
    if is_paused {
        paused::hold(&mut plan, observed);
    }
    plan
}

/// Writes down everything, in the order it is applied.
fn serve(draft: &mut Draft<'_>, doze: Doze, upgrade: &Upgrade) {
    let (spec, inputs) = (draft.spec, &draft.observed.inputs);
    draft.objects.push(build::namespace(spec));
    let access = access::objects(&spec.identity, &inputs.access);
    draft.objects.extend(access);
    match spec.infrastructure.credentials(spec, inputs) {
        Ok(objects) => draft.objects.extend(objects),
        Err(missing) => draft.lack(&missing),
    }
    draft.add(spec.infrastructure.cluster(spec, inputs));
    let replicas = match doze {
        Doze::Awake | Doze::Waking | Doze::FallingAsleep => spec.control_plane.replicas,
        Doze::Asleep => 0,
    };
    let kube_proxy = addons::needs_kube_proxy(spec, draft.observed);
    let version = upgrade.control_plane;
    let control_plane = build::control_plane(spec, version, replicas, kube_proxy);
    draft.objects.push(control_plane);
    draft.objects.push(build::cluster(spec));
    if let Some(obstacle) = &upgrade.obstacle {
        draft.wait(obstacle.reason(), obstacle.message(spec.version));
        match obstacle {
            day2::Obstacle::Window { opens } => draft.wake.extend(*opens),
            // Nothing tells when it is otherwise.
            day2::Obstacle::RemovedApis(_) | day2::Obstacle::Unanswered(_) => {
                draft.wake.extend(draft.now.checked_add(ASK_ABOUT_CALLS));
            }
            day2::Obstacle::Step { .. }
            | day2::Obstacle::Skew { .. }
            | day2::Obstacle::Addon(_)
            | day2::Obstacle::ControlPlane
            | day2::Obstacle::Pool(_) => {}
        }
    }
    joining(draft);
    pools::plan(draft, doze, upgrade);
    let addons = addons::objects(spec, draft.observed, draft.now);
    draft.objects.extend(addons);
    for late in addons::late(spec, draft.observed, draft.now) {
        draft.wait(Reason::Waiting, late.message());
        draft.wake.extend(late.opens);
    }
    agreements(draft);
    let dns = draft.observed.dns.as_ref();
    draft.wake.extend(dns.map(|gap| gap.look));
    if nodes::are_awaited(spec, draft.observed) {
        draft.wake.extend(draft.now.checked_add(nodes::LOOK));
    }
    draft.wake.extend(spec.hibernation.next_change(draft.now));
}

/// Keeps what machines are told by ourselves, and says when to look after it.
fn joining(draft: &mut Draft<'_>) {
    let (spec, observed) = (draft.spec, draft.observed);
    if !node::needs_ticket(spec) {
        return;
    }
    // What is not known for a moment is not thrown away.
    for name in [spec.identity.join(), spec.identity.trust()] {
        let kind = "Secret".to_owned();
        draft.keep.insert(Content { kind, name });
    }
    let inputs = &observed.inputs;
    let serves = |held: &ControlPlaneState| held.initialized;
    if let Some(ticket) = &inputs.join {
        let kept = node::token_kept(&spec.identity, &ticket.token);
        draft.objects.push(Object::Secret(Box::new(kept)));
        let due = ticket.token.due();
        let soon = draft.now.checked_add(ASK_AGAIN).unwrap_or(due);
        let look = draft.now.checked_add(node::look_after(&spec.identity.uid));
        draft.wake.push(due.max(soon));
        draft.wake.extend(look);
    } else if observed.control_plane.as_ref().is_some_and(serves) {
        draft.wake.extend(draft.now.checked_add(ASK_AGAIN));
    }
    if let Some(trust) = &inputs.talos
        && node::needs_trust(spec)
    {
        let kept = node::trust_kept(&spec.identity, trust);
        draft.objects.push(Object::Secret(Box::new(kept)));
    }
}

/// Says what is left to people: addons that are no longer wanted may hold data.
fn agreements(draft: &mut Draft<'_>) {
    if let Some(task) = draft.spec.addons.by_hand() {
        draft.wait(Reason::ActionNeeded, task);
    }
    for (name, held) in draft.observed.addons.iter().filter(|(_, held)| held.ours) {
        if draft.spec.addons.may_remove(&held.role, &held.addon) == Removal::NeedsAgreement {
            let (addon, annotation) = (&held.addon, butler_api::names::REMOVE_ADDONS);
            draft.wait(Reason::ActionNeeded, format!(
                "TenantAddon {name} is no longer wanted and stays: annotate the cluster with {annotation}={addon} to remove it and what it holds"
            ));
        }
    }
}

fn finish(draft: Draft<'_>, doze: Doze, upgrade: &Upgrade) -> Plan {
    let changes = changes(&draft);
    let numbers = report::numbers(draft.spec, draft.observed, doze);
    let (phase, mut findings) = report::report(&report::Facts {
        addons: &addons::state(draft.spec, draft.observed, &numbers),
        spec: draft.spec,
        observed: draft.observed,
        doze,
        upgrade,
        numbers: &numbers,
        rolls: &draft.rolls,
        waits: &draft.waits,
    });
    findings.insert(0, limited::finding(&draft.against));
    let waits = draft.waits.into_iter().map(|wait| wait.message);
    let mut waits: Vec<String> = waits.collect();
    waits.dedup();
    Plan {
        changes,
        inside: Vec::new(),
        resume: None,
        rolls: draft.rolls,
        waits,
        uses: uses::of(draft.spec),
        phase,
        findings,
        numbers,
        deletion: None,
        wake: draft
            .wake
            .into_iter()
            .filter(|wake| *wake > draft.now)
            .min(),
        objects: draft.objects,
    }
}

/// Compares what is planned with what stands.
fn changes(draft: &Draft<'_>) -> Changes {
    let mut changes = Changes::default();
    let mut planned = BTreeSet::new();
    for object in &draft.objects {
        let id = object.id();
        match draft.observed.objects.get(&id) {
            None => changes.create.push(id.clone()),
            Some(held) if held.as_ref() != Some(&object.hash()) => changes.change.push(id.clone()),
            Some(_) => {}
        }
        planned.insert(id);
    }
    let access = &draft.observed.inputs.access;
    for (id, hash) in &draft.observed.objects {
        let goes = if access::is_about(id) {
            // Whoever may see nothing any more does not wait for the rest.
            !draft.objects.is_empty() && access.revokes(id, hash.as_ref())
        } else {
            !draft.is_partial && !is_needed(draft, id)
        };
        if goes && !planned.contains(id) {
            changes.delete.push(id.clone());
        }
    }
    changes
}

/// Whether an object that is not planned has to stay all the same.
fn is_needed(draft: &Draft<'_>, id: &ObjectId) -> bool {
    // What is installed goes only when its user asks for that.
    if let ("TenantAddon", Some(held)) = (id.kind.as_str(), draft.observed.addons.get(&id.name)) {
        let removal = draft.spec.addons.may_remove(&held.role, &held.addon);
        return held.ending || removal != Removal::Goes;
    }
    let is_content = id.kind.ends_with("Template") || id.kind == "Secret";
    let is_kept = || draft.keep.contains(&Content::from(id.clone()));
    // What all machines share goes with the Cluster and never before it, whatever the ProviderConfig says by now.
    let is_shared = id.api_version.starts_with(INFRASTRUCTURE) && id.kind.ends_with("Cluster");
    is_shared || (is_content && (!draft.is_settled || is_kept()))
}
