//! A cluster that is paused: what runs goes on, and nothing is changed.

use butler_api::butler::tenant_cluster::Phase;

use super::{Finding, Plan, Truth};
use crate::{
    access,
    object::{Object, ObjectId},
    observe::{Observed, Standing},
    reason::Reason,
};

const KIND: &str = "Paused";
const REASON: Reason = Reason::Paused;
const WHY: &str =
    "the cluster is paused: nothing of it is changed until spec.paused is false again";

/// Leaves of a plan what is done for a paused cluster: Cluster API is told to stand still as well, so that a rollout
/// stops where it is. Who may see the cluster is not held: a pause keeps nobody in who has to go.
pub(super) fn hold(plan: &mut Plan, observed: &Observed) {
    let stands = observed.namespace == Standing::Ours;
    let has_cluster = observed.cluster.is_some();
    plan.objects.retain(|object| match object {
        Object::Cluster(_) => stands && has_cluster,
        Object::Role(_) | Object::RoleBinding(_) => stands,
        Object::Namespace(_)
        | Object::ControlPlane(_)
        | Object::MachineDeployment(_)
        | Object::Addon(_)
        | Object::Secret(_)
        | Object::Infrastructure(_)
        | Object::Bootstrap(_)
        | Object::MachineHealthCheck(_) => false,
    });
    let objects = &plan.objects;
    let is_left = |id: &ObjectId| objects.iter().any(|object| object.id() == *id);
    plan.changes.create.retain(is_left);
    plan.changes.change.retain(is_left);
    plan.changes.delete.retain(access::is_about);
    plan.rolls.clear();
    plan.waits = vec![WHY.to_owned()];
    plan.wake = None;
    // Nothing moves, and so does the phase.
    plan.phase = observed.phase.unwrap_or(Phase::Pending);
    if let Some(ready) = plan.findings.last_mut() {
        match ready.status {
            Truth::True => (ready.reason, ready.message) = (REASON, WHY.to_owned()),
            // The cause stays what it is.
            Truth::False | Truth::Unknown => ready.message = format!("{}; {WHY}", ready.message),
        }
    }
    let paused = Finding {
        kind: KIND,
        status: Truth::True,
        reason: REASON,
        message: WHY.to_owned(),
    };
    let before_ready = plan.findings.len().saturating_sub(1);
    plan.findings.insert(before_ready, paused);
}
