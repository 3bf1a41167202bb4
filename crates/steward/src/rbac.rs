//! What Steward may do: the source of `rbac/steward.yaml`.

use butler_runtime::rbac::{Manifest, OWN, READ, process, rule};
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::LEASE;

const STEWARD: &str = "steward.butlerlabs.dev";

/// Name of the service account.
pub const ACCOUNT: &str = "steward";
/// Namespace of the service account and the lease.
pub const NAMESPACE: &str = "steward-system";

/// File names and what they hold.
pub fn files() -> Vec<(&'static str, Vec<Manifest>)> {
    vec![("steward", process(ACCOUNT, NAMESPACE, LEASE, rules()))]
}

fn rules() -> Vec<PolicyRule> {
    vec![
        rule(&[STEWARD], &["tenantcontrolplanes", "datastores"], &READ),
        rule(
            &[STEWARD],
            &["tenantcontrolplanes/status", "datastores/status"],
            &["patch"],
        ),
        // Finalizers, and the right to be the owner that blocks deletion.
        rule(&[STEWARD], &["tenantcontrolplanes"], &["patch"]),
        rule(&[STEWARD], &["tenantcontrolplanes/finalizers"], &["update"]),
        // Secrets are read by label and when a store names them, never watched.
        rule(
            &[""],
            &["secrets"],
            &["get", "list", "create", "patch", "delete"],
        ),
        rule(&[""], &["services", "configmaps"], &OWN),
        rule(&["apps"], &["deployments"], &OWN),
        rule(&["policy"], &["poddisruptionbudgets"], &OWN),
        rule(&["events.k8s.io"], &["events"], &["create", "patch"]),
    ]
}
