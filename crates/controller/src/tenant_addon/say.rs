//! What is told about an addon: phase, conditions, events. Pure.

mod alone;

use std::time::Duration;

use butler_addons::request::{Drift, Request};
use butler_addons::{
    health::Health,
    plan::{Failure, Step, World},
    record::Status,
};
use butler_api::{
    butler::tenant_addon::TenantAddonPhase as Phase,
    common::HelmRelease,
    names::{ADOPT, RETRY},
};
use butler_runtime::{
    conditions::{Truth, Verdict},
    controller::Wake,
    events::Note,
};

use jiff::Timestamp;

pub(crate) use self::alone::{is_left_alone, left_alone};
use crate::addon_engine::Trouble;

/// How often what stands is looked at: nobody tells us when something changes in a tenant.
const LOOK: Duration = Duration::from_mins(2);
/// How often it is asked again for what no watch tells, such as a Secret.
pub(crate) const ASK: Duration = Duration::from_secs(30);
/// How soon it is asked again for what comes in a moment.
pub(crate) const SOON: Duration = Duration::from_secs(2);
/// How soon an unhealthy release is looked at again.
const CONCERN: Duration = Duration::from_secs(15);

/// What to report.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) phase: Phase,
    pub(crate) message: String,
    pub(crate) verdicts: Vec<Verdict>,
    /// What stands; nothing while nobody looked, and then what was seen before still counts.
    pub(crate) seen: Option<Seen>,
    pub(crate) note: Option<Note>,
    pub(crate) wake: Wake,
}

/// What stands of a release.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) installed_version: Option<String>,
    pub(crate) attempted_version: Option<String>,
    pub(crate) release: Option<HelmRelease>,
}

/// An addon that its user paused.
pub(crate) fn paused() -> Report {
    let trouble = Trouble::new("Paused", "paused: the release is left alone");
    hindered(Hindrance::Cluster, &trouble, Wake::OnChange)
}

/// How far an addon got before something stopped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// What it asks for.
    Request,
    /// Its cluster.
    Cluster,
    /// What it depends on.
    Dependencies,
}

/// An addon of which nothing can be done yet.
pub(crate) fn hindered(at: Hindrance, trouble: &Trouble, wake: Wake) -> Report {
    let no = |type_| Verdict::no(type_, trouble.reason, trouble.message.clone());
    let unknown = |type_| Verdict::unknown(type_, trouble.reason, "not looked at yet");
    let cluster = || Verdict::yes("ClusterReady", "Ready", "the cluster is ready");
    let (verdicts, phase) = match at {
        Hindrance::Request => (
            vec![
                unknown("ClusterReady"),
                unknown("DependenciesMet"),
                no("Installed"),
            ],
            Phase::Failed,
        ),
        Hindrance::Cluster => (
            vec![
                no("ClusterReady"),
                unknown("DependenciesMet"),
                unknown("Installed"),
            ],
            Phase::Pending,
        ),
        Hindrance::Dependencies => (
            vec![cluster(), no("DependenciesMet"), unknown("Installed")],
            Phase::Pending,
        ),
    };
    let warning = at == Hindrance::Request || trouble.reason == "DependencyCycle";
    let note = warning.then(|| warn(trouble.reason, trouble.message.clone()));
    let mut verdicts = verdicts;
    verdicts.push(unknown("Healthy"));
    finish(phase, trouble.message.clone(), verdicts, note, wake)
}

fn warn(reason: &'static str, message: String) -> Note {
    Note {
        warning: true,
        reason,
        action: "Install",
        message,
    }
}

fn tell(reason: &'static str, message: String) -> Note {
    Note {
        warning: false,
        ..warn(reason, message)
    }
}

/// Ready is what everything else comes to.
fn finish(
    phase: Phase,
    message: String,
    mut verdicts: Vec<Verdict>,
    note: Option<Note>,
    wake: Wake,
) -> Report {
    let missing = verdicts
        .iter()
        .find(|verdict| verdict.status != Truth::True);
    let ready = match missing {
        None => Verdict::yes("Ready", "Ready", message.clone()),
        Some(verdict) => Verdict::no("Ready", verdict.reason, message.clone()),
    };
    verdicts.insert(0, ready);
    Report {
        phase,
        message,
        verdicts,
        seen: None,
        note,
        wake,
    }
}

/// What stands, as far as its record says.
fn seen(request: &Request, world: &World) -> Seen {
    let attempted_version = Some(request.chart.version.clone());
    let Some(last) = world.revisions.last() else {
        return Seen {
            attempted_version,
            ..Seen::default()
        };
    };
    let version = world
        .latest
        .as_ref()
        .map(|record| record.chart_version.clone());
    let stands = last.status == Status::Deployed;
    let status = serde_json::to_value(last.status).ok();
    Seen {
        installed_version: version.clone().filter(|_| stands),
        attempted_version,
        release: Some(HelmRelease {
            name: Some(request.release.name.clone()),
            namespace: Some(request.release.namespace.clone()),
            revision: Some(i64::from(last.number)),
            status: status.and_then(|status| status.as_str().map(str::to_owned)),
            version,
        }),
    }
}

/// An addon whose cluster was looked at: what the next step says about it.
pub(crate) fn installed(request: &Request, world: &World, step: &Step, now: Timestamp) -> Report {
    let subject = Subject::new(request, world);
    let report = match step {
        Step::Wait
        | Step::Install
        | Step::Upgrade
        | Step::Rollback(_)
        | Step::Uninstall
        | Step::RecoverPending(_) => subject.under_way(step),
        Step::Refuse => subject.refused(),
        Step::Retry(failure) => Subject::failed(failure, now),
        Step::RolledBack => subject.rolled_back(),
        Step::WatchHealth(soon) => subject.becoming_healthy(*soon),
        Step::Unhealthy => subject.unhealthy(),
        Step::CorrectDrift(_) | Step::MarkHealthy(_) | Step::Done | Step::Gone => {
            subject.standing()
        }
    };
    Report {
        seen: Some(seen(request, world)),
        ..report
    }
}

/// An addon whose objects somebody changed, and which the cluster does not take back.
pub(crate) fn not_put_back(request: &Request, world: &World, why: &str) -> Report {
    let subject = Subject::new(request, world);
    let message = format!("{}; changed by somebody: {why}", subject.stands);
    let installed = Verdict::no("Installed", "ObjectsRefused", message.clone());
    let note = Some(warn("ObjectsRefused", message.clone()));
    let conditions = [installed, subject.health()];
    let wake = Wake::After(LOOK);
    Report {
        seen: Some(seen(request, world)),
        ..Subject::report(Phase::Degraded, message, conditions, note, wake)
    }
}

/// Whether it was ever installed. The last revision may be another tool's that is at it, or failed.
fn stood(world: &World) -> bool {
    let mut statuses = world.revisions.iter().map(|revision| revision.status);
    statuses.any(|status| matches!(status, Status::Deployed | Status::Superseded))
}

fn stands(world: &World) -> bool {
    let last = world.revisions.last();
    last.is_some_and(|last| last.status == Status::Deployed)
}

/// What is spoken about, and the words for it.
struct Subject<'a> {
    request: &'a Request,
    world: &'a World,
    chart: String,
    /// That it stands.
    stands: String,
    /// How its objects are.
    summary: String,
}

impl<'a> Subject<'a> {
    fn new(request: &'a Request, world: &'a World) -> Self {
        let chart = format!("{} {}", request.chart.name, request.chart.version);
        Self {
            request,
            world,
            stands: format!("{chart} is installed as release {}", request.release),
            summary: world
                .health
                .as_ref()
                .map(Health::summary)
                .unwrap_or_default(),
            chart,
        }
    }

    fn report(
        phase: Phase,
        message: String,
        conditions: [Verdict; 2],
        note: Option<Note>,
        wake: Wake,
    ) -> Report {
        let [installed, health] = conditions;
        let verdicts = vec![
            Verdict::yes("ClusterReady", "Ready", "the cluster is ready"),
            Verdict::yes("DependenciesMet", "Met", "everything it needs is ready"),
            installed,
            health,
        ];
        finish(phase, message, verdicts, note, wake)
    }

    fn not_installed(reason: &'static str, message: &str) -> [Verdict; 2] {
        [
            Verdict::no("Installed", reason, message),
            Verdict::unknown("Healthy", "NotInstalled", "not installed as asked for"),
        ]
    }

    fn health(&self) -> Verdict {
        if self.world.health.as_ref().is_none_or(Health::is_ready) {
            Verdict::yes("Healthy", "Healthy", self.summary.clone())
        } else {
            Verdict::no("Healthy", "Unhealthy", self.summary.clone())
        }
    }

    fn is_installed(&self) -> Verdict {
        Verdict::yes("Installed", "Installed", self.stands.clone())
    }

    fn under_way(&self, step: &Step) -> Report {
        let stood = stood(self.world);
        let (phase, word) = match step {
            Step::Rollback(_) => (Phase::Upgrading, "is rolled back"),
            _ if stood => (Phase::Upgrading, "is upgraded"),
            _ => (Phase::Installing, "is installed"),
        };
        let Self { chart, summary, .. } = self;
        let message = format!("{chart} {word}, release {}", self.request.release);
        let note = match step {
            Step::Rollback(to) => Some(warn(
                "RollingBack",
                format!("{chart} did not become healthy ({summary}): goes back to revision {to}"),
            )),
            Step::Install => Some(tell("Installing", message.clone())),
            Step::Upgrade => Some(tell("Upgrading", message.clone())),
            _ => None,
        };
        let conditions = Self::not_installed("InProgress", &message);
        Self::report(phase, message, conditions, note, Wake::OnChange)
    }

    fn refused(&self) -> Report {
        let message = format!(
            "release {} was installed by somebody else: remove it, choose another name, or annotate this addon with \
             {ADOPT}=true to take it over",
            self.request.release
        );
        Self::trouble("ReleaseOfOthers", message, Wake::After(ASK))
    }

    fn failed(failure: &Failure, now: Timestamp) -> Report {
        let left = Duration::try_from(failure.retry_at.duration_since(now)).unwrap_or_default();
        let wake = Wake::After(left.max(Duration::from_secs(1)));
        Self::trouble(failure.class.reason(), failure.message.clone(), wake)
    }

    fn trouble(reason: &'static str, message: String, wake: Wake) -> Report {
        let note = Some(warn(reason, message.clone()));
        let conditions = Self::not_installed(reason, &message);
        Self::report(Phase::Failed, message, conditions, note, wake)
    }

    fn rolled_back(&self) -> Report {
        let message = format!(
            "{} did not become healthy and was rolled back; what ran before runs again. Change version or values, or \
             annotate this addon with another {RETRY} to try the same again",
            self.chart
        );
        let note = Some(warn("RolledBack", message.clone()));
        let installed = Verdict::no("Installed", "RolledBack", message.clone());
        let conditions = [installed, self.health()];
        Self::report(
            Phase::Degraded,
            message,
            conditions,
            note,
            Wake::After(LOOK),
        )
    }

    fn becoming_healthy(&self, soon: Duration) -> Report {
        let message = format!("{}; {}", self.stands, self.summary);
        let phase = if self.world.revisions.len() > 1 {
            Phase::Upgrading
        } else {
            Phase::Installing
        };
        let health = Verdict::no("Healthy", "Progressing", self.summary.clone());
        let conditions = [self.is_installed(), health];
        Self::report(phase, message, conditions, None, Wake::After(soon))
    }

    fn unhealthy(&self) -> Report {
        let message = format!("{}; {}", self.stands, self.summary);
        let note = Some(warn("Unhealthy", message.clone()));
        let conditions = [self.is_installed(), self.health()];
        Self::report(
            Phase::Degraded,
            message,
            conditions,
            note,
            Wake::After(CONCERN),
        )
    }

    fn standing(&self) -> Report {
        let drifted = &self.world.drifted;
        let conditions = [self.is_installed(), self.health()];
        let (message, note) = if drifted.is_empty() || self.request.drift == Drift::Off {
            (self.stands.clone(), tell("Installed", self.stands.clone()))
        } else {
            let names: Vec<String> = drifted.iter().map(ToString::to_string).collect();
            let changed = format!("changed by somebody: {}", names.join(", "));
            (
                format!("{}; {changed}", self.stands),
                warn("Drifted", changed),
            )
        };
        Self::report(
            Phase::Installed,
            message,
            conditions,
            Some(note),
            Wake::After(LOOK),
        )
    }
}

/// An addon that is being removed.
pub(crate) fn leaving(message: String, wake: Wake) -> Report {
    let verdicts = vec![Verdict::no("Installed", "Deleting", message.clone())];
    finish(Phase::Deleting, message, verdicts, None, wake)
}

#[cfg(test)]
mod tests;
