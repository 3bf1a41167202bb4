//! The kinds of Cluster API that Butler writes, with the fields that Butler writes (`cluster.x-k8s.io/v1beta2`).
//!
//! Server-side apply owns what is sent, so a field that is not here stays with whoever sets it. The types know
//! nothing of tenants; what goes into them is decided in [`crate::build`].

use std::borrow::Cow;

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Serialize};

mod cluster;
mod kubeadm;
mod machine_deployment;
mod machine_health_check;

pub use cluster::{Cluster, ClusterNetwork, ClusterSpec, Ranges};
pub use kubeadm::{
    File, Join, KubeadmConfigTemplate, KubeadmSpec, KubeadmTemplate, KubeadmTemplateSpec, Named,
    NodeRegistration, Ntp, Taint, User,
};
pub use machine_deployment::{
    Bootstrap, Labelled, MachineDeletion, MachineDeployment, MachineDeploymentSpec, MachineRollout,
    MachineSpec, MachineTemplate, Remediation, RollingUpdate, Selector, Strategy,
};
pub use machine_health_check::{
    Checks, MachineHealthCheck, MachineHealthCheckSpec, TriggerIf, UnhealthyCondition,
    UnhealthyRemediation,
};

/// Label that ties every object to its Cluster.
pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
/// Label that ties machines to their `MachineDeployment`.
pub const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";
/// Group of the core kinds.
pub const GROUP: &str = "cluster.x-k8s.io";
/// Group of infrastructure kinds.
pub const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
/// Group of bootstrap kinds.
pub const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
/// Group of control-plane kinds.
pub const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";

/// What a kind is called.
pub trait Kind {
    /// API group.
    const GROUP: &'static str;
    /// Its name.
    const KIND: &'static str;
    /// Its name in paths.
    const PLURAL: &'static str;
}

/// The version of every kind of Cluster API that is written.
const VERSION: &str = "v1beta2";

/// An object of Cluster API.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource<S> {
    api_version: String,
    kind: String,
    /// Name, namespace, labels.
    pub metadata: ObjectMeta,
    /// What it should be.
    pub spec: S,
}

impl<S: Kind> Resource<S> {
    /// An object of this kind.
    pub fn new(metadata: ObjectMeta, spec: S) -> Self {
        Self {
            api_version: format!("{}/{VERSION}", S::GROUP),
            kind: S::KIND.to_owned(),
            metadata,
            spec,
        }
    }
}

impl<S: Kind> kube_core::Resource for Resource<S> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        S::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        S::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        S::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A reference to an object of another provider, by group: the version is whichever its contract label names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// API group.
    pub api_group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl Reference {
    /// A reference.
    pub fn new(group: &str, kind: &str, name: &str) -> Self {
        Self {
            api_group: group.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
        }
    }
}
