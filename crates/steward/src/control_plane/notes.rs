//! What is worth an event: a control plane that begins or ceases to serve, and whatever a person should look at. Pure.

use butler_runtime::{
    conditions::{Truth, Verdict},
    events::Note,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Reasons that pass by themselves while a control plane starts or rolls: conditions show them, nobody has to act.
const PASSING: [&str; 13] = [
    "PodsNotReady",
    // Somebody asked for it.
    "Sleeping",
    "ClusterIPPending",
    "LoadBalancerPending",
    "TenantUnsettled",
    "Upgrading",
    "UpgradeWaiting",
    // Steps of a deletion.
    "DeletingPods",
    "DeletingData",
    // Steps of encryption at rest.
    "Learning",
    "RollingOut",
    "Rewriting",
    "Decrypting",
];

/// The notes that lead from the reported conditions to the next ones.
pub(super) fn notes(before: &[Condition], next: &[Verdict]) -> Vec<Note> {
    next.iter()
        .filter_map(|verdict| {
            let held = before
                .iter()
                .find(|condition| condition.type_ == verdict.type_);
            note(held, verdict)
        })
        .collect()
}

fn note(held: Option<&Condition>, verdict: &Verdict) -> Option<Note> {
    let held_true = held.is_some_and(|held| held.status == Truth::True.as_str());
    let same_reason = held.is_some_and(|held| held.reason == verdict.reason);
    let is_summary = verdict.type_ == "Ready";
    let (warning, reason, action) = match verdict.status {
        Truth::True if is_summary && !held_true => (false, verdict.reason, "Reconcile"),
        Truth::False if verdict.reason == "Upgrading" && !same_reason => {
            (false, verdict.reason, "Upgrade")
        }
        Truth::False if is_summary && held_true && verdict.reason == "Sleeping" => {
            (false, verdict.reason, "Reconcile")
        }
        Truth::False if is_summary && held_true => (true, "NotReady", "Reconcile"),
        // The summary repeats a stage, which has its own note.
        Truth::False if !is_summary && !same_reason && !PASSING.contains(&verdict.reason) => {
            (true, verdict.reason, "Reconcile")
        }
        Truth::True | Truth::False | Truth::Unknown => return None,
    };
    Some(Note {
        warning,
        reason,
        action,
        message: verdict.message.clone(),
    })
}

#[cfg(test)]
mod tests {
    use butler_runtime::conditions::settle;
    use jiff::Timestamp;

    use super::*;

    fn told(before: &[Verdict], next: &[Verdict]) -> Vec<(bool, &'static str)> {
        let before = settle(&[], before, Some(1), Timestamp::UNIX_EPOCH);
        let notes = notes(&before, next);
        notes
            .iter()
            .map(|note| (note.warning, note.reason))
            .collect()
    }

    #[test]
    fn serving_is_told_once_and_an_end_of_it_as_a_warning() {
        let serves = [Verdict::yes("Ready", "Ready", "serves")];
        let fails = [Verdict::no("Ready", "PodsNotReady", "0 of 1")];
        assert_eq!(told(&[], &serves), [(false, "Ready")]);
        assert_eq!(told(&serves, &serves), []);
        assert_eq!(told(&serves, &fails), [(true, "NotReady")]);
        assert_eq!(told(&fails, &serves), [(false, "Ready")]);
    }

    #[test]
    fn sleep_is_told_and_warns_nobody() {
        let serves = [Verdict::yes("Ready", "Ready", "serves")];
        let sleeps = [
            Verdict::no("WorkloadReady", "Sleeping", "asleep"),
            Verdict::no("Ready", "Sleeping", "asleep"),
        ];
        assert_eq!(told(&serves, &sleeps), [(false, "Sleeping")]);
        assert_eq!(told(&sleeps, &sleeps), []);
    }

    #[test]
    fn an_upgrade_is_told_when_it_begins_and_when_it_is_refused() {
        let settled = [Verdict::yes("UpToDate", "UpToDate", "")];
        let begun = [Verdict::no("UpToDate", "Upgrading", "")];
        let refused = [Verdict::no("UpToDate", "UpgradeRefused", "")];
        assert_eq!(told(&settled, &begun), [(false, "Upgrading")]);
        assert_eq!(told(&begun, &begun), []);
        assert_eq!(told(&settled, &refused), [(true, "UpgradeRefused")]);
    }

    #[test]
    fn what_passes_by_itself_is_not_told() {
        let starts = [
            Verdict::no("WorkloadReady", "PodsNotReady", "0 of 1"),
            Verdict::unknown("TenantReady", "Waiting", "waits"),
            Verdict::no("Ready", "PodsNotReady", "0 of 1"),
        ];
        assert_eq!(told(&[], &starts), []);
    }

    #[test]
    fn what_a_person_should_look_at_is_told_until_the_reason_changes() {
        let missing = [Verdict::no("StoreReady", "StoreNotFound", "there is none")];
        let refused = [Verdict::no("StoreReady", "TlsRefused", "bad certificate")];
        assert_eq!(told(&[], &missing), [(true, "StoreNotFound")]);
        assert_eq!(told(&missing, &missing), []);
        assert_eq!(told(&missing, &refused), [(true, "TlsRefused")]);
    }
}
