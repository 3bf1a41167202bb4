//! A condition of a cluster, as it is found.

use serde::Serialize;

use crate::reason::Reason;

/// The three values of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be told.
    Unknown,
}

/// A condition, before it is known since when it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Whether it holds.
    pub status: Truth,
    /// One word for programs.
    pub reason: Reason,
    /// A sentence for people.
    pub message: String,
}

impl Finding {
    pub(super) fn new(
        kind: &'static str,
        holds: bool,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            status: if holds { Truth::True } else { Truth::False },
            reason,
            message: message.into(),
        }
    }

    pub(super) fn holds(&self) -> bool {
        self.status == Truth::True
    }
}
