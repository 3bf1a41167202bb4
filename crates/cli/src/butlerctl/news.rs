//! What of a cluster's status is worth a line to somebody who waits. Pure: the moment is an argument.
//!
//! A status may change several times within a second while controllers take turns. Phases are always told, and so is what
//! has become true. Anything else is told once it has stood for a [`MOMENT`], or has kept changing for [`PATIENCE`], so that
//! nobody who waits longer than that is left without a word.

use std::{collections::BTreeMap, time::Duration};

use butler_api::butler::tenant_cluster::TenantClusterStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// How long words must stand.
const MOMENT: Duration = Duration::from_secs(1);

/// How long something may go on changing before it is told as it is.
const PATIENCE: Duration = Duration::from_secs(2);

const READY: &str = "Ready";

/// What was told, and what is about to be.
#[derive(Default)]
pub(super) struct News {
    phase: Option<String>,
    told: BTreeMap<String, Words>,
    fresh: BTreeMap<String, Fresh>,
}

#[derive(Clone, PartialEq, Eq)]
struct Words {
    holds: bool,
    /// Whether another condition says all of it.
    is_copy: bool,
    line: String,
}

impl Words {
    fn of(condition: &Condition, all: &[Condition]) -> Self {
        let (kind, status) = (&condition.type_, &condition.status);
        let message = own_words(condition, all);
        Self {
            holds: status == "True",
            is_copy: message.is_empty(),
            line: format!("{kind}={status} {message}"),
        }
    }
}

/// Words that are not told yet.
struct Fresh {
    words: Words,
    /// Since when they stand.
    since: Duration,
    /// Since when there are others than those that were told.
    began: Duration,
}

impl Fresh {
    fn due(&self) -> Duration {
        (self.since + MOMENT).min(self.began + PATIENCE)
    }
}

impl News {
    /// What is worth a line at once.
    pub(super) fn see(&mut self, status: &TenantClusterStatus, now: Duration) -> Vec<String> {
        // What was due meanwhile comes first.
        let mut lines = self.stood(now);
        let is_first = self.phase.is_none();
        let phase = phase(status);
        if self.phase.as_ref() != Some(&phase) {
            lines.push(format!("phase {phase}"));
            self.phase = Some(phase);
        }
        for condition in &status.conditions {
            // What is true from the start is no news.
            if is_first && condition.status == "True" {
                let words = Words::of(condition, &status.conditions);
                self.told.insert(condition.type_.clone(), words);
            } else {
                lines.extend(self.hear(condition, &status.conditions, now));
            }
        }
        lines
    }

    /// What has stood long enough.
    pub(super) fn stood(&mut self, now: Duration) -> Vec<String> {
        let mut due: Vec<(Duration, String)> = self
            .fresh
            .iter()
            .filter(|(_, fresh)| fresh.due() <= now)
            .map(|(kind, fresh)| (fresh.due(), kind.clone()))
            .collect();
        due.sort();
        let lines = due.into_iter().filter_map(|(_, kind)| {
            let words = self.fresh.remove(&kind)?.words;
            let line = words.line.clone();
            self.told.insert(kind, words);
            Some(line)
        });
        lines.collect()
    }

    /// The last word, when the wait is over: what the cluster as a whole says, if that was not told yet.
    pub(super) fn end(&mut self) -> Option<String> {
        Some(self.fresh.remove(READY)?.words.line)
    }

    /// When something is next worth a line, if nothing changes before.
    pub(super) fn due(&self) -> Option<Duration> {
        self.fresh.values().map(Fresh::due).min()
    }

    fn hear(&mut self, condition: &Condition, all: &[Condition], now: Duration) -> Option<String> {
        let kind = &condition.type_;
        let before = self.told.get(kind);
        let words = Words::of(condition, all);
        // Nor is what only repeats another condition.
        if words.is_copy && !words.holds {
            self.fresh.remove(kind);
            self.told.insert(kind.clone(), words);
            return None;
        }
        if before == Some(&words) {
            self.fresh.remove(kind);
            return None;
        }
        let was_true = before.is_some_and(|before| before.holds);
        if words.holds && !was_true {
            self.fresh.remove(kind);
            self.told.insert(kind.clone(), words.clone());
            return Some(words.line);
        }
        let fresh = self.fresh.entry(kind.clone()).or_insert_with(|| Fresh {
            words: words.clone(),
            since: now,
            began: now,
        });
        if fresh.words != words {
            fresh.words = words;
            fresh.since = now;
        }
        None
    }
}

/// What a condition says beyond the others: `Ready` begins with a copy of the one that keeps it from being true.
fn own_words(condition: &Condition, all: &[Condition]) -> String {
    if condition.type_ != READY {
        return condition.message.clone();
    }
    let others = all.iter().filter(|other| other.type_ != READY);
    let copy = others
        .map(|other| format!("{}: {}", other.type_, other.message))
        .find(|copy| condition.message.contains(copy));
    let rest = copy.map_or_else(
        || condition.message.clone(),
        |copy| condition.message.replacen(&copy, "", 1),
    );
    rest.trim_matches([';', ' ']).to_owned()
}

/// The phase as people read it.
pub(super) fn phase(status: &TenantClusterStatus) -> String {
    let phase = status.phase.map(|phase| format!("{phase:?}"));
    phase.unwrap_or_else(|| "new".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(phase: &str, conditions: &[(&str, &str, &str)]) -> TenantClusterStatus {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status, message)| {
                json!({"type": kind, "status": status, "reason": "R", "message": message,
                       "lastTransitionTime": "2026-11-15T12:00:00Z"})
            })
            .collect();
        serde_json::from_value(json!({"phase": phase, "conditions": conditions})).unwrap()
    }

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn phases_and_what_becomes_true_are_told_at_once_and_other_words_once_they_have_stood() {
        let mut news = News::default();
        let seen = |workers| status("Provisioning", &[("WorkersReady", "False", workers)]);
        assert_eq!(news.see(&seen("0 of 2"), at(0)), ["phase Provisioning"]);
        assert_eq!(news.due(), Some(at(1000)));
        assert_eq!(news.stood(at(999)), NONE);
        assert_eq!(news.stood(at(1000)), ["WorkersReady=False 0 of 2"]);
        assert_eq!(news.due(), None);
        assert_eq!(news.see(&seen("0 of 2"), at(5000)), NONE);
        let ready = status("Ready", &[("WorkersReady", "True", "2 of 2")]);
        let told = ["phase Ready", "WorkersReady=True 2 of 2"];
        assert_eq!(news.see(&ready, at(9000)), told);
    }

    #[test]
    fn words_that_come_and_go_within_a_moment_are_not_told() {
        let mut news = News::default();
        let said = |said| status("Updating", &[("WorkersReady", "False", said)]);
        let (first, second) = (
            "machine a: no Machine owns it",
            "machine a: it does not run",
        );
        news.see(&said("1 of 2"), at(0));
        assert_eq!(news.stood(at(1000)), ["WorkersReady=False 1 of 2"]);
        for (moment, words) in [(3000, first), (3300, second), (3600, "1 of 2")] {
            assert_eq!(news.see(&said(words), at(moment)), NONE, "{words}");
        }
        assert_eq!(news.due(), None, "it says again what was told");
    }

    #[test]
    fn what_never_stands_still_is_told_all_the_same() {
        let mut news = News::default();
        let mut lines = Vec::new();
        for step in 0..12 {
            let words = format!("{step} of 99");
            let seen = status("Updating", &[("WorkersReady", "False", &words)]);
            lines.extend(news.see(&seen, at(step * 500)));
        }
        let told = [
            "phase Updating",
            "WorkersReady=False 3 of 99",
            "WorkersReady=False 7 of 99",
        ];
        assert_eq!(lines, told);
    }

    #[test]
    fn what_was_true_from_the_start_is_no_news_and_a_short_lapse_is_none_either() {
        let mut news = News::default();
        let plane = |holds| status("Ready", &[("ControlPlaneReady", holds, "it serves")]);
        assert_eq!(news.see(&plane("True"), at(0)), ["phase Ready"]);
        assert_eq!(news.see(&plane("False"), at(100)), NONE);
        assert_eq!(news.see(&plane("True"), at(400)), NONE);
        assert_eq!(news.due(), None);
    }

    #[test]
    fn what_is_true_as_soon_as_it_is_said_is_told_unless_it_was_so_from_the_start() {
        let mut news = News::default();
        news.see(&status("Provisioning", &[]), at(0));
        let ready = status("Ready", &[("Ready", "True", "the cluster works")]);
        let told = ["phase Ready", "Ready=True the cluster works"];
        assert_eq!(news.see(&ready, at(300)), told);
    }

    #[test]
    fn the_last_word_is_told_however_short_it_stood() {
        let mut news = News::default();
        news.see(
            &status("Ready", &[("Ready", "True", "the cluster works")]),
            at(0),
        );
        news.see(
            &status("Ready", &[("Ready", "True", "the cluster sleeps")]),
            at(9000),
        );
        assert_eq!(news.end().as_deref(), Some("Ready=True the cluster sleeps"));
        assert_eq!(news.end(), None);
    }

    #[test]
    fn ready_tells_only_what_no_other_condition_says() {
        let mut news = News::default();
        let seen = |ready: &str| {
            status(
                "Updating",
                &[
                    ("WorkersReady", "False", "1 of 2"),
                    ("Ready", "False", ready),
                ],
            )
        };
        news.see(&seen("WorkersReady: 1 of 2"), at(0));
        assert_eq!(news.stood(at(1500)), ["WorkersReady=False 1 of 2"]);
        let copy = "WorkersReady: 1 of 2; pool workers: 1 of 3 machines replaced";
        assert_eq!(news.see(&seen(copy), at(4000)), NONE);
        let told = ["Ready=False pool workers: 1 of 3 machines replaced"];
        assert_eq!(news.stood(at(5000)), told);
        let done = status(
            "Ready",
            &[
                ("WorkersReady", "True", "2 of 2"),
                ("Ready", "True", "the cluster works"),
            ],
        );
        let told = [
            "phase Ready",
            "WorkersReady=True 2 of 2",
            "Ready=True the cluster works",
        ];
        assert_eq!(news.see(&done, at(6000)), told);
    }
}
