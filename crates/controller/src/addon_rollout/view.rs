//! What a rollout sees of a definition and its addons, and what is told about it. Pure.

use butler_addons::rollout::{Condition, Limit, Member, Policy, Progress, Wave};
use butler_api::{
    butler::{
        AddonDefinition, TenantAddon,
        addon_definition::{AddonDefinitionStatus, AddonRolloutStatus},
    },
    names::CATALOGUE_VERSION,
};
use butler_runtime::conditions::{self, Verdict};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::slim::ClusterSummary;

/// The version that spreads, and how; nothing where all move at once.
pub(super) fn policy(entry: &AddonDefinition) -> Option<(&str, Policy)> {
    let (chart, rollout) = (entry.spec.chart.as_ref()?, entry.spec.rollout.as_ref()?);
    let limit = match &rollout.max_unavailable {
        IntOrString::Int(count) => Limit::parse(&count.to_string()),
        IntOrString::String(text) => Limit::parse(text),
    };
    let waves = rollout.waves.iter().map(|wave| Wave {
        name: wave.name.clone(),
        labels: wave.match_labels.clone(),
    });
    let policy = Policy {
        waves: waves.collect(),
        // The API server lets nothing else through.
        max_unavailable: limit.unwrap_or(Limit::Count(1)),
        max_failures: usize::try_from(rollout.max_failures).unwrap_or(0),
    };
    Some((&chart.default_version, policy))
}

pub(super) fn id(addon: &TenantAddon) -> String {
    let namespace = addon.namespace().unwrap_or_default();
    format!("{namespace}/{}", addon.name_any())
}

pub(super) fn member(addon: &TenantAddon, cluster: Option<&ClusterSummary>) -> Member {
    let granted = addon.annotations().get(CATALOGUE_VERSION).cloned();
    let status = addon.status.as_ref();
    let release = status.and_then(|status| status.helm_release.as_ref());
    Member {
        id: id(addon),
        labels: cluster
            .map(|cluster| cluster.labels().clone())
            .unwrap_or_default(),
        held: release.and_then(|release| release.version.clone()),
        condition: condition(addon, granted.as_deref()),
        granted,
    }
}

/// How it is with the version that it was granted.
fn condition(addon: &TenantAddon, granted: Option<&str>) -> Condition {
    let Some(status) = &addon.status else {
        return Condition::Unready;
    };
    if status.observed_generation != addon.metadata.generation {
        return Condition::Unready;
    }
    let installed = status
        .conditions
        .iter()
        .find(|held| held.type_ == "Installed");
    let tried = status.last_attempted_version.as_deref();
    if let Some(installed) = installed
        && installed.status == "False"
        && tried == granted
        && installed.reason != "InProgress"
    {
        return Condition::Failed(format!("{}: {}", installed.reason, installed.message));
    }
    let is_ready = conditions::is_true(&status.conditions, "Ready");
    if is_ready && tried == granted {
        Condition::Ready
    } else {
        Condition::Unready
    }
}

pub(super) fn status(version: &str, progress: &Progress) -> AddonDefinitionStatus {
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    AddonDefinitionStatus {
        rollout: Some(AddonRolloutStatus {
            version: version.to_owned(),
            total: count(progress.total),
            updated: count(progress.updated),
            updating: count(progress.updating),
            failed: count(progress.failed.len()),
            wave: progress.wave.clone(),
        }),
        ..AddonDefinitionStatus::default()
    }
}

pub(super) fn verdict(version: &str, progress: &Progress) -> Verdict {
    let Progress {
        total,
        updated,
        updating: _,
        failed,
        wave,
        stopped,
    } = progress;
    let count = format!("{updated} of {total} have version {version}");
    let first = failed.first().map(|(id, why)| format!("{id}: {why}"));
    match (stopped, wave, first) {
        (true, _, Some(first)) => {
            let message = format!(
                "{count}; stopped because {} failed, first {first}. Give another defaultVersion, or put these right",
                failed.len()
            );
            Verdict::no("RolledOut", "Stopped", message)
        }
        (_, Some(wave), _) => {
            Verdict::no("RolledOut", "InProgress", format!("{count}; wave {wave}"))
        }
        (_, None, Some(first)) => {
            let message = format!("{count}; {} failed, first {first}", failed.len());
            Verdict::no("RolledOut", "SomeFailed", message)
        }
        (_, None, None) => Verdict::yes("RolledOut", "Done", count),
    }
}
