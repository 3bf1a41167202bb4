//! What Steward may do: the source of `rbac/steward.yaml`.

use butler_runtime::rbac::{Manifest, OWN, READ, process, rule};
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::{LEASE, provider::infrastructure};

const STEWARD: &str = "steward.butlerlabs.dev";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";

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
        rule(
            &[STEWARD],
            &["tenantcontrolplanes", "datastores"],
            &["patch"],
        ),
        rule(&[STEWARD], &["tenantcontrolplanes/finalizers"], &["update"]),
        // Generators: what they select by, and the finalizer that keeps them until their Secrets are gone.
        rule(&[STEWARD], &["kubeconfiggenerators"], &READ),
        rule(&[STEWARD], &["kubeconfiggenerators"], &["patch"]),
        rule(&[STEWARD], &["kubeconfiggenerators/status"], &["patch"]),
        rule(&[""], &["namespaces"], &READ),
        // Watched by label; others are read when a store or a setting names them.
        rule(&[""], &["secrets"], &OWN),
        rule(&[""], &["services", "configmaps"], &OWN),
        // Before keys are forgotten: whether pods still end that use them.
        rule(&[""], &["pods"], &["list"]),
        rule(&["apps"], &["deployments"], &OWN),
        rule(&["policy"], &["poddisruptionbudgets"], &OWN),
        rule(&["events.k8s.io"], &["events"], &["create", "patch"]),
    ]
    .into_iter()
    .chain(cluster_api())
    .collect()
}

/// The control planes of Clusters: what they become, and who is told their address.
fn cluster_api() -> [PolicyRule; 7] {
    let statuses = infrastructure::status_resources();
    let statuses: Vec<&str> = statuses.iter().map(String::as_str).collect();
    [
        rule(&["cluster.x-k8s.io"], &["clusters"], &READ),
        rule(
            &[CONTROL_PLANE],
            &["stewardcontrolplanes"],
            &["get", "list", "watch", "patch"],
        ),
        rule(
            &[CONTROL_PLANE],
            &["stewardcontrolplanes/status"],
            &["patch"],
        ),
        rule(
            &[CONTROL_PLANE],
            &["stewardcontrolplanes/finalizers"],
            &["update"],
        ),
        rule(&[STEWARD], &["tenantcontrolplanes"], &["create", "delete"]),
        rule(
            &[infrastructure::GROUP],
            &infrastructure::resources(),
            &["get", "patch"],
        ),
        rule(&[infrastructure::GROUP], &statuses, &["patch"]),
    ]
}
