//! How far a control plane has come, gathered stage by stage and turned into conditions.

use butler_runtime::conditions::{Truth, Verdict};

/// The stages, in the order they are gone through; each is a condition.
pub(super) const STAGES: [&str; 7] = [
    "SpecValid",
    "StoreReady",
    "EndpointReady",
    "CertificatesReady",
    "SettingsReady",
    "WorkloadReady",
    "TenantReady",
];

/// Verdicts so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    verdicts: Vec<Verdict>,
    /// What is told besides the stages.
    more: Vec<Verdict>,
    untold: bool,
    taken: bool,
}

impl Progress {
    /// A stage is through.
    pub(super) fn passed(
        &mut self,
        stage: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.verdicts.push(Verdict::yes(stage, reason, message));
    }

    /// A stage is not through; the ones after it wait.
    pub(super) fn stopped(
        &mut self,
        stage: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.verdicts.push(Verdict::no(stage, reason, message));
    }

    /// A stage is not through because somebody else's object has the name of one of ours. No watch tells when it goes.
    pub(super) fn taken(&mut self, stage: &'static str, kind: &str, name: &str) {
        let message = format!(
            "there is a {kind} {name} that is not the control plane's, so it is left alone; remove it, or give the control plane another name"
        );
        self.stopped(stage, "NameTaken", message);
        self.taken = true;
    }

    /// Whether a name is taken.
    pub(super) fn is_taken(&self) -> bool {
        self.taken
    }

    /// Something to tell that keeps nobody waiting.
    pub(super) fn also(&mut self, verdict: Verdict) {
        self.more.push(verdict);
    }

    /// More words about something that is told besides.
    pub(super) fn add_to(&mut self, type_: &str, words: &str) {
        let told = self.more.iter_mut().find(|told| told.type_ == type_);
        if let Some(told) = told {
            told.message = format!("{}: {words}", told.message);
        }
    }

    /// Something is not known yet that soon will be: what was reported stays.
    pub(super) fn hold(&mut self) {
        self.untold = true;
    }

    /// Whether nothing is to be reported.
    pub(super) fn is_held(&self) -> bool {
        self.untold
    }

    /// Whether everything so far is through.
    pub(super) fn is_clear(&self) -> bool {
        self.verdicts
            .iter()
            .all(|verdict| verdict.status == Truth::True)
    }

    /// A condition for each stage, and `Ready` for all of them.
    pub(super) fn verdicts(self) -> Vec<Verdict> {
        let obstacle = self
            .verdicts
            .iter()
            .find(|verdict| verdict.status != Truth::True)
            .cloned();
        let mut verdicts = self.verdicts;
        let missing: Vec<&'static str> = STAGES
            .into_iter()
            .filter(|stage| !verdicts.iter().any(|verdict| verdict.type_ == *stage))
            .collect();
        for stage in missing {
            let before = obstacle
                .as_ref()
                .map_or("an earlier stage", |verdict| verdict.type_);
            verdicts.push(Verdict::unknown(
                stage,
                "Waiting",
                format!("waits for {before}"),
            ));
        }
        verdicts.push(match obstacle {
            None => Verdict::yes("Ready", "Ready", "the control plane serves"),
            Some(verdict) => Verdict::no("Ready", verdict.reason, verdict.message),
        });
        verdicts.extend(self.more);
        verdicts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_repeats_the_first_obstacle_and_later_stages_wait_for_it() {
        let mut progress = Progress::default();
        progress.passed("SpecValid", "Valid", "");
        progress.stopped("StoreReady", "Unreachable", "no answer");
        let verdicts = progress.verdicts();
        let ready = verdicts.last().unwrap();
        assert_eq!(
            (ready.type_, ready.status, ready.reason),
            ("Ready", Truth::False, "Unreachable")
        );
        let tenant = verdicts
            .iter()
            .find(|verdict| verdict.type_ == "TenantReady")
            .unwrap();
        assert_eq!(tenant.status, Truth::Unknown);
        assert_eq!(tenant.message, "waits for StoreReady");
        assert_eq!(verdicts.len(), 8);
    }

    #[test]
    fn everything_through_is_ready() {
        let mut progress = Progress::default();
        for stage in STAGES {
            progress.passed(stage, "Fine", "");
        }
        assert!(progress.is_clear());
        assert_eq!(progress.verdicts().last().unwrap().status, Truth::True);
    }
}
