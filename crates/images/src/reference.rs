//! The name of an image. Pure.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An image by registry, repository and tag, such as `registry.k8s.io/coredns/coredns:v1.14.7`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reference {
    registry: String,
    repository: String,
    tag: String,
}

/// Why text names no image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} does not name an image: {reason}, as in registry.k8s.io/pause:3.10.1")]
pub struct InvalidReference {
    text: String,
    reason: &'static str,
}

impl Reference {
    /// Where it is published.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Its name there; a mirror holds it under the same.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// Which one of that name.
    pub fn tag(&self) -> &str {
        &self.tag
    }
}

impl FromStr for Reference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = |reason| InvalidReference {
            text: text.to_owned(),
            reason,
        };
        if text.contains('@') {
            return Err(refused("write a tag, not a digest"));
        }
        let (registry, rest) = text
            .split_once('/')
            .filter(|(first, _)| first.contains(['.', ':']) || *first == "localhost")
            .ok_or_else(|| refused("write the registry"))?;
        let (repository, tag) = rest
            .rsplit_once(':')
            .ok_or_else(|| refused("write a tag"))?;
        let name = |it: &str| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
            !it.is_empty() && it.chars().all(plain) && !it.starts_with('.')
        };
        if !repository.split('/').all(name) {
            return Err(refused("names are small letters, digits, '.', '_' and '-'"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if tag.is_empty() || tag.len() > 128 || !tag.chars().all(plain) {
            return Err(refused("a tag is letters, digits, '.', '_' and '-'"));
        }
        Ok(Self {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag: tag.to_owned(),
        })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}:{}", self.registry, self.repository, self.tag)
    }
}

impl TryFrom<String> for Reference {
    type Error = InvalidReference;

    fn try_from(text: String) -> Result<Self, InvalidReference> {
        text.parse()
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> Self {
        reference.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart_and_put_together_again() {
        let text = "registry.k8s.io/coredns/coredns:v1.14.7";
        let reference: Reference = text.parse().unwrap();
        assert_eq!(reference.registry(), "registry.k8s.io");
        assert_eq!(reference.repository(), "coredns/coredns");
        assert_eq!(reference.tag(), "v1.14.7");
        assert_eq!(reference.to_string(), text);
        let port: Reference = "10.40.0.254:5000/pause:3.10.1".parse().unwrap();
        assert_eq!(port.registry(), "10.40.0.254:5000");
    }

    #[test]
    fn names_that_leave_something_open_are_refused() {
        for text in [
            "pause:3.10.1",
            "registry.k8s.io/pause",
            "registry.k8s.io/Pause:1",
            "registry.k8s.io/../pause:1",
            "registry.k8s.io/pause@sha256:00",
            "registry.k8s.io/pause:",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }
}
