//! The version of a pinned component, and whether what a program printed names it.
//!
//! Knows nothing of files or processes: it reads text that others obtained.

use std::{fmt, str::FromStr};

/// A released version, such as `v1.35.4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

/// A text that is not a released version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version of the form v1.2.3")]
pub struct InvalidVersion(String);

impl Version {
    /// The first number.
    pub fn major(self) -> u32 {
        self.major
    }

    /// The second number.
    pub fn minor(self) -> u32 {
        self.minor
    }

    /// The version without its leading `v`.
    pub fn number(self) -> String {
        format!("{}.{}.{}", self.major, self.minor, self.patch)
    }

    /// Whether `output` names exactly this version somewhere.
    ///
    /// A pre-release, a vendor's build (`1.35.4+k3s1`, `2.2.9~ds1`) or a longer number is another version: such
    /// programs are patched, and what is tested must be what is pinned.
    pub fn is_named_in(self, output: &str) -> bool {
        let number = self.number();
        output.match_indices(&number).any(|(at, found)| {
            let before = output.get(..at).and_then(|text| text.chars().next_back());
            let after = output.get(at + found.len()..).unwrap_or_default();
            !before.is_some_and(|c| c.is_ascii_digit() || c == '.') && !continues(after)
        })
    }
}

/// Whether a version goes on in the text after its third number.
fn continues(after: &str) -> bool {
    let mut rest = after.chars();
    match rest.next() {
        Some('.') => rest.next().is_some_and(|c| c.is_ascii_alphanumeric()),
        Some(c) => c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '~' | '_'),
        None => false,
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidVersion(text.to_owned());
        let numbers = text.strip_prefix('v').ok_or_else(invalid)?;
        let parsed: Vec<u32> = numbers
            .split('.')
            .map(|part| part.parse().map_err(|_| invalid()))
            .collect::<Result<_, _>>()?;
        let [major, minor, patch] = parsed.try_into().map_err(|_| invalid())?;
        Ok(Self {
            major,
            minor,
            patch,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn a_version_is_read_and_written_the_same() {
        assert_eq!(version("v1.35.4").to_string(), "v1.35.4");
        assert_eq!(version("v1.35.4").number(), "1.35.4");
    }

    #[test]
    fn what_is_not_three_numbers_after_a_v_is_refused() {
        for text in [
            "1.35.4",
            "v1.35",
            "v1.35.4.1",
            "v1.35.4-rc.1",
            "v",
            "",
            "vx.y.z",
        ] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_version_is_found_in_what_real_programs_print() {
        for (pin, output) in [
            ("v1.35.4", "Kubernetes v1.35.4\n"),
            (
                "v1.35.4",
                "Client Version: v1.35.4\nKustomize Version: v5.7.1\n",
            ),
            (
                "v3.6.16",
                "etcd Version: 3.6.16\nGit SHA: x\nGo Version: go1.26.0\n",
            ),
            ("v1.14.7", "CoreDNS-1.14.7\nlinux/amd64, go1.26.0, \n"),
            (
                "v2.2.9",
                "containerd github.com/containerd/containerd/v2 v2.2.9 abc\n",
            ),
            ("v4.3.1", "v4.3.1"),
            ("v1.2.3", "this is version 1.2.3."),
        ] {
            assert!(version(pin).is_named_in(output), "{pin} in {output:?}");
        }
    }

    #[test]
    fn another_version_is_never_taken_for_the_pinned_one() {
        for output in [
            "v1.35.40",
            "v11.35.4",
            "v1.35.4-rc.1",
            "v1.35.4+k3s1",
            "1.35.4~ds1",
            "2.1.35.4",
            "1.35.4.1",
            "v1.35.3",
            "",
        ] {
            assert!(!version("v1.35.4").is_named_in(output), "{output:?}");
        }
    }
}
