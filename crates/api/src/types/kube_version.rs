//! `KubeVersion`: a Kubernetes release, and the steps between releases that upstream supports.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A full Kubernetes release such as `v1.35.4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KubeVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

/// Text that is no Kubernetes release.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a Kubernetes version: write a v and all three numbers, such as v1.35.4")]
pub struct KubeVersionError(String);

impl KubeVersion {
    /// The release `v{major}.{minor}.{patch}`.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }

    /// The first number.
    pub const fn major(self) -> u16 {
        self.major
    }

    /// The second number: 35 of `v1.35.4`.
    pub const fn minor(self) -> u16 {
        self.minor
    }

    /// The third number.
    pub const fn patch(self) -> u16 {
        self.patch
    }

    /// Whether a control plane may move from `self` to `next` in one step.
    ///
    /// Upstream supports one minor at a time, within one major, and never a downgrade. Staying is allowed.
    pub const fn can_upgrade_to(self, next: Self) -> bool {
        if next.major != self.major {
            return false;
        }
        if next.minor == self.minor {
            return next.patch >= self.patch;
        }
        next.minor > self.minor && next.minor - self.minor == 1
    }
}

impl FromStr for KubeVersion {
    type Err = KubeVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |part: Option<&str>| {
            let part = part?;
            // `u16::from_str` also takes a leading plus sign.
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| part.parse().ok()).flatten()
        };
        let parse = || {
            let mut parts = text.strip_prefix('v')?.split('.');
            let (major, minor, patch) = (
                number(parts.next())?,
                number(parts.next())?,
                number(parts.next())?,
            );
            parts
                .next()
                .is_none()
                .then_some(Self::new(major, minor, patch))
        };
        parse().ok_or_else(|| KubeVersionError(text.into()))
    }
}

impl TryFrom<String> for KubeVersion {
    type Error = KubeVersionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<KubeVersion> for String {
    fn from(version: KubeVersion) -> Self {
        version.to_string()
    }
}

impl fmt::Display for KubeVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "v{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(text: &str) -> KubeVersion {
        text.parse().unwrap()
    }

    #[test]
    fn releases_are_ordered_by_number_and_not_by_text() {
        assert!(version("v1.9.11") < version("v1.10.0"));
        assert!(version("v1.35.4") < version("v1.35.10"));
    }

    #[test]
    fn a_step_forward_may_cross_one_minor() {
        assert!(version("v1.34.4").can_upgrade_to(version("v1.34.4")));
        assert!(version("v1.34.4").can_upgrade_to(version("v1.34.5")));
        assert!(version("v1.34.4").can_upgrade_to(version("v1.35.0")));
    }

    #[test]
    fn a_step_back_or_over_a_minor_or_to_another_major_is_no_upgrade() {
        assert!(!version("v1.34.4").can_upgrade_to(version("v1.34.3")));
        assert!(!version("v1.34.4").can_upgrade_to(version("v1.33.9")));
        assert!(!version("v1.34.4").can_upgrade_to(version("v1.36.0")));
        assert!(!version("v1.34.4").can_upgrade_to(version("v2.34.4")));
        assert!(!version("v2.0.0").can_upgrade_to(version("v1.34.4")));
    }

    #[test]
    fn text_that_is_no_full_release_is_refused_with_an_example() {
        for text in [
            "1.35.4",
            "v1.35",
            "v1.35.4.1",
            "v1.35.x",
            "v1.+5.4",
            "v1..4",
            "",
            "v",
            "v1.35.99999",
        ] {
            let error = text.parse::<KubeVersion>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("v1.35.4"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn every_release_reads_back_as_it_was_written(major: u16, minor: u16, patch: u16) {
            let release = KubeVersion::new(major, minor, patch);
            prop_assert_eq!(release.to_string().parse(), Ok(release));
        }

        #[test]
        fn an_upgrade_never_goes_back(a: (u16, u16), b: (u16, u16)) {
            let (from, to) = (KubeVersion::new(1, a.0, a.1), KubeVersion::new(1, b.0, b.1));
            prop_assert!(!from.can_upgrade_to(to) || to >= from);
        }
    }
}
