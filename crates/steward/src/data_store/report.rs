//! The status of a store, from what was observed. Pure.

use butler_api::steward::data_store::DataStoreStatus;
use butler_runtime::{
    conditions::{self, Verdict},
    events::Note,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::users::Users;
use crate::{
    metering::steps,
    store::{health, usage::Usage},
};

/// Users that a sentence names.
const NAMED: usize = 5;

/// What a pass found out.
pub(super) struct Findings<'a> {
    pub(super) verdict: &'a health::Verdict,
    pub(super) users: &'a Users,
    /// What all users hold, where that was measured.
    pub(super) usage: Option<Usage>,
    pub(super) deleting: bool,
}

/// The next status.
pub(super) fn status(
    held: &DataStoreStatus,
    findings: &Findings<'_>,
    generation: Option<i64>,
    now: Timestamp,
) -> DataStoreStatus {
    let Findings {
        verdict,
        users,
        usage,
        deleting,
    } = findings;
    let mut verdicts = vec![ready(verdict)];
    if *deleting {
        verdicts.push(waiting(users));
    }
    DataStoreStatus {
        observed_generation: generation,
        conditions: conditions::settle(&held.conditions, &verdicts, generation, now),
        users: Some(i64::try_from(users.count).unwrap_or(i64::MAX)),
        used_by: users.named.clone(),
        usage: usage
            .and_then(|usage| steps::next(held.usage.as_ref(), usage, now))
            .or_else(|| held.usage.clone()),
    }
}

/// Whether what changes is how many use the store and what they hold, and nothing else.
pub(super) fn is_only_numbers(held: &DataStoreStatus, next: &DataStoreStatus) -> bool {
    let numbers = DataStoreStatus {
        users: next.users,
        used_by: next.used_by.clone(),
        usage: next.usage.clone(),
        ..held.clone()
    };
    held != next && numbers == *next
}

fn ready(verdict: &health::Verdict) -> Verdict {
    if verdict.is_ready() {
        Verdict::yes("Ready", verdict.reason.as_str(), verdict.message.clone())
    } else {
        Verdict::no("Ready", verdict.reason.as_str(), verdict.message.clone())
    }
}

fn waiting(users: &Users) -> Verdict {
    let named: Vec<&str> = users.named.iter().take(NAMED).map(String::as_str).collect();
    let more = match users.count.saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Verdict::yes(
        "Deleting",
        "InUse",
        format!(
            "waits for the control planes that keep their state here: {}{more}; delete them first",
            named.join(", ")
        ),
    )
}

/// What people are told when a store changes between usable and not.
pub(super) fn news(held: &[Condition], next: &[Condition]) -> Option<Note> {
    let ready = |conditions: &[Condition]| {
        let found = conditions.iter().find(|held| held.type_ == "Ready");
        found.cloned()
    };
    let (before, after) = (ready(held), ready(next)?);
    let warning = after.status != "True";
    // A new store that works is no news.
    if before.map_or(!warning, |before| before.status == after.status) {
        return None;
    }
    Some(Note {
        warning,
        reason: if warning {
            "StoreUnusable"
        } else {
            "StoreUsable"
        },
        action: "Look",
        message: after.message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(count: usize) -> Users {
        Users {
            count,
            named: (0..count.min(100))
                .map(|at| format!("a/t{at:02}"))
                .collect(),
        }
    }

    fn next(
        held: &DataStoreStatus,
        reason: health::Reason,
        users: &Users,
        usage: Option<Usage>,
        deleting: bool,
    ) -> DataStoreStatus {
        let verdict = health::Verdict {
            reason,
            message: "words".to_owned(),
        };
        let findings = Findings {
            verdict: &verdict,
            users,
            usage,
            deleting,
        };
        status(held, &findings, Some(1), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_deletion_that_waits_names_a_few_users_and_counts_the_rest() {
        let held = DataStoreStatus::default();
        let status = next(&held, health::Reason::Ready, &users(250), None, true);
        let deleting = &status.conditions[1];
        assert_eq!(
            (deleting.type_.as_str(), deleting.status.as_str()),
            ("Deleting", "True")
        );
        assert!(
            deleting.message.contains("a/t04 and 245 more"),
            "{}",
            deleting.message
        );
        let status = next(&held, health::Reason::Ready, &users(1), None, true);
        let message = &status.conditions[1].message;
        assert!(message.contains("here: a/t00; delete"), "{message}");
        let stands = next(&status, health::Reason::Ready, &users(1), None, false);
        assert_eq!(stands.conditions.len(), 1);
    }

    #[test]
    fn totals_stand_until_they_move_by_a_step_and_while_they_are_not_known() {
        let held = DataStoreStatus::default();
        let usage = Usage {
            keys: 10_000,
            bytes: 10 << 20,
        };
        let measured = next(&held, health::Reason::Ready, &users(1), Some(usage), false);
        assert_eq!(
            measured.usage.as_ref().map(|usage| usage.keys),
            Some(10_000)
        );
        let little = Usage {
            keys: 10_100,
            ..usage
        };
        for usage in [Some(little), None] {
            let again = next(&measured, health::Reason::Ready, &users(1), usage, false);
            assert_eq!(again, measured);
        }
    }

    #[test]
    fn more_users_can_wait_and_a_store_that_fails_cannot() {
        let new = DataStoreStatus::default();
        let one = next(&new, health::Reason::Ready, &users(1), None, false);
        let two = next(&one, health::Reason::Ready, &users(2), None, false);
        let bad = next(&two, health::Reason::Unreachable, &users(3), None, false);
        assert!(!is_only_numbers(&new, &one));
        assert!(is_only_numbers(&one, &two));
        assert!(!is_only_numbers(&two, &two));
        assert!(!is_only_numbers(&two, &bad));
    }

    #[test]
    fn only_a_store_that_changes_is_news() {
        let new = DataStoreStatus::default();
        let good = next(&new, health::Reason::Ready, &users(0), None, false).conditions;
        let fair = next(&new, health::Reason::Degraded, &users(0), None, false).conditions;
        let bad = next(&new, health::Reason::Unreachable, &users(0), None, false).conditions;
        assert_eq!(news(&[], &good), None);
        assert_eq!(news(&good, &fair), None);
        assert!(news(&[], &bad).unwrap().warning);
        assert!(news(&fair, &bad).unwrap().warning);
        assert_eq!(news(&bad, &bad), None);
        assert_eq!(news(&bad, &good).unwrap().reason, "StoreUsable");
    }
}
