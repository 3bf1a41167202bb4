//! What the controller may do, and the roles of team members: the source of the files in `rbac/`.
//!
//! Written beside the code that needs them, so a new write comes with its permission.

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

use crate::{LEASE, MANAGER, team};

const BUTLER: &str = "butler.butlerlabs.dev";
const RBAC: &str = "rbac.authorization.k8s.io";
const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 4] = ["create", "update", "patch", "delete"];

/// Any object of the generated files.
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

/// File names and what they hold.
pub fn files() -> Vec<(&'static str, Vec<Manifest>)> {
    vec![("controller", controller()), ("teams", teams())]
}

fn controller() -> Vec<Manifest> {
    let namespace = butler_api::names::SYSTEM_NAMESPACE;
    let subjects = Some(vec![Subject {
        kind: "ServiceAccount".to_owned(),
        name: MANAGER.to_owned(),
        namespace: Some(namespace.to_owned()),
        api_group: None,
    }]);
    let role_ref = |kind: &str| RoleRef {
        api_group: RBAC.to_owned(),
        kind: kind.to_owned(),
        name: MANAGER.to_owned(),
    };
    vec![
        Manifest::Namespace(Namespace {
            metadata: named(namespace, None),
            ..Namespace::default()
        }),
        Manifest::ServiceAccount(ServiceAccount {
            metadata: named(MANAGER, Some(namespace)),
            ..ServiceAccount::default()
        }),
        Manifest::ClusterRole(ClusterRole {
            metadata: named(MANAGER, None),
            rules: Some(controller_rules()),
            ..ClusterRole::default()
        }),
        Manifest::ClusterRoleBinding(ClusterRoleBinding {
            metadata: named(MANAGER, None),
            role_ref: role_ref("ClusterRole"),
            subjects: subjects.clone(),
        }),
        Manifest::Role(Role {
            metadata: named(MANAGER, Some(namespace)),
            rules: Some(lease_rules()),
        }),
        Manifest::RoleBinding(RoleBinding {
            metadata: named(MANAGER, Some(namespace)),
            role_ref: role_ref("Role"),
            subjects,
        }),
    ]
}

fn controller_rules() -> Vec<PolicyRule> {
    let team_roles: Vec<&str> = team::Role::ALL.map(team::Role::binding_name).to_vec();
    vec![
        rule(
            &[BUTLER],
            &["butlerconfigs", "teams", "tenantclusters"],
            &READ,
        ),
        rule(
            &[BUTLER],
            &["butlerconfigs/status", "teams/status"],
            &["patch"],
        ),
        // Finalizers.
        rule(&[BUTLER], &["teams"], &["patch"]),
        rule(
            &[""],
            &["namespaces"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        rule(
            &[RBAC],
            &["rolebindings"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        // Only these roles may be handed out.
        PolicyRule {
            resource_names: Some(team_roles.into_iter().map(str::to_owned).collect()),
            ..rule(&[RBAC], &["clusterroles"], &["bind"])
        },
        rule(&["events.k8s.io"], &["events"], &["create", "patch"]),
    ]
}

fn lease_rules() -> Vec<PolicyRule> {
    let leases = |verbs: &[&str]| rule(&["coordination.k8s.io"], &["leases"], verbs);
    vec![
        // A create cannot be limited to a name.
        leases(&["create"]),
        PolicyRule {
            resource_names: Some(vec![LEASE.to_owned()]),
            ..leases(&["get", "patch"])
        },
    ]
}

/// What each role of a team may do in the team's namespace. Nobody can grant roles there.
fn teams() -> Vec<Manifest> {
    let all = [
        "tenantclusters",
        "tenantaddons",
        "workspaces",
        "imagesyncs",
        "workspacetemplates",
        "providerconfigs",
        "networkpools",
        "ipallocations",
    ];
    let clusters = [
        "tenantclusters",
        "tenantclusters/scale",
        "tenantaddons",
        "workspaces",
        "imagesyncs",
    ];
    let viewer = vec![
        rule(&[BUTLER], &all, &READ),
        rule(&["", "events.k8s.io"], &["events"], &READ),
    ];
    let operator = [viewer.clone(), vec![rule(&[BUTLER], &clusters, &WRITE)]].concat();
    let admin = [
        operator.clone(),
        vec![
            rule(
                &[BUTLER],
                &["providerconfigs", "workspacetemplates"],
                &WRITE,
            ),
            // Credentials of the team's own providers and repositories.
            rule(
                &[""],
                &["secrets"],
                &["get", "list", "create", "update", "patch", "delete"],
            ),
        ],
    ]
    .concat();
    let role = |role: team::Role, rules| {
        Manifest::ClusterRole(ClusterRole {
            metadata: named(role.binding_name(), None),
            rules: Some(rules),
            ..ClusterRole::default()
        })
    };
    vec![
        role(team::Role::Viewer, viewer),
        role(team::Role::Operator, operator),
        role(team::Role::Admin, admin),
    ]
}

fn named(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ObjectMeta::default()
    }
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> PolicyRule {
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
