//! One planned object of any kind, and how it is named, compared and hashed.

use std::fmt;

use butler_api::controlplane::StewardControlPlane;
use k8s_openapi::{
    api::{
        core::v1::{Namespace, Secret},
        rbac::v1::{Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::core::{Cluster, KubeadmConfigTemplate, MachineDeployment, MachineHealthCheck};

/// An object of which only what is written is known: of a provider whose kinds are not ours, or one that people write to
/// as well.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Foreign {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name, namespace, labels.
    pub metadata: ObjectMeta,
    /// What it should be.
    pub spec: Value,
}

/// A planned object, complete.
#[derive(Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Object {
    /// The tenant namespace.
    Namespace(Box<Namespace>),
    /// What somebody may do in it.
    Role(Box<Role>),
    /// Who may do that.
    RoleBinding(Box<RoleBinding>),
    /// Credentials or bootstrap data.
    Secret(Box<Secret>),
    /// An object of an infrastructure provider.
    Infrastructure(Box<Foreign>),
    /// The hosted control plane.
    ControlPlane(Box<StewardControlPlane>),
    /// The Cluster API Cluster.
    Cluster(Box<Cluster>),
    /// What machines are told.
    Bootstrap(Box<KubeadmConfigTemplate>),
    /// A pool.
    MachineDeployment(Box<MachineDeployment>),
    /// The repair of a pool.
    MachineHealthCheck(Box<MachineHealthCheck>),
    /// An addon of the cluster, beside its `TenantCluster`.
    Addon(Box<Foreign>),
}

/// Which object is meant: kinds are unique across the groups that Butler writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectId {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind, self.name)
    }
}

impl fmt::Debug for Object {
    /// Never what is in it: it may be a Secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.id())
    }
}

impl Object {
    /// Name, namespace, labels.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Namespace(object) => &object.metadata,
            Self::Role(object) => &object.metadata,
            Self::RoleBinding(object) => &object.metadata,
            Self::Secret(object) => &object.metadata,
            Self::Infrastructure(object) | Self::Addon(object) => &object.metadata,
            Self::ControlPlane(object) => &object.metadata,
            Self::Cluster(object) => &object.metadata,
            Self::Bootstrap(object) => &object.metadata,
            Self::MachineDeployment(object) => &object.metadata,
            Self::MachineHealthCheck(object) => &object.metadata,
        }
    }

    /// Which object it is.
    pub fn id(&self) -> ObjectId {
        fn named<K: kube_core::Resource<DynamicType = ()>>(object: &K) -> ObjectId {
            ObjectId {
                api_version: K::api_version(&()).into_owned(),
                kind: K::kind(&()).into_owned(),
                name: object.meta().name.clone().unwrap_or_default(),
            }
        }
        match self {
            Self::Namespace(object) => named(object.as_ref()),
            Self::Role(object) => named(object.as_ref()),
            Self::RoleBinding(object) => named(object.as_ref()),
            Self::Secret(object) => named(object.as_ref()),
            Self::Infrastructure(object) | Self::Addon(object) => ObjectId {
                api_version: object.api_version.clone(),
                kind: object.kind.clone(),
                name: object.metadata.name.clone().unwrap_or_default(),
            },
            Self::ControlPlane(object) => named(object.as_ref()),
            Self::Cluster(object) => named(object.as_ref()),
            Self::Bootstrap(object) => named(object.as_ref()),
            Self::MachineDeployment(object) => named(object.as_ref()),
            Self::MachineHealthCheck(object) => named(object.as_ref()),
        }
    }

    /// The object as it is sent.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a planned object is plain data with text keys")
    }

    /// A hash of all of it. The applier keeps the same in an annotation of the live object, so a plan can say
    /// what would change without reading whole objects.
    pub fn hash(&self) -> String {
        digest(&self.to_value())
    }
}

/// Sixteen hexadecimal digits of a value; `serde_json` keeps keys sorted, so equal values have equal text.
pub fn digest(value: &Value) -> String {
    hexadecimal(&Sha256::digest(value.to_string().as_bytes()), 8)
}

/// The first `bytes` bytes in hexadecimal.
pub(crate) fn hexadecimal(digest: &[u8], bytes: usize) -> String {
    use fmt::Write as _;
    let mut text = String::with_capacity(bytes * 2);
    for byte in digest.iter().take(bytes) {
        write!(text, "{byte:02x}").expect("writing to a String never fails");
    }
    text
}
