//! What is known of an artifact in the cache, as others see it.

use std::path::PathBuf;

use crate::{manifest::Group, receipt::Origin, version::Version};

/// An artifact that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledArtifact {
    /// The project it belongs to.
    pub component: String,
    /// The project's release.
    pub version: Version,
    /// Its name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Where it came from.
    pub origin: Origin,
    /// Its size in bytes.
    pub size: u64,
}

/// Everything that was asked for, all of it installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The artifacts, in the order of the pins.
    pub artifacts: Vec<InstalledArtifact>,
}

/// What there is of one pinned artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactStatus {
    /// The project it belongs to.
    pub component: String,
    /// The project's release.
    pub version: Version,
    /// Its name.
    pub name: String,
    /// When it is needed.
    pub group: Group,
    /// Whether it is there.
    pub state: State,
}

/// Whether an artifact is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is, and can be used.
    Installed(InstalledArtifact),
    /// It is not.
    Missing,
    /// Something is there that is not used, because of this; installing replaces it.
    Untrusted(String),
}
