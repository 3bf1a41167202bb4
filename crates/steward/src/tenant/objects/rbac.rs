//! Roles and bindings, in the few shapes that tenants need.

use serde_json::{Value, json};

use super::{Kind, TenantObject};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The group of nodes that have joined.
pub(super) const NODES: &str = "system:nodes";
/// The group of bootstrap tokens that kubeadm and Cluster API make for nodes.
pub(super) const NODE_TOKENS: &str = "system:bootstrappers:kubeadm:default-node-token";

pub(super) fn group(name: &str) -> Value {
    json!({ "apiGroup": RBAC, "kind": "Group", "name": name })
}

pub(super) fn user(name: &str) -> Value {
    json!({ "apiGroup": RBAC, "kind": "User", "name": name })
}

pub(super) fn service_account(name: &str) -> Value {
    json!({ "kind": "ServiceAccount", "name": name, "namespace": super::SYSTEM })
}

/// Lets `subjects` use a role of the whole cluster.
pub(super) fn cluster_binding(name: &str, role: &str, subjects: &[Value]) -> TenantObject {
    TenantObject::new(Kind::ClusterRoleBinding, None, name)
        .with(
            "roleRef",
            json!({ "apiGroup": RBAC, "kind": "ClusterRole", "name": role }),
        )
        .with("subjects", json!(subjects))
}

/// A role that may read one `ConfigMap`, and the binding of the same name that gives it to `subjects`.
pub(super) fn reader_of_config_map(
    namespace: &str,
    name: &str,
    config_map: &str,
    subjects: &[Value],
) -> [TenantObject; 2] {
    let read_it = json!({
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [config_map],
        "verbs": ["get"],
    });
    let role = TenantObject::new(Kind::Role, Some(namespace), name).with("rules", json!([read_it]));
    let binding = TenantObject::new(Kind::RoleBinding, Some(namespace), name)
        .with(
            "roleRef",
            json!({ "apiGroup": RBAC, "kind": "Role", "name": name }),
        )
        .with("subjects", json!(subjects));
    [role, binding]
}
