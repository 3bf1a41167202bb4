//! What is told about an addon whose release is left alone.

use butler_addons::{
    plan::{Step, World},
    request::Request,
};
use butler_api::butler::{tenant_addon::TenantAddonPhase as Phase, tenant_cluster::ManagementMode};
use butler_runtime::{conditions::Verdict, controller::Wake};

use super::{LOOK, Report, Subject, seen, stands, stood};

/// Whether nothing of a release may be changed: its cluster is only looked at, or leaves what was installed once to a
/// tool of its own.
pub(crate) fn is_left_alone(mode: ManagementMode, world: &World) -> bool {
    match mode {
        ManagementMode::Active => false,
        ManagementMode::Observe => true,
        ManagementMode::GitOps => stood(world),
    }
}

/// An addon of which only is said what was found.
pub(crate) fn left_alone(
    request: &Request,
    world: &World,
    step: &Step,
    mode: ManagementMode,
) -> Report {
    let subject = Subject::new(request, world);
    let found = match step {
        Step::Install => "it is not installed",
        Step::Upgrade | Step::RolledBack => "another version or other values are installed",
        Step::Refuse => "somebody else manages its release",
        Step::RecoverPending(_) | Step::Wait => "its release is being changed",
        Step::CorrectDrift(_) => "somebody changed what it installed",
        Step::Uninstall | Step::Gone => "its release is being removed",
        Step::Rollback(_) | Step::Unhealthy | Step::WatchHealth(_) => "it is not healthy",
        Step::Retry(_) => "its last step failed",
        Step::MarkHealthy(_) | Step::Done => "it is installed as asked for",
    };
    let message = format!("{found}; the cluster's management policy is {mode:?}");
    let conditions = if stands(world) {
        let installed = Verdict::yes("Installed", "Observed", message.clone());
        [installed, subject.health()]
    } else {
        Subject::not_installed("Observed", &message)
    };
    let phase = match (stands(world), &world.health) {
        (false, _) => Phase::Pending,
        (true, Some(health)) if !health.is_ready() => Phase::Degraded,
        (true, _) => Phase::Installed,
    };
    let report = Subject::report(phase, message, conditions, None, Wake::After(LOOK));
    Report {
        seen: Some(seen(request, world)),
        ..report
    }
}
