//! Which versions of Kubernetes an addon runs on.

use std::cmp::Ordering;

/// `major.minor.patch`; what is left out matches anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    major: u32,
    minor: u32,
    patch: Option<u32>,
}

/// A range such as `>=1.28 <1.36`: all its parts must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range(Vec<(Comparison, Version)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    Above,
    AtMost,
    Below,
    Exactly,
}

impl Range {
    /// Reads a range; parts are separated by spaces or commas.
    pub fn parse(text: &str) -> Option<Self> {
        let parts = text.split([' ', ',']).filter(|part| !part.is_empty());
        let parts: Option<Vec<_>> = parts.map(part).collect();
        parts.filter(|parts| !parts.is_empty()).map(Self)
    }

    /// Whether a version such as `v1.35.4` lies in it; nothing when that is no version.
    pub fn contains(&self, version: &str) -> Option<bool> {
        let version = parse_version(version)?;
        Some(self.0.iter().all(|(comparison, bound)| {
            let order = compare(version, *bound);
            match comparison {
                Comparison::AtLeast => order != Ordering::Less,
                Comparison::Above => order == Ordering::Greater,
                Comparison::AtMost => order != Ordering::Greater,
                Comparison::Below => order == Ordering::Less,
                Comparison::Exactly => order == Ordering::Equal,
            }
        }))
    }
}

fn part(text: &str) -> Option<(Comparison, Version)> {
    // The longer signs first: `>` is also the beginning of `>=`.
    let signs = [
        (">=", Comparison::AtLeast),
        ("<=", Comparison::AtMost),
        (">", Comparison::Above),
        ("<", Comparison::Below),
        ("=", Comparison::Exactly),
        ("", Comparison::Exactly),
    ];
    signs.into_iter().find_map(|(sign, comparison)| {
        let version = parse_version(text.strip_prefix(sign)?)?;
        Some((comparison, version))
    })
}

/// A suffix such as `-0` or `+k3s1` says nothing about what the API offers.
fn parse_version(text: &str) -> Option<Version> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let text = text.split(['-', '+']).next().unwrap_or_default();
    let numbers: Option<Vec<u32>> = text.split('.').map(|word| word.parse().ok()).collect();
    match numbers?.as_slice() {
        [major, minor] => Some(Version {
            major: *major,
            minor: *minor,
            patch: None,
        }),
        [major, minor, patch] => Some(Version {
            major: *major,
            minor: *minor,
            patch: Some(*patch),
        }),
        _ => None,
    }
}

fn compare(version: Version, bound: Version) -> Ordering {
    let minor = (version.major, version.minor).cmp(&(bound.major, bound.minor));
    minor.then_with(|| match (version.patch, bound.patch) {
        (Some(version), Some(bound)) => version.cmp(&bound),
        _ => Ordering::Equal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_holds_what_lies_in_it() {
        let range = Range::parse(">=1.28.0-0, <1.36").unwrap();
        for (version, inside) in [
            ("v1.28.0", true),
            ("v1.35.4", true),
            ("v1.36.0", false),
            ("v1.27.9", false),
        ] {
            assert_eq!(range.contains(version), Some(inside), "{version}");
        }
        assert_eq!(
            Range::parse("1.35").unwrap().contains("v1.35.9"),
            Some(true)
        );
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for wrong in ["", ">=", "about 1.30", "~1.2", "1"] {
            assert_eq!(Range::parse(wrong), None, "{wrong}");
        }
    }
}
