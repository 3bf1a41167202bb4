//! Why something is made anew, or cannot be: one word for programs, a sentence for people.

use std::{collections::BTreeSet, fmt};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    key::{Algorithm, KeyKind},
    names::{AltName, AltNames},
    profile::Subject,
};

/// Why a file does not stay as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason")]
pub enum Reason {
    /// There is none.
    Missing,
    /// It cannot be read or used.
    Garbage {
        /// Key in the Secret.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Certificate and private key are not a pair.
    WrongKey,
    /// Another authority signed it.
    ForeignAuthority,
    /// The authority is replaced in the same pass.
    AuthorityReplaced,
    /// The authority has a new certificate; its key is the same.
    AuthorityRenewed,
    /// The authority cannot sign until somebody repairs it.
    AuthorityUnusable,
    /// Its time is over.
    Expired {
        /// When it ended.
        at: Timestamp,
    },
    /// Its time has not begun.
    NotYetValid {
        /// When it begins.
        from: Timestamp,
    },
    /// The time for renewal has come.
    Due {
        /// Since when.
        since: Timestamp,
    },
    /// It is valid for other names than wanted.
    Names {
        /// Names it lacks.
        added: AltNames,
        /// Names it should no longer have.
        removed: AltNames,
    },
    /// It names somebody else.
    Subject {
        /// Whom it names.
        from: Subject,
        /// Whom it should name.
        to: Subject,
    },
    /// It may be used for more or less than wanted.
    Usages,
    /// Its key is of another kind, and replacing such keys was asked for.
    Algorithm {
        /// What it is.
        #[serde(serialize_with = "shown")]
        from: KeyKind,
        /// What it should be.
        to: Algorithm,
    },
    /// Somebody asked for it.
    Requested,
    /// Somebody brought another authority.
    Provided,
    /// Somebody brought an authority with another key than the one in use.
    OtherAuthority,
    /// The address of the API server changed.
    Server {
        /// Address in the file.
        from: String,
        /// Address it should have.
        to: String,
    },
    /// Files or entries around it are not as they should be.
    Layout,
}

impl Reason {
    /// One word, from a bounded set.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing => "Missing",
            Self::Garbage { .. } => "Garbage",
            Self::WrongKey => "WrongKey",
            Self::ForeignAuthority => "ForeignAuthority",
            Self::AuthorityReplaced => "AuthorityReplaced",
            Self::AuthorityRenewed => "AuthorityRenewed",
            Self::AuthorityUnusable => "AuthorityUnusable",
            Self::Expired { .. } => "Expired",
            Self::NotYetValid { .. } => "NotYetValid",
            Self::Due { .. } => "Due",
            Self::Names { .. } => "Names",
            Self::Subject { .. } => "Subject",
            Self::Usages => "Usages",
            Self::Algorithm { .. } => "Algorithm",
            Self::Requested => "Requested",
            Self::Provided => "Provided",
            Self::OtherAuthority => "OtherAuthority",
            Self::Server { .. } => "Server",
            Self::Layout => "Layout",
        }
    }

    /// The difference between the names of a certificate and those wanted.
    pub(crate) fn names(held: &AltNames, wanted: &AltNames) -> Self {
        Self::Names {
            added: wanted.difference(held).cloned().collect(),
            removed: held.difference(wanted).cloned().collect(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => formatter.write_str("there is none yet"),
            Self::Garbage { file, problem } => write!(formatter, "{file} is unusable: {problem}"),
            Self::WrongKey => {
                formatter.write_str("the certificate does not belong to the private key")
            }
            Self::ForeignAuthority => {
                formatter.write_str("it is not signed by the authority in use")
            }
            Self::AuthorityReplaced => formatter.write_str("the authority is replaced"),
            Self::AuthorityRenewed => formatter.write_str("the authority has a new certificate"),
            Self::AuthorityUnusable => {
                formatter.write_str("the authority cannot sign: repair it first")
            }
            Self::Expired { at } => write!(formatter, "it expired at {at}"),
            Self::NotYetValid { from } => {
                write!(
                    formatter,
                    "it is valid only from {from} on: look at the clocks"
                )
            }
            Self::Due { since } => write!(formatter, "it is due for renewal since {since}"),
            Self::Names { added, removed } => {
                let parts = [("names to add", added), ("names to remove", removed)];
                let shown = parts.iter().filter(|(_, names)| !names.is_empty());
                let shown: Vec<String> = shown
                    .map(|(what, names)| format!("{what}: {}", list(names)))
                    .collect();
                formatter.write_str(&shown.join("; "))
            }
            Self::Subject { from, to } => write!(formatter, "it names {from}, not {to}"),
            Self::Usages => formatter.write_str("its usages are not those it should have"),
            Self::Algorithm { from, to } => write!(formatter, "its key is {from}, not {to}"),
            Self::Requested => formatter.write_str("renewal was requested"),
            Self::Provided => formatter.write_str("another authority was provided"),
            Self::OtherAuthority => write!(
                formatter,
                "another authority with another key was provided, and nodes trust the one in use: annotate its Secret \
                 with {}= to replace it",
                crate::layout::ROTATE
            ),
            Self::Server { from, to } => write!(formatter, "the server moved from {from} to {to}"),
            Self::Layout => formatter.write_str("files or entries beside it are missing or differ"),
        }
    }
}

fn list(names: &BTreeSet<AltName>) -> String {
    names
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn shown<S: serde::Serializer>(kind: &KeyKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(kind)
}
