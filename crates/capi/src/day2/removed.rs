//! APIs that somebody still calls and that a release no longer has.
//!
//! Every API server counts calls of deprecated APIs, with the release that removes them. It counts from its start on and
//! for itself alone: what is not counted may still be called, and what is counted was called.

use std::{collections::BTreeMap, fmt};

use butler_api::types::KubeVersion;

const METRIC: &str = "apiserver_requested_deprecated_apis{";

/// What is known of calls of removed APIs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// Nobody asked.
    #[default]
    Unasked,
    /// The tenant was asked and did not answer, for this reason.
    Unanswered(String),
    /// Those that were called and are gone with the release that is wanted.
    Counted(Vec<RemovedApi>),
}

/// An API that was called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RemovedApi {
    /// Group; empty for the core one.
    pub group: String,
    /// Version.
    pub version: String,
    /// Resource, in the plural.
    pub resource: String,
    /// The release that no longer has it, such as `1.36`.
    pub release: String,
}

impl fmt::Display for RemovedApi {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            version,
            resource,
            release,
        } = self;
        let slash = if group.is_empty() { "" } else { "/" };
        write!(
            formatter,
            "{resource} of {group}{slash}{version} (removed in {release})"
        )
    }
}

/// The APIs that were called according to an API server's metrics, and that `wanted` no longer has.
pub fn removed_in(wanted: KubeVersion, metrics: &str) -> Vec<RemovedApi> {
    let mut found: Vec<RemovedApi> = metrics
        .lines()
        .filter_map(|line| called(line.strip_prefix(METRIC)?))
        .filter(|api| is_gone(&api.release, wanted))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// An API from the labels and the value of one line.
fn called(line: &str) -> Option<RemovedApi> {
    let (mut labels, value) = labels(line)?;
    if value.trim().parse::<f64>().ok()? <= 0.0 {
        return None;
    }
    let mut take = |name: &str| labels.remove(name).unwrap_or_default();
    Some(RemovedApi {
        group: take("group"),
        version: take("version"),
        resource: take("resource"),
        release: take("removed_release"),
    })
}

/// Labels up to the closing brace, and what comes after it. None where the text is not as expected.
fn labels(text: &str) -> Option<(BTreeMap<&str, String>, &str)> {
    let (mut labels, mut rest) = (BTreeMap::new(), text);
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(value) = rest.strip_prefix('}') {
            return Some((labels, value));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (mut value, mut characters) = (String::new(), quoted.char_indices());
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(characters.next()?.1),
                (_, other) => value.push(other),
            }
        };
        labels.insert(name.trim(), value);
        rest = quoted.get(end + 1..)?;
    }
}

/// Whether `wanted` is the release that removes something, or a later one. An API without one only is discouraged.
fn is_gone(release: &str, wanted: KubeVersion) -> bool {
    let parts = release.split_once('.');
    let parsed = parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parsed.is_some_and(|(major, minor): (u16, u16)| {
        (u32::from(major), u32::from(minor))
            <= (u32::from(wanted.major()), u32::from(wanted.minor()))
    })
}
