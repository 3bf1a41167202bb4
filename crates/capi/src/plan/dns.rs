//! Whether names are answered inside a new cluster: the last that it waits for before it is called Ready.

use butler_api::butler::tenant_cluster::Phase;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;

use super::report;
use crate::{
    addons::{self, State},
    day2,
    observe::Observed,
    quota,
    spec::TenantSpec,
};

/// How long a new cluster waits for DNS. Where all workers repel its pods it never comes, and the rest works without.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);
/// Between two looks: short at first, because somebody waits, and longer the longer it takes.
const PAUSES: [SignedDuration; 2] = [
    SignedDuration::from_millis(500),
    SignedDuration::from_secs(15),
];

/// What is missing of DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// A sentence for people.
    pub missing: String,
    /// Whether it is no longer waited for.
    pub is_late: bool,
    /// When to look again.
    pub look: Timestamp,
}

impl Gap {
    /// What is missing now and was first found missing then.
    pub fn since(first: Timestamp, now: Timestamp, missing: String) -> Self {
        let waited = now.duration_since(first);
        let [shortest, longest] = PAUSES;
        let pause = (waited / 5).clamp(shortest, longest);
        Self {
            missing,
            is_late: waited >= PATIENCE,
            look: now.checked_add(pause).unwrap_or(now),
        }
    }
}

/// Whether DNS is what a new cluster may still lack.
pub fn is_asked_for(spec: &TenantSpec, observed: &Observed, now: Timestamp) -> bool {
    let was_ready = matches!(
        observed.phase,
        Some(Phase::Ready | Phase::Updating | Phase::Failed)
    );
    if was_ready {
        return false;
    }
    let (spec, _) = quota::held(spec, observed);
    let numbers = report::numbers(&spec, observed, day2::doze(&spec, observed, now));
    let state = addons::state(&spec, observed, &numbers);
    let stand = matches!(
        state,
        State::Installed | State::Observed(_) | State::Degraded(_)
    );
    numbers.ready > 0 && stand
}

/// What is missing of DNS, from its Deployment.
pub fn missing(deployment: Option<&Deployment>) -> Option<String> {
    let Some(deployment) = deployment else {
        return Some("DNS: CoreDNS is not installed yet".to_owned());
    };
    let status = deployment.status.as_ref();
    let available = status.and_then(|status| status.available_replicas);
    if available.is_some_and(|available| available > 0) {
        return None;
    }
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    let wanted = wanted.unwrap_or(1);
    Some(format!("DNS: 0 of {wanted} pods of CoreDNS are ready"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dns_is_there_with_its_first_pod_and_what_is_missing_is_said_before() {
        let deployment = |status: serde_json::Value| -> Deployment {
            serde_json::from_value(json!({
                "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": status,
            }))
            .unwrap()
        };
        assert_eq!(
            missing(Some(&deployment(json!({})))).as_deref(),
            Some("DNS: 0 of 2 pods of CoreDNS are ready")
        );
        assert_eq!(
            missing(Some(&deployment(json!({"availableReplicas": 1})))),
            None
        );
        assert!(missing(None).unwrap().contains("not installed"));
    }

    #[test]
    fn looks_become_rarer_and_after_five_minutes_dns_is_late() {
        let first: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
        let gap = |seconds: i64| {
            let now = first + SignedDuration::from_secs(seconds);
            let gap = Gap::since(first, now, "it".to_owned());
            (gap.look.duration_since(now).as_millis(), gap.is_late)
        };
        assert_eq!(gap(0), (500, false));
        assert_eq!(gap(10), (2_000, false));
        assert_eq!(gap(299), (15_000, false));
        assert_eq!(gap(300), (15_000, true));
    }
}
