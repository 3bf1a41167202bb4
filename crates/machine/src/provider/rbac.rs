//! What the provider may do: the source of `rbac/local-provider.yaml`.

use butler_api::addresses;
use butler_runtime::rbac::{Manifest, READ, process, rule};
use k8s_openapi::api::rbac::v1::PolicyRule;

use super::{LEASE, capi};

const GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// Name of the service account.
pub const ACCOUNT: &str = "butler-local-provider";
/// Namespace of the service account and the lease.
pub const NAMESPACE: &str = butler_api::names::SYSTEM_NAMESPACE;

/// File names and what they hold.
pub fn files() -> Vec<(&'static str, Vec<Manifest>)> {
    vec![(
        "local-provider",
        process(ACCOUNT, NAMESPACE, LEASE, rules()),
    )]
}

fn rules() -> Vec<PolicyRule> {
    let ours = ["localclusters", "localmachines"];
    vec![
        rule(&[capi::GROUP], &["clusters", "machines"], &READ),
        rule(&[GROUP], &ours, &READ),
        // Finalizers, and the id of a machine.
        rule(&[GROUP], &ours, &["patch"]),
        rule(
            &[GROUP],
            &["localclusters/status", "localmachines/status"],
            &["patch"],
        ),
        // Addresses of machines and load balancers.
        rule(
            &[addresses::GROUP],
            &["ipaddressclaims", "ipaddresses"],
            &READ,
        ),
        rule(
            &[addresses::GROUP],
            &["ipaddressclaims"],
            &["create", "delete"],
        ),
        // Bootstrap data, by the name that a Machine gives.
        rule(&[""], &["secrets"], &["get"]),
        rule(&["events.k8s.io"], &["events"], &["create", "patch"]),
    ]
}
