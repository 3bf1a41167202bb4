//! The status of a tenant cluster. Pure.

use butler_api::{
    butler::{
        TenantCluster,
        tenant_cluster::{ObservedState, ObservedWorkers, Phase, TenantClusterStatus},
    },
    common::LocalRef,
};
use butler_capi::{
    Observed, Plan, Reason,
    addons::AddonSet,
    names::Identity,
    plan::{Finding, Truth, failed},
};
use butler_runtime::conditions::{self, Verdict};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{addons, retry};

/// What was found and is being done. A cluster that goes wants no set of addons.
pub(super) fn status(
    raw: &TenantCluster,
    identity: &Identity,
    set: Option<&AddonSet>,
    observed: &Observed,
    plan: &Plan,
    now: Timestamp,
) -> TenantClusterStatus {
    let held = raw.status.clone().unwrap_or_default();
    let control_plane = observed.control_plane.as_ref();
    let count = |count: u32| Some(i32::try_from(count).unwrap_or(i32::MAX));
    let running = control_plane.and_then(|held| held.running);
    let mut nodes: Vec<String> = observed
        .machines
        .iter()
        .filter_map(|machine| machine.node.clone())
        .collect();
    nodes.sort();
    let state = ObservedState {
        kubernetes_version: running.map(|version| version.to_string()),
        workers: Some(ObservedWorkers {
            desired: count(plan.numbers.desired).unwrap_or_default(),
            ready: count(plan.numbers.ready).unwrap_or_default(),
            nodes,
        }),
        addons: addons::observed(set, &observed.addons),
    };
    let serves = control_plane.is_some_and(|held| held.initialized);
    let kubeconfig = LocalRef {
        name: identity.kubeconfig(),
    };
    let verdicts: Vec<Verdict> = plan.findings.iter().map(verdict).collect();
    TenantClusterStatus {
        phase: Some(plan.phase),
        last_transition_time: moved(&held, plan.phase, now),
        conditions: settled(raw, &verdicts, now),
        observed_generation: raw.metadata.generation,
        tenant_namespace: Some(identity.tenant_namespace()),
        control_plane_endpoint: control_plane.and_then(|held| held.endpoint.clone()),
        kubeconfig_secret_ref: serves.then_some(kubeconfig),
        worker_nodes_ready: count(plan.numbers.ready),
        worker_nodes_desired: count(plan.numbers.desired),
        observed_state: Some(state),
        ip_allocation_ref: observed.addresses.as_ref().map_or_else(
            || held.ip_allocation_ref.clone(),
            |seen| claim_ref(seen.machines.as_deref()),
        ),
        lb_allocation_ref: observed.addresses.as_ref().map_or_else(
            || held.lb_allocation_ref.clone(),
            |seen| claim_ref(seen.claims.first().map(|claim| claim.name.as_str())),
        ),
        ..held
    }
}

/// The claim that a cluster started with. Claims are in one namespace, and a reference has the name alone.
fn claim_ref(full_name: Option<&str>) -> Option<LocalRef> {
    let (_, name) = full_name?.split_once('/')?;
    Some(LocalRef { name: name.into() })
}

/// Nothing can be done: the spec or what it names is not right. A cluster that works is left as it is.
pub(super) fn refused(
    raw: &TenantCluster,
    reason: &'static str,
    message: String,
    now: Timestamp,
) -> TenantClusterStatus {
    let held = raw.status.clone().unwrap_or_default();
    let is_going = raw.metadata.deletion_timestamp.is_some();
    // Waiting does not make it better.
    let phase = if reason == Reason::Invalid.as_str() && !is_going {
        failed(held.phase, retry::is_due(raw))
    } else {
        held.phase.unwrap_or(Phase::Pending)
    };
    let verdicts = [Verdict::no("Ready", reason, message)];
    let mut conditions = settled(raw, &verdicts, now);
    let others = held.conditions.iter().filter(|it| it.type_ != "Ready");
    conditions.extend(others.cloned());
    TenantClusterStatus {
        phase: Some(phase),
        last_transition_time: moved(&held, phase, now),
        conditions,
        observed_generation: raw.metadata.generation,
        ..held
    }
}

fn settled(
    raw: &TenantCluster,
    verdicts: &[Verdict],
    now: Timestamp,
) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    let held = raw.status.as_ref();
    let before = held.map(|held| held.conditions.as_slice());
    conditions::settle(
        before.unwrap_or_default(),
        verdicts,
        raw.metadata.generation,
        now,
    )
}

/// Since when the phase is what it is.
fn moved(held: &TenantClusterStatus, phase: Phase, now: Timestamp) -> Option<Time> {
    if held.phase == Some(phase) {
        return held.last_transition_time.clone();
    }
    // The API keeps whole seconds, and what is sent is compared with what is kept.
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Some(Time(second))
}

fn verdict(finding: &Finding) -> Verdict {
    let Finding {
        kind,
        status,
        reason,
        message,
    } = finding;
    Verdict {
        type_: kind,
        status: match status {
            Truth::True => conditions::Truth::True,
            Truth::False => conditions::Truth::False,
            Truth::Unknown => conditions::Truth::Unknown,
        },
        reason: reason.as_str(),
        message: message.clone(),
    }
}
