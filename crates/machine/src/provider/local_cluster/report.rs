//! The status of a `LocalCluster`, in the contract's terms. Pure.

use butler_api::infrastructure::{
    LocalCluster,
    contract::Initialization,
    local_cluster::{FailureDomain, LocalClusterStatus},
};
use butler_runtime::conditions::{self, Verdict};
use jiff::Timestamp;

const READY: &str = "Ready";
const PAUSED: &str = "Paused";
/// One host is one part that fails on its own.
const DOMAIN: &str = "local";

/// The next status: the network stands, or waits for something (a word and a sentence).
pub(super) fn status(
    raw: &LocalCluster,
    waits: Option<(&'static str, String)>,
    now: Timestamp,
) -> LocalClusterStatus {
    let held = raw.status.clone().unwrap_or_default();
    let was = held
        .initialization
        .as_ref()
        .and_then(|held| held.provisioned);
    let stands = waits.is_none();
    let ready = match waits {
        None => Verdict::yes(READY, "Open", "the network stands"),
        Some((reason, message)) => Verdict::no(READY, reason, message),
    };
    let unpaused = Verdict::no(PAUSED, "NotPaused", "changes are carried out");
    let generation = raw.metadata.generation;
    LocalClusterStatus {
        observed_generation: generation,
        conditions: conditions::settle(&held.conditions, &[ready, unpaused], generation, now),
        initialization: Some(Initialization {
            // It never goes back.
            provisioned: Some(was == Some(true) || stands),
        }),
        failure_domains: vec![FailureDomain {
            name: DOMAIN.to_owned(),
            control_plane: Some(true),
            ..FailureDomain::default()
        }],
    }
}

/// The next status of a network that nothing may be done to: only that is said, the rest stays.
pub(super) fn paused(raw: &LocalCluster, reason: String, now: Timestamp) -> LocalClusterStatus {
    let held = raw.status.clone().unwrap_or_default();
    let verdict = Verdict::yes(PAUSED, "Paused", reason);
    let said = conditions::settle(&held.conditions, &[verdict], raw.metadata.generation, now);
    let others = held.conditions.iter().filter(|held| held.type_ != PAUSED);
    LocalClusterStatus {
        conditions: others.cloned().chain(said).collect(),
        ..held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provisioned_never_goes_back() {
        let mut raw = LocalCluster::default();
        let now = Timestamp::UNIX_EPOCH;
        let provisioned =
            |status: &LocalClusterStatus| status.initialization.as_ref().unwrap().provisioned;
        let waiting = Some(("Unavailable", "why".to_owned()));
        assert_eq!(
            provisioned(&status(&raw, waiting.clone(), now)),
            Some(false)
        );
        raw.status = Some(status(&raw, None, now));
        let later = status(&raw, waiting, now);
        assert_eq!(provisioned(&later), Some(true));
        assert!(!conditions::is_true(&later.conditions, READY));
    }
}
