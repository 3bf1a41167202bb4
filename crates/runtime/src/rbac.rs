//! Permissions as data: what a process may do, written beside the code that does it. Pure.

use k8s_openapi::{
    api::{
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{
            ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
        },
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Serialize;

/// The API group of permissions themselves.
pub const RBAC: &str = "rbac.authorization.k8s.io";
/// Reading and following.
pub const READ: [&str; 3] = ["get", "list", "watch"];
/// Everything that people change objects with.
pub const WRITE: [&str; 4] = ["create", "update", "patch", "delete"];
/// What a controller needs to own objects: it applies and prunes, and never updates.
pub const OWN: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

/// Any object of a file with permissions.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Manifest {
    /// A namespace.
    Namespace(Namespace),
    /// Who a process is.
    ServiceAccount(ServiceAccount),
    /// Permissions everywhere.
    ClusterRole(ClusterRole),
    /// Who has them.
    ClusterRoleBinding(ClusterRoleBinding),
    /// Permissions in one namespace.
    Role(Role),
    /// Who has them.
    RoleBinding(RoleBinding),
}

/// The service account of a process, what it may do everywhere, and its lease in its own namespace.
pub fn process(name: &str, namespace: &str, lease: &str, rules: Vec<PolicyRule>) -> Vec<Manifest> {
    let [who, everywhere] = account(name, namespace, name);
    let [role, binding] = local_role(name, namespace, name, lease_rules(lease));
    vec![
        Manifest::Namespace(Namespace {
            metadata: named(namespace, None),
            ..Namespace::default()
        }),
        who,
        cluster_role(name, rules),
        everywhere,
        role,
        binding,
    ]
}

/// A service account that has a role everywhere.
pub fn account(name: &str, namespace: &str, role: &str) -> [Manifest; 2] {
    [
        Manifest::ServiceAccount(ServiceAccount {
            metadata: named(name, Some(namespace)),
            ..ServiceAccount::default()
        }),
        Manifest::ClusterRoleBinding(ClusterRoleBinding {
            metadata: named(name, None),
            role_ref: role_ref("ClusterRole", role),
            subjects: Some(vec![service_account(name, namespace)]),
        }),
    ]
}

/// A role in one namespace, for a service account of the same namespace.
pub fn local_role(
    name: &str,
    namespace: &str,
    account: &str,
    rules: Vec<PolicyRule>,
) -> [Manifest; 2] {
    [
        Manifest::Role(Role {
            metadata: named(name, Some(namespace)),
            rules: Some(rules),
        }),
        Manifest::RoleBinding(RoleBinding {
            metadata: named(name, Some(namespace)),
            role_ref: role_ref("Role", name),
            subjects: Some(vec![service_account(account, namespace)]),
        }),
    ]
}

fn service_account(name: &str, namespace: &str) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        api_group: None,
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: RBAC.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

/// A role that is bound in some namespaces or everywhere.
pub fn cluster_role(name: &str, rules: Vec<PolicyRule>) -> Manifest {
    Manifest::ClusterRole(ClusterRole {
        metadata: named(name, None),
        rules: Some(rules),
        ..ClusterRole::default()
    })
}

fn lease_rules(lease: &str) -> Vec<PolicyRule> {
    let leases = |verbs: &[&str]| rule(&["coordination.k8s.io"], &["leases"], verbs);
    vec![
        // A create cannot be limited to a name.
        leases(&["create"]),
        PolicyRule {
            resource_names: Some(vec![lease.to_owned()]),
            ..leases(&["get", "patch"])
        },
    ]
}

/// One rule.
pub fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    PolicyRule {
        api_groups: Some(owned(groups)),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

fn named(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ObjectMeta::default()
    }
}
