//! Conditions: what holds for an object, since when, and for which generation.
//!
//! Pure: the moment is an argument, and a status that stands keeps its time. A fresh time on every pass
//! would wake our own watch for ever.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition as a planner states it, before it is known since when it holds.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    /// What the condition is about, such as `Ready`.
    pub type_: &'static str,
    /// Whether it holds.
    pub status: Truth,
    /// One word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

/// The three values of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be told.
    Unknown,
}

impl Truth {
    /// The spelling of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl Verdict {
    /// It holds.
    pub fn yes(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            type_,
            status: Truth::True,
            reason,
            message: message.into(),
        }
    }

    /// It does not hold.
    pub fn no(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            type_,
            status: Truth::False,
            reason,
            message: message.into(),
        }
    }

    /// It cannot be told.
    pub fn unknown(type_: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            type_,
            status: Truth::Unknown,
            reason,
            message: message.into(),
        }
    }
}

/// The conditions to report: `verdicts` in their order, each with the time since when its status holds.
///
/// A condition of `held` that no verdict speaks about is dropped: status is derived, never remembered.
pub fn settle(
    held: &[Condition],
    verdicts: &[Verdict],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    verdicts
        .iter()
        .map(|verdict| {
            let standing = held.iter().find(|condition| {
                condition.type_ == verdict.type_ && condition.status == verdict.status.as_str()
            });
            Condition {
                type_: verdict.type_.to_owned(),
                status: verdict.status.as_str().to_owned(),
                reason: verdict.reason.to_owned(),
                message: verdict.message.clone(),
                observed_generation: generation,
                last_transition_time: standing.map_or_else(
                    || Time(now),
                    |condition| condition.last_transition_time.clone(),
                ),
            }
        })
        .collect()
}

/// Whether the condition of this type is `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == type_ && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_standing_status_keeps_its_time_and_takes_the_new_words() {
        let first = settle(
            &[],
            &[Verdict::no("Ready", "Waiting", "for a")],
            Some(1),
            at(10),
        );
        let second = settle(
            &first,
            &[Verdict::no("Ready", "Waiting", "for b")],
            Some(2),
            at(20),
        );
        assert_eq!(second[0].last_transition_time, Time(at(10)));
        assert_eq!(second[0].message, "for b");
        assert_eq!(second[0].observed_generation, Some(2));
    }

    #[test]
    fn a_flip_moves_the_time() {
        let first = settle(&[], &[Verdict::no("Ready", "Waiting", "")], None, at(10));
        let second = settle(&first, &[Verdict::yes("Ready", "Done", "")], None, at(20));
        assert_eq!(second[0].last_transition_time, Time(at(20)));
        assert!(is_true(&second, "Ready"));
    }

    #[test]
    fn a_condition_nobody_states_any_more_goes_away() {
        let first = settle(&[], &[Verdict::yes("Old", "Was", "")], None, at(10));
        assert!(settle(&first, &[], None, at(20)).is_empty());
    }
}
