//! What is reported about a control plane, from its Deployment. Pure.

use butler_api::{steward::tenant_control_plane::status::State, types::KubeVersion};
use k8s_openapi::api::apps::v1::Deployment;

use crate::{names, spec::ControlPlane};

/// How far new pods have replaced old ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All pods are new and ready.
    Complete,
    /// Not yet.
    Underway,
    /// Not, and for too long nothing has moved.
    Stalled,
}

/// The pods of a control plane, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// The release that the template of the pods names.
    pub version: Option<KubeVersion>,
    /// Pods that are wanted.
    pub desired: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// How far new pods have replaced old ones.
    pub progress: Progress,
    /// The pods that failed before, see [`names::FAILED_ROLLOUT`].
    pub failed: Option<String>,
}

impl Rollout {
    /// Reads a Deployment.
    pub fn of(deployment: &Deployment) -> Self {
        let desired = deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1);
        let status = deployment.status.clone().unwrap_or_default();
        let count = |number: Option<i32>| number.unwrap_or(0);
        let seen = status.observed_generation >= deployment.metadata.generation;
        let settled = count(status.updated_replicas) == desired
            && count(status.replicas) == desired
            && count(status.available_replicas) == desired
            && count(status.ready_replicas) == desired;
        let mut conditions = status.conditions.iter().flatten();
        let given_up = conditions.any(|condition| {
            condition.type_ == "Progressing"
                && condition.status == "False"
                && condition.reason.as_deref() == Some("ProgressDeadlineExceeded")
        });
        let annotations = deployment.metadata.annotations.as_ref();
        let annotation = |key: &str| annotations?.get(key).cloned();
        Self {
            version: annotation(names::DEPLOYED_VERSION).and_then(|text| text.parse().ok()),
            failed: annotation(names::FAILED_ROLLOUT),
            desired,
            ready: count(status.ready_replicas),
            progress: match (seen, settled) {
                (true, true) => Progress::Complete,
                (true, false) if given_up => Progress::Stalled,
                _ => Progress::Underway,
            },
        }
    }

    /// The release that was reported as installed, or the first one as soon as a pod of it serves: it has nothing to
    /// replace, and is not taken for new because its report is late or was lost.
    pub fn installed(&self, reported: Option<KubeVersion>) -> Option<KubeVersion> {
        reported.or_else(|| self.version.filter(|_| self.ready > 0))
    }
}

/// What is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// In one word.
    pub state: State,
    /// The release that runs; none before the first one did.
    pub installed: Option<KubeVersion>,
    /// In a sentence.
    pub message: String,
}

/// The report of a control plane.
///
/// `installed` is what was reported before. It moves whenever new pods have replaced all old ones, whatever
/// else is going on; a control plane that is asleep has installed nothing new.
pub fn report(
    spec: &ControlPlane,
    rollout: Option<&Rollout>,
    installed: Option<KubeVersion>,
) -> Report {
    let Some(rollout) = rollout else {
        let state = if spec.is_asleep() {
            State::Sleeping
        } else {
            State::Provisioning
        };
        let message = "there are no pods yet".to_owned();
        return Report {
            state,
            installed,
            message,
        };
    };
    let complete = rollout.progress == Progress::Complete && rollout.desired > 0;
    let installed = if complete {
        rollout.version.or(installed)
    } else {
        rollout.installed(installed)
    };
    let pods = format!("{} of {} pods are ready", rollout.ready, rollout.desired);
    let stalled = match rollout.progress {
        Progress::Stalled => "; nothing has moved for too long",
        Progress::Complete | Progress::Underway => "",
    };
    let (state, message) = match installed {
        _ if spec.is_asleep() => (
            State::Sleeping,
            "asleep: no pods run, data is kept".to_owned(),
        ),
        None => (State::Provisioning, format!("{pods}{stalled}")),
        Some(_) if rollout.ready == 0 => (State::NotReady, format!("{pods}{stalled}")),
        Some(_) if spec.is_write_limited() => (
            State::WriteLimited,
            format!("{pods}; some writes are refused"),
        ),
        Some(running) if rollout.version.is_some_and(|next| next != running) => {
            let next = rollout.version.unwrap_or(running);
            (
                State::Upgrading,
                format!("from {running} to {next}: {pods}{stalled}"),
            )
        }
        Some(running) => (State::Ready, format!("{running} serves; {pods}{stalled}")),
    };
    Report {
        state,
        installed,
        message,
    }
}
