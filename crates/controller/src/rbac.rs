//! What the controller may do, and the roles of team members: the source of the files in `rbac/`.
//!
//! Written beside the code that needs them, so a new write comes with its permission.

use butler_api::names::SYSTEM_NAMESPACE;
use butler_capi::{
    access,
    core::{BOOTSTRAP, CONTROL_PLANE, INFRASTRUCTURE},
};
use butler_runtime::rbac::{
    Manifest, OWN, RBAC, READ, WRITE, account, cluster_role, local_role, process, rule,
};
use k8s_openapi::{
    api::rbac::v1::{ClusterRoleBinding, PolicyRule, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{LEASE, MANAGER, management_addon::ACCOUNT, team};

const BUTLER: &str = "butler.butlerlabs.dev";
/// The role of everybody who looks at the catalogue.
const CATALOGUE: &str = "butler-catalogue-reader";
const CLUSTER_API: &str = "cluster.x-k8s.io";
const CLUSTER_API_IPAM: &str = butler_api::addresses::GROUP;

/// Of every provider: clusters, what machines are made from, and as whom.
const INFRASTRUCTURE_KINDS: [&str; 19] = [
    "awsclusters",
    "awsmachinetemplates",
    "azureclusteridentities",
    "azureclusters",
    "azuremachinetemplates",
    "gcpclusters",
    "gcpmachinetemplates",
    "harvesterclusters",
    "harvestermachinetemplates",
    "kubevirtclusters",
    "kubevirtmachinetemplates",
    "localclusters",
    "localmachinetemplates",
    "nutanixclusters",
    "nutanixmachinetemplates",
    "proxmoxclusters",
    "proxmoxmachinetemplates",
    "vsphereclusters",
    "vspheremachinetemplates",
];

/// File names and what they hold.
pub fn files() -> Vec<(&'static str, Vec<Manifest>)> {
    vec![
        (
            "controller",
            process(MANAGER, SYSTEM_NAMESPACE, LEASE, controller()),
        ),
        ("management-addons", management_addons()),
        ("teams", teams()),
    ]
}

/// The account that addons of the management cluster are installed with, and that the controller may act as it. Charts
/// bring roles and webhooks of their own, so it may do everything: a platform that wants no such addons leaves it out.
fn management_addons() -> Vec<Manifest> {
    let token = PolicyRule {
        resource_names: Some(vec![ACCOUNT.to_owned()]),
        ..rule(&[""], &["serviceaccounts/token"], &["create"])
    };
    let [who, everywhere] = account(ACCOUNT, SYSTEM_NAMESPACE, "cluster-admin");
    let [role, binding] = local_role(ACCOUNT, SYSTEM_NAMESPACE, MANAGER, vec![token]);
    vec![who, everywhere, role, binding]
}

fn controller() -> Vec<PolicyRule> {
    let mut team_roles = team::Role::ALL
        .map(|role| role.binding_name().to_owned())
        .to_vec();
    team_roles.push(access::VIEWER.to_owned());
    vec![
        rule(
            &[BUTLER],
            &["butlerconfigs", "teams", "tenantclusters"],
            &READ,
        ),
        rule(
            &[BUTLER],
            &[
                "butlerconfigs/status",
                "teams/status",
                "tenantclusters/status",
            ],
            &["patch"],
        ),
        // Finalizers.
        rule(
            &[BUTLER],
            &["teams", "tenantclusters", "networkpools"],
            &["patch"],
        ),
        rule(&[BUTLER], &["networkpools", "providerconfigs"], &READ),
        rule(&[BUTLER], &["ipallocations"], &OWN),
        rule(&[BUTLER], &["addondefinitions", "managementaddons"], &READ),
        // Those that come with a cluster are made and removed with it.
        rule(&[BUTLER], &["tenantaddons"], &OWN),
        rule(
            &[BUTLER],
            &[
                "addondefinitions/status",
                "managementaddons",
                "managementaddons/status",
                "tenantaddons/status",
            ],
            &["patch"],
        ),
        rule(
            &[BUTLER],
            &[
                "networkpools/status",
                "ipallocations/status",
                "providerconfigs/status",
            ],
            &["patch"],
        ),
        // Kubeconfigs, to see which Services of a tenant wait for an address.
        rule(&[""], &["secrets"], &["get"]),
        // Addresses that the platform itself uses.
        rule(&[""], &["services", "nodes"], &READ),
        rule(&[CLUSTER_API], &["machines", "machinesets"], &READ),
        // What tenant clusters are made of.
        rule(
            &[CLUSTER_API],
            &["clusters", "machinedeployments", "machinehealthchecks"],
            &OWN,
        ),
        rule(&[CONTROL_PLANE], &["stewardcontrolplanes"], &OWN),
        rule(&[BOOTSTRAP], &["kubeadmconfigtemplates"], &OWN),
        rule(&[INFRASTRUCTURE], &INFRASTRUCTURE_KINDS, &OWN),
        // Credentials and bootstrap data in tenant namespaces, which are made and named as clusters come.
        rule(&[""], &["secrets"], &OWN),
        // Cluster API's contract for providers of addresses.
        rule(&[CLUSTER_API_IPAM], &["ipaddresses"], &OWN),
        rule(
            &[CLUSTER_API_IPAM],
            &["ipaddressclaims"],
            &["get", "list", "watch", "patch"],
        ),
        rule(&[CLUSTER_API_IPAM], &["ipaddressclaims/status"], &["patch"]),
        // An owner reference that blocks the owner's deletion needs this.
        rule(
            &[CLUSTER_API_IPAM, BUTLER],
            &["ipaddressclaims/finalizers", "networkpools/finalizers"],
            &["update"],
        ),
        rule(&[""], &["namespaces"], &OWN),
        rule(&[RBAC], &["roles", "rolebindings"], &OWN),
        // Only these roles may be handed out.
        PolicyRule {
            resource_names: Some(team_roles),
            ..rule(&[RBAC], &["clusterroles"], &["bind"])
        },
        rule(&["events.k8s.io"], &["events"], &["create", "patch"]),
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
    vec![
        cluster_role(team::Role::Viewer.binding_name(), viewer),
        cluster_role(team::Role::Operator.binding_name(), operator),
        cluster_role(team::Role::Admin.binding_name(), admin),
        cluster_role(access::VIEWER, tenant_viewer()),
        // What there is to be had is for everybody to know: `butlerctl addon plan` reads it with the rights of a member.
        cluster_role(
            CATALOGUE,
            vec![rule(&[BUTLER], &["addondefinitions"], &READ)],
        ),
        Manifest::ClusterRoleBinding(ClusterRoleBinding {
            metadata: ObjectMeta {
                name: Some(CATALOGUE.to_owned()),
                ..ObjectMeta::default()
            },
            role_ref: RoleRef {
                api_group: RBAC.to_owned(),
                kind: "ClusterRole".to_owned(),
                name: CATALOGUE.to_owned(),
            },
            subjects: Some(vec![Subject {
                api_group: Some(RBAC.to_owned()),
                kind: "Group".to_owned(),
                name: "system:authenticated".to_owned(),
                namespace: None,
            }]),
        }),
    ]
}

/// What every member of a team may see in the namespace of a tenant cluster: how it is doing, and no Secret.
fn tenant_viewer() -> Vec<PolicyRule> {
    let parts = [
        "clusters",
        "machinedeployments",
        "machinesets",
        "machines",
        "machinehealthchecks",
    ];
    vec![
        rule(&[CLUSTER_API], &parts, &READ),
        rule(&[CONTROL_PLANE], &["stewardcontrolplanes"], &READ),
        rule(&["", "events.k8s.io"], &["events"], &READ),
    ]
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use kube::core::{ApiResource, GroupVersionKind};
    use serde_json::Value;

    use super::*;

    /// Every object that a cluster becomes on any provider and with any operating system.
    fn planned() -> Vec<(String, Value)> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../capi/tests/golden");
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|ending| ending != "yaml") {
                continue;
            }
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            let objects: Vec<Value> =
                serde_saphyr::from_multiple(&fs::read_to_string(&path).unwrap()).unwrap();
            found.extend(objects.into_iter().map(|object| (file.clone(), object)));
        }
        found
    }

    fn may(rules: &[PolicyRule], verb: &str, resource: &ApiResource) -> bool {
        let has = |list: Option<&Vec<String>>, wanted: &str| {
            list.is_some_and(|list| list.iter().any(|it| it == wanted))
        };
        rules.iter().any(|rule| {
            rule.resource_names.is_none()
                && has(rule.api_groups.as_ref(), &resource.group)
                && has(rule.resources.as_ref(), &resource.plural)
                && has(Some(&rule.verbs), verb)
        })
    }

    #[test]
    fn whatever_a_cluster_becomes_on_any_provider_the_controller_may_watch_apply_and_prune() {
        let (rules, planned) = (controller(), planned());
        for provider in ["azure.yaml", "proxmox.yaml", "os-talos.yaml"] {
            assert!(
                planned.iter().any(|(file, _)| file == provider),
                "{provider}"
            );
        }
        for (file, object) in planned {
            let text = |field: &str| object[field].as_str().unwrap().to_owned();
            let (version, kind) = (text("apiVersion"), text("kind"));
            let (group, version) = version.split_once('/').unwrap_or(("", &version));
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
            for verb in OWN {
                assert!(
                    may(&rules, verb, &resource),
                    "{file}: the controller may not {verb} {} of {group:?}",
                    resource.plural
                );
            }
        }
    }
}
