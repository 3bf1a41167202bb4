//! Names that other objects are made from: of teams and of clusters.
//!
//! The lists of reserved names are here and nowhere else; the schemas of `Team` and `ButlerConfig` are
//! written from them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::names;

/// Namespaces of the platform's parts: no team and no tenant may live there.
pub const SYSTEM_NAMESPACES: [&str; 7] = [
    names::SYSTEM_NAMESPACE,
    "cert-manager",
    "flux-system",
    "longhorn-system",
    "metallb-system",
    "steward-system",
    "traefik",
];

/// How the names of further system namespaces start.
pub const SYSTEM_PREFIXES: [&str; 2] = ["kube-", "capi-"];

/// Names that only a team must not have: its namespace has the same name.
pub const RESERVED_TEAM_NAMES: [&str; 2] = ["default", names::BUTLER];

/// How names start that only a team must not have.
pub const RESERVED_TEAM_PREFIX: &str = "butler-";

/// The longest name of a `TenantCluster`.
///
/// Its namespace is the name, a dash and eight characters, and names made from it are label values with
/// at most 63 characters.
pub const CLUSTER_NAME_MAX: usize = 50;

/// The longest DNS label, which is also the longest name of a namespace.
pub const LABEL_MAX: usize = 63;

/// Whether a namespace belongs to the platform or to Kubernetes itself.
pub fn is_system_namespace(name: &str) -> bool {
    SYSTEM_NAMESPACES.contains(&name)
        || SYSTEM_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Whether no team may have this name.
pub fn is_reserved_for_teams(name: &str) -> bool {
    is_system_namespace(name)
        || RESERVED_TEAM_NAMES.contains(&name)
        || name.starts_with(RESERVED_TEAM_PREFIX)
}

/// Why text is no name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// Characters that a DNS label does not have, or none at all.
    #[error(
        "{0:?} is not a name: use lower-case letters, digits and dashes, with a letter or digit at both ends"
    )]
    Characters(String),
    /// A first character that is no letter.
    #[error("{0:?} does not start with a letter, which the Services made from it need")]
    FirstCharacter(String),
    /// Too long for the objects made from it.
    #[error("{name:?} has {} characters: use at most {max}", .name.len())]
    TooLong {
        /// What was given.
        name: String,
        /// The longest that is possible.
        max: usize,
    },
    /// The name of a namespace that is not for teams.
    #[error("{0:?} is reserved for the platform: choose another team name")]
    Reserved(String),
}

/// Checks for a DNS label of at most `max` characters.
fn label(text: &str, max: usize) -> Result<(), NameError> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let at_ends = text.starts_with('-') || text.ends_with('-');
    if text.is_empty() || at_ends || !text.bytes().all(inner) {
        return Err(NameError::Characters(text.into()));
    }
    if text.len() > max {
        return Err(NameError::TooLong {
            name: text.into(),
            max,
        });
    }
    Ok(())
}

/// The name of a team, and of its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TeamName(String);

impl TeamName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TeamName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        label(&text, LABEL_MAX)?;
        if is_reserved_for_teams(&text) {
            return Err(NameError::Reserved(text));
        }
        Ok(Self(text))
    }
}

/// The name of a tenant cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterName(String);

impl ClusterName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ClusterName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        label(&text, CLUSTER_NAME_MAX)?;
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(NameError::FirstCharacter(text));
        }
        Ok(Self(text))
    }
}

/// What both names share as text.
macro_rules! text {
    ($name:ident) => {
        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::try_from(String::from(text))
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

text!(TeamName);
text!(ClusterName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_platform_namespaces_are_no_team_names() {
        for name in [
            "default",
            "butler",
            "butler-system",
            "butler-tenants",
            "kube-system",
            "kube-anything",
            "capi-system",
            "steward-system",
            "cert-manager",
            "flux-system",
        ] {
            let error = name.parse::<TeamName>().unwrap_err();
            assert_eq!(error, NameError::Reserved(name.into()));
        }
    }

    #[test]
    fn ordinary_names_are_team_names() {
        for name in [
            "acme",
            "platform-engineering",
            "team-a",
            "kubernetes",
            "1st",
            "capital",
        ] {
            assert_eq!(name.parse::<TeamName>().unwrap().as_str(), name);
        }
    }

    #[test]
    fn a_tenant_namespace_may_be_the_default_one_but_not_a_system_one() {
        assert!(!is_system_namespace(names::DEFAULT_TENANT_NAMESPACE));
        assert!(is_system_namespace(names::SYSTEM_NAMESPACE));
    }

    #[test]
    fn a_cluster_name_leaves_room_for_what_is_made_from_it() {
        let name = "a".repeat(CLUSTER_NAME_MAX);
        assert!(name.parse::<ClusterName>().is_ok());
        let error = format!("{name}a").parse::<ClusterName>().unwrap_err();
        assert!(
            error
                .to_string()
                .contains("has 51 characters: use at most 50")
        );
    }

    #[test]
    fn a_cluster_name_starts_with_a_letter() {
        let error = "7up".parse::<ClusterName>().unwrap_err();
        assert!(error.to_string().contains("start with a letter"));
    }

    #[test]
    fn text_with_other_characters_is_no_name() {
        for text in ["", "-a", "a-", "A", "a.b", "a_b", "ä"] {
            let error = text.parse::<ClusterName>().unwrap_err();
            assert_eq!(error, NameError::Characters(text.into()));
        }
    }
}
