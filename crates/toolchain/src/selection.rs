//! Which of the pinned artifacts are meant. Only names: whether they are installed is not known here.

use std::str::FromStr;

use crate::{
    manifest::{Artifact, Component, Group},
    version::{InvalidVersion, Version},
};

/// Which artifacts are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Everything that is pinned.
    All,
    /// The artifacts of one group.
    Group(Group),
    /// Components or artifacts by name, each perhaps at one of its versions.
    Named(Vec<Name>),
}

/// A component or an artifact, as `kubectl`, `kubernetes` or `kubectl@v1.34.4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub(crate) name: String,
    pub(crate) version: Option<Version>,
}

impl FromStr for Name {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once('@') {
            Some((name, version)) => Self {
                name: name.to_owned(),
                version: Some(version.parse()?),
            },
            None => Self {
                name: text.to_owned(),
                version: None,
            },
        })
    }
}

impl Name {
    /// Whether this name means the artifact. A bare name means every version of it.
    pub(crate) fn means(&self, component: &Component, artifact: &Artifact) -> bool {
        self.version
            .is_none_or(|version| version == component.version)
            && (self.name == component.name || self.name == artifact.name)
    }
}
