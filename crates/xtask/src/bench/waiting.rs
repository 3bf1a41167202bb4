//! How long writers let others wait, from the audit log of an API server. Pure.
//!
//! Whoever writes next was the one that everybody waited for: the time since the write before it is its own.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;

/// A write, as an audit log tells of it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Write {
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
    user: User,
    #[serde(default)]
    object_ref: Object,
}

#[derive(Debug, Deserialize)]
struct User {
    username: String,
}

#[derive(Debug, Default, Deserialize)]
struct Object {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

/// What a cluster's writes are found by.
pub(super) struct Scope<'a> {
    /// Its object.
    pub(super) cluster: (&'a str, &'a str),
    /// The namespace of everything that it is made of.
    pub(super) namespace: &'a str,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// What happened inside the cluster, which this log does not tell of, and when.
    pub(super) inside: (&'a str, Timestamp),
}

impl Scope<'_> {
    fn covers(&self, write: &Write) -> bool {
        let Object { namespace, name } = &write.object_ref;
        let when = write.request_received_timestamp;
        let about = namespace == self.namespace
            || name == self.namespace
            || (namespace.as_str(), name.as_str()) == self.cluster;
        about && when >= self.from && when <= self.to
    }
}

/// Seconds that each writer let the others wait.
pub(super) fn waits(log: &str, scope: &Scope<'_>) -> Result<BTreeMap<String, f64>> {
    let mut writes = Vec::new();
    for line in log.lines() {
        let write: Write = serde_json::from_str(line).context("a line of the audit log")?;
        if scope.covers(&write) {
            writes.push(write);
        }
    }
    let (what, when) = scope.inside;
    writes.push(Write {
        request_received_timestamp: when,
        stage_timestamp: when,
        user: User {
            username: what.to_owned(),
        },
        object_ref: Object::default(),
    });
    writes.sort_by_key(|write| write.request_received_timestamp);
    let mut waits = BTreeMap::new();
    let mut before = scope.from;
    for write in writes {
        let wait = write.request_received_timestamp.duration_since(before);
        *waits.entry(write.user.username).or_default() += wait.as_secs_f64().max(0.0);
        before = before.max(write.stage_timestamp);
    }
    Ok(waits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(user: &str, namespace: &str, from: &str, to: &str) -> String {
        let at = |second: &str| format!("2026-11-16T00:00:{second}Z");
        json!({
            "requestReceivedTimestamp": at(from), "stageTimestamp": at(to),
            "user": {"username": user}, "objectRef": {"namespace": namespace, "name": "x"},
        })
        .to_string()
    }

    #[test]
    fn the_time_before_a_write_is_its_writers_and_other_clusters_do_not_count() {
        let log = [
            line("us", "ours", "01.0", "01.1"),
            line("others", "ours", "03.0", "03.5"),
            line("us", "elsewhere", "04.0", "04.1"),
            line("us", "ours", "04.0", "04.1"),
            // While another was under way.
            line("us", "ours", "04.0", "04.2"),
        ];
        let second = |second: i64| Timestamp::from_second(1_794_787_200 + second).unwrap();
        let scope = Scope {
            cluster: ("team", "demo"),
            namespace: "ours",
            from: second(0),
            to: second(10),
            inside: ("DNS", second(2)),
        };
        let waits = waits(&log.join("\n"), &scope).unwrap();
        let rounded = |user: &str| (waits[user] * 10.0).round();
        let found = (rounded("us"), rounded("DNS"), rounded("others"));
        assert_eq!(found, (15.0, 9.0, 10.0));
    }
}
