//! What somebody wants to be installed, with nothing left to look up.

use std::{fmt, time::Duration};

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::health::Rule;

/// A release of Helm: its name is unique in its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ReleaseId {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for ReleaseId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

/// A chart, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ChartRef {
    /// Address of the repository: `https://`, `http://` or `oci://`.
    pub repository: String,
    /// Name in the repository.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// `sha256:…` of the archive, where somebody insists on it.
    pub digest: Option<String>,
}

impl fmt::Display for ChartRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} of {}", self.name, self.version, self.repository)
    }
}

/// What to do when objects of a release are not as they were installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Drift {
    /// Put them back.
    #[default]
    Correct,
    /// Say so.
    Report,
    /// Do not look.
    Off,
}

/// What is to be installed.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Request {
    /// The release.
    pub release: ReleaseId,
    /// The chart.
    pub chart: ChartRef,
    /// All values in one.
    pub values: Value,
    /// Whether the namespace is made when it is missing.
    pub create_namespace: bool,
    /// How long a step, and becoming healthy after it, may take.
    pub timeout: Duration,
    /// How many revisions are kept.
    pub history: u32,
    /// What to do about drift.
    pub drift: Drift,
    /// When objects of its own kinds are healthy.
    pub health: Vec<Rule>,
    /// Changed by somebody who wants the same to be tried again.
    pub retry: Option<String>,
}

/// Without values: they may hold passwords.
impl fmt::Debug for Request {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Request")
            .field("release", &self.release)
            .field("chart", &self.chart)
            .finish_non_exhaustive()
    }
}

impl Request {
    /// What tells this request from others for the same release: chart and values, not how long to wait for them.
    ///
    /// It is part of Helm's record, which holds the values themselves, and goes nowhere else: whoever sees it could
    /// try short passwords until one fits.
    pub fn fingerprint(&self) -> String {
        let Self {
            release: _,
            chart,
            values,
            create_namespace: _,
            timeout: _,
            history: _,
            drift: _,
            health: _,
            retry,
        } = self;
        let whole = json!({"chart": chart, "values": values, "retry": retry});
        hex(&Sha256::digest(whole.to_string().as_bytes()), 16)
    }
}

/// The first `bytes` bytes in hexadecimal.
pub fn hex(digest: &[u8], bytes: usize) -> String {
    let digits = "0123456789abcdef".as_bytes();
    let nibbles = digest
        .iter()
        .take(bytes)
        .flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles
        .filter_map(|nibble| digits.get(usize::from(nibble)).copied().map(char::from))
        .collect()
}

/// A duration as Kubernetes and Helm write it, such as `1h30m` or `90s`; nothing when it is none.
pub fn duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let unit = tail
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(unit)?;
        let number: f64 = number.parse().ok()?;
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn request(values: Value) -> Request {
        Request {
            release: ReleaseId {
                namespace: "n".to_owned(),
                name: "r".to_owned(),
            },
            chart: ChartRef {
                repository: "oci://registry".to_owned(),
                name: "small".to_owned(),
                version: "1.0.0".to_owned(),
                digest: None,
            },
            values,
            create_namespace: true,
            timeout: Duration::from_mins(10),
            history: 10,
            drift: Drift::Correct,
            health: Vec::new(),
            retry: None,
        }
    }

    #[test]
    fn chart_and_values_make_a_request_and_patience_does_not() {
        let first = request(json!({"a": 1, "b": 2}));
        let same = request(json!({"b": 2, "a": 1}));
        assert_eq!(first.fingerprint(), same.fingerprint());
        let patient = Request {
            timeout: Duration::ZERO,
            ..first.clone()
        };
        assert_eq!(first.fingerprint(), patient.fingerprint());
        assert_ne!(first.fingerprint(), request(json!({})).fingerprint());
        let again = Request {
            retry: Some("please".to_owned()),
            ..first.clone()
        };
        assert_ne!(first.fingerprint(), again.fingerprint());
        assert!(first.fingerprint().len() <= 63, "it becomes a label");
    }

    #[test]
    fn values_are_not_seen_in_what_is_logged() {
        let request = request(json!({"password": "hunter2"}));
        assert!(!format!("{request:?}").contains("hunter2"));
    }

    #[test]
    fn durations_are_read_as_kubernetes_writes_them() {
        assert_eq!(duration("1h30m"), Some(Duration::from_mins(90)));
        assert_eq!(duration("90s"), Some(Duration::from_secs(90)));
        assert_eq!(duration("1.5m"), Some(Duration::from_secs(90)));
        for wrong in ["", "5", "m", "1d", "-3s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
