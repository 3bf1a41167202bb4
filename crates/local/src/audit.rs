//! Who wrote what in the management cluster, and when: the audit log of its API server. Pure.

use serde_json::json;

/// Where the policy is on the management machine.
pub(crate) const POLICY: &str = "/etc/audit-policy.yaml";
/// Where the log is.
pub(crate) const FOLDER: &str = "/var/log/audit";
/// The log.
pub(crate) const LOG: &str = "/var/log/audit/audit.log";

/// Every write, without its contents: those may be secret. What is written all the time to say that somebody is alive
/// would hide the rest.
pub(crate) fn policy() -> String {
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        "rules": [
            { "level": "None", "verbs": ["get", "list", "watch"] },
            { "level": "None", "resources": [
                { "group": "coordination.k8s.io", "resources": ["leases"] },
                { "group": "authentication.k8s.io" },
                { "group": "authorization.k8s.io" },
                { "group": "", "resources": ["events", "nodes/status"] },
                { "group": "events.k8s.io" },
            ] },
            { "level": "Metadata" },
        ],
    });
    policy.to_string()
}
