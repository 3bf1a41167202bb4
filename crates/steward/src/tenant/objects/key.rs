//! Which object of a tenant cluster is meant.

use std::fmt;

use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    apps::v1::{DaemonSet, Deployment},
    core::v1::{ConfigMap, Service, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::core::ApiResource;
use serde::Serialize;

/// The kinds that we put into tenant clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[expect(missing_docs, reason = "these are the names of Kubernetes kinds")]
pub enum Kind {
    ServiceAccount,
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
    ConfigMap,
    Service,
    Deployment,
    DaemonSet,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
}

impl Kind {
    /// How the API server calls it.
    pub fn resource(self) -> ApiResource {
        match self {
            Self::ServiceAccount => ApiResource::erase::<ServiceAccount>(&()),
            Self::ClusterRole => ApiResource::erase::<ClusterRole>(&()),
            Self::ClusterRoleBinding => ApiResource::erase::<ClusterRoleBinding>(&()),
            Self::Role => ApiResource::erase::<Role>(&()),
            Self::RoleBinding => ApiResource::erase::<RoleBinding>(&()),
            Self::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
            Self::Service => ApiResource::erase::<Service>(&()),
            Self::Deployment => ApiResource::erase::<Deployment>(&()),
            Self::DaemonSet => ApiResource::erase::<DaemonSet>(&()),
            Self::ValidatingAdmissionPolicy => ApiResource::erase::<ValidatingAdmissionPolicy>(&()),
            Self::ValidatingAdmissionPolicyBinding => {
                ApiResource::erase::<ValidatingAdmissionPolicyBinding>(&())
            }
        }
    }

    /// Fields that the API server refuses to change: an object that differs there has to be made anew.
    pub(crate) fn fixed_fields(self) -> &'static [&'static str] {
        match self {
            Self::ClusterRoleBinding | Self::RoleBinding => &["/roleRef"],
            Self::Deployment | Self::DaemonSet => &["/spec/selector"],
            Self::Service => &["/spec/clusterIP"],
            Self::ServiceAccount
            | Self::ClusterRole
            | Self::Role
            | Self::ConfigMap
            | Self::ValidatingAdmissionPolicy
            | Self::ValidatingAdmissionPolicyBinding => &[],
        }
    }
}

/// One object of a tenant cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    pub(crate) fn new(kind: Kind, namespace: Option<&str>, name: &str) -> Self {
        Self {
            kind,
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    /// `namespace/name`, or the name of what has no namespace.
    pub fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {}", self.kind, self.full_name())
    }
}
