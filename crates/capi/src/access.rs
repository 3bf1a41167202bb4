//! What the members of a team may see of their cluster's parts: its kubeconfig, and how it is doing. Nobody of a team
//! reads anything else that is kept there, least of all the credentials of a provider.

use k8s_openapi::{
    api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    names::Identity,
    object::{Object, ObjectId},
};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The `ClusterRole` of whoever may see what a cluster is made of, and the `RoleBinding` to it.
pub const VIEWER: &str = "butler-tenant-viewer";
/// The Role of whoever may have the kubeconfig of a cluster, and the `RoleBinding` to it.
pub const KUBECONFIG: &str = "butler-tenant-kubeconfig";

/// Who of a team may what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Access {
    /// See what the cluster is made of.
    pub viewers: Vec<Subject>,
    /// Have its kubeconfig.
    pub operators: Vec<Subject>,
}

/// Who may see the parts of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Audience {
    /// That could not be read: what stands stays.
    #[default]
    Unknown,
    /// There is no team, or none any more: nobody is left to see anything.
    Nobody,
    /// The members of a team.
    Team(Access),
}

impl Audience {
    /// Whether an object about access goes when it is not planned. Only what we wrote ourselves does.
    pub fn revokes(&self, id: &ObjectId, hash: Option<&String>) -> bool {
        is_about(id) && hash.is_some() && *self != Self::Unknown
    }
}

/// Whether an object says who may see something.
pub fn is_about(id: &ObjectId) -> bool {
    matches!(id.kind.as_str(), "Role" | "RoleBinding")
}

/// The objects that say so. Those of a team are there also when nobody is named: a binding without subjects gives
/// nothing, and whoever leaves a team loses access by a change instead of by a deletion that may have to wait.
pub fn objects(identity: &Identity, audience: &Audience) -> Vec<Object> {
    let Audience::Team(access) = audience else {
        return Vec::new();
    };
    let metadata = |name: &str| identity.metadata(name);
    let kubeconfig = Role {
        metadata: metadata(KUBECONFIG),
        rules: Some(vec![PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["secrets".to_owned()]),
            resource_names: Some(vec![identity.kubeconfig()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        }]),
    };
    vec![
        Object::Role(Box::new(kubeconfig)),
        binding(metadata(KUBECONFIG), "Role", &access.operators),
        binding(metadata(VIEWER), "ClusterRole", &access.viewers),
    ]
}

/// A binding to the role of its own name.
fn binding(metadata: ObjectMeta, kind: &str, subjects: &[Subject]) -> Object {
    let name = metadata.name.clone().unwrap_or_default();
    Object::RoleBinding(Box::new(RoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: RBAC.to_owned(),
            kind: kind.to_owned(),
            name,
        },
        subjects: Some(subjects.to_vec()),
    }))
}
