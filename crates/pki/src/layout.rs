//! Which Secrets hold what, under which names and keys: the ones that existing tools look for.
//!
//! It knows nothing of certificates: only bytes, names, labels and annotations.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::capi::SECRET_TYPE;

/// Label: whose objects these are; the value is `steward`.
pub const PROJECT: &str = "steward.butlerlabs.dev/project";
/// Label: the control plane that an object belongs to.
pub const NAME: &str = "steward.butlerlabs.dev/name";
/// Label: what an object is for.
pub const COMPONENT: &str = "steward.butlerlabs.dev/component";
/// Label: what in a Secret is renewed, `x509` or `kubeconfig`.
pub const LIFECYCLE: &str = "steward.butlerlabs.dev/certificate_lifecycle_controller";
/// Annotation: a hash of a Secret's data.
pub const CHECKSUM: &str = "steward.butlerlabs.dev/checksum";
/// Annotation of a Secret: empty asks for renewal, and the time of it takes its place.
pub const ROTATE: &str = "certs.steward.butlerlabs.dev/rotate";
/// Annotation of a Secret: which request for all certificates of a tenant it has followed.
pub const ROTATION: &str = "certs.steward.butlerlabs.dev/rotation";

/// A control plane, by the names that Secrets are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// The Secrets of a control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum SecretKind {
    /// The authority of the cluster, under the keys of kubeadm and of Cluster API.
    Ca,
    /// The authority behind aggregated APIs.
    FrontProxyCa,
    /// The keys of service-account tokens.
    ServiceAccount,
    /// What the API server shows its clients.
    ApiServer,
    /// What the API server shows kubelets.
    KubeletClient,
    /// What the API server shows aggregated API servers.
    FrontProxyClient,
    /// What the API server shows its store, and the store's authority.
    DataStore,
    /// Kubeconfigs of the administrators, for clients outside and inside this cluster.
    AdminKubeconfig,
    /// Kubeconfig of the controller manager.
    ControllerManagerKubeconfig,
    /// Kubeconfig of the scheduler.
    SchedulerKubeconfig,
    /// Kubeconfig of the tunnel to nodes.
    KonnectivityKubeconfig,
}

impl SecretKind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Ca,
        Self::FrontProxyCa,
        Self::ServiceAccount,
        Self::ApiServer,
        Self::KubeletClient,
        Self::FrontProxyClient,
        Self::DataStore,
        Self::AdminKubeconfig,
        Self::ControllerManagerKubeconfig,
        Self::SchedulerKubeconfig,
        Self::KonnectivityKubeconfig,
    ];

    /// What follows the control plane's name, and the value of the component label.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Ca => "ca",
            Self::FrontProxyCa => "front-proxy-ca-certificate",
            Self::ServiceAccount => "sa-certificate",
            Self::ApiServer => "api-server-certificate",
            Self::KubeletClient => "api-server-kubelet-client-certificate",
            Self::FrontProxyClient => "front-proxy-client-certificate",
            Self::DataStore => "datastore-certificate",
            Self::AdminKubeconfig => "admin-kubeconfig",
            Self::ControllerManagerKubeconfig => "controller-manager-kubeconfig",
            Self::SchedulerKubeconfig => "scheduler-kubeconfig",
            Self::KonnectivityKubeconfig => "konnectivity-kubeconfig",
        }
    }

    /// The Secret's name.
    pub fn name(self, tenant: &str) -> String {
        format!("{tenant}-{}", self.suffix())
    }

    /// Its keys; others are not ours.
    pub fn files(self) -> &'static [&'static str] {
        match self {
            Self::Ca => &["ca.crt", "ca.key", "tls.crt", "tls.key"],
            Self::FrontProxyCa => &["front-proxy-ca.crt", "front-proxy-ca.key"],
            Self::ServiceAccount => &["sa.pub", "sa.key"],
            Self::ApiServer => &["apiserver.crt", "apiserver.key"],
            Self::KubeletClient => &[
                "apiserver-kubelet-client.crt",
                "apiserver-kubelet-client.key",
            ],
            Self::FrontProxyClient => &["front-proxy-client.crt", "front-proxy-client.key"],
            Self::DataStore => &["ca.crt", "server.crt", "server.key"],
            Self::AdminKubeconfig => &[
                "admin.conf",
                "admin.svc",
                "super-admin.conf",
                "super-admin.svc",
            ],
            Self::ControllerManagerKubeconfig => &["controller-manager.conf"],
            Self::SchedulerKubeconfig => &["scheduler.conf"],
            Self::KonnectivityKubeconfig => &["konnectivity-server.conf"],
        }
    }

    /// The value of the label about renewal; what is not renewed by date has none.
    pub fn lifecycle(self) -> Option<&'static str> {
        match self {
            Self::Ca | Self::FrontProxyCa | Self::ServiceAccount => None,
            Self::ApiServer | Self::KubeletClient | Self::FrontProxyClient | Self::DataStore => {
                Some("x509")
            }
            Self::AdminKubeconfig
            | Self::ControllerManagerKubeconfig
            | Self::SchedulerKubeconfig
            | Self::KonnectivityKubeconfig => Some("kubeconfig"),
        }
    }

    /// The pod label that carries the hash of the Secret, so that a change rolls the pods which mount it.
    pub fn rollout_label(self) -> Option<&'static str> {
        match self {
            Self::Ca => Some("component.steward.butlerlabs.dev/ca"),
            Self::FrontProxyCa => {
                Some("component.steward.butlerlabs.dev/front-proxy-ca-certificate")
            }
            Self::ServiceAccount => Some("component.steward.butlerlabs.dev/service-account"),
            Self::ApiServer => Some("component.steward.butlerlabs.dev/api-server-certificate"),
            Self::KubeletClient => {
                Some("component.steward.butlerlabs.dev/api-server-kubelet-client-certificate")
            }
            Self::FrontProxyClient => {
                Some("component.steward.butlerlabs.dev/front-proxy-client-certificate")
            }
            Self::DataStore => Some("component.steward.butlerlabs.dev/datastore-certificate"),
            Self::AdminKubeconfig => None,
            Self::ControllerManagerKubeconfig => {
                Some("component.steward.butlerlabs.dev/controller-manager-kubeconfig")
            }
            Self::SchedulerKubeconfig => {
                Some("component.steward.butlerlabs.dev/scheduler-kubeconfig")
            }
            Self::KonnectivityKubeconfig => {
                Some("component.steward.butlerlabs.dev/konnectivity-kubeconfig")
            }
        }
    }
}

/// What one Secret holds: files, and which requests for renewal it has seen.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// The files by key.
    pub data: BTreeMap<String, Vec<u8>>,
    /// Value of [`ROTATE`].
    pub rotate: Option<String>,
    /// Value of [`ROTATION`].
    pub rotation: Option<String>,
}

impl Content {
    /// Reads a Secret, whatever it holds.
    pub fn from_secret(secret: &Secret) -> Self {
        let annotation = |key: &str| secret.metadata.annotations.as_ref()?.get(key).cloned();
        let data = secret.data.iter().flatten();
        Self {
            data: data
                .map(|(key, value)| (key.clone(), value.0.clone()))
                .collect(),
            rotate: annotation(ROTATE),
            rotation: annotation(ROTATION),
        }
    }

    /// The Secret of a control plane, without an owner.
    pub fn to_secret(&self, kind: SecretKind, tenant: &Tenant) -> Secret {
        let mut labels = BTreeMap::from([
            (PROJECT.to_owned(), "steward".to_owned()),
            (NAME.to_owned(), tenant.name.clone()),
            (COMPONENT.to_owned(), kind.suffix().to_owned()),
        ]);
        labels.extend(
            kind.lifecycle()
                .map(|value| (LIFECYCLE.to_owned(), value.to_owned())),
        );
        let mut secret = self.named(kind.name(&tenant.name), &tenant.namespace, labels);
        if kind == SecretKind::Ca {
            // Where the control plane is called like its Cluster, this is the Secret that Cluster API looks for.
            secret.type_ = Some(SECRET_TYPE.to_owned());
        }
        secret
    }

    pub(crate) fn named(
        &self,
        name: String,
        namespace: &str,
        labels: BTreeMap<String, String>,
    ) -> Secret {
        let mut annotations = BTreeMap::from([(CHECKSUM.to_owned(), self.checksum())]);
        annotations.extend(
            self.rotate
                .iter()
                .map(|value| (ROTATE.to_owned(), value.clone())),
        );
        annotations.extend(
            self.rotation
                .iter()
                .map(|value| (ROTATION.to_owned(), value.clone())),
        );
        let data = self.data.iter();
        Secret {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace.to_owned()),
                labels: Some(labels),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            data: Some(
                data.map(|(key, value)| (key.clone(), ByteString(value.clone())))
                    .collect(),
            ),
            ..Secret::default()
        }
    }

    /// A hash over keys and values, short enough for a label.
    pub fn checksum(&self) -> String {
        let mut hash = Sha256::new();
        for (key, value) in &self.data {
            // Lengths keep `a` + `bc` apart from `ab` + `c`.
            for part in [key.as_bytes(), value] {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
        }
        let digest = hash.finalize();
        let start = digest.iter().take(16);
        let number = start.fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
        format!("{number:032x}")
    }

    /// Whether somebody asked for renewal on the Secret itself.
    pub fn is_asked_to_rotate(&self) -> bool {
        self.rotate.as_deref() == Some("")
    }

    pub(crate) fn file(&self, key: &str) -> Option<&[u8]> {
        self.data.get(key).map(Vec::as_slice)
    }

    pub(crate) fn put(&mut self, key: &str, value: impl Into<Vec<u8>>) {
        self.data.insert(key.to_owned(), value.into());
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Content")
            .field("files", &self.data.keys().collect::<Vec<_>>())
            .field("rotate", &self.rotate)
            .field("rotation", &self.rotation)
            .finish()
    }
}

/// The Secrets of one control plane, held or wanted.
pub type Contents = BTreeMap<SecretKind, Content>;

/// Picks the Secrets of a control plane out of a list, by name.
pub fn read<'a>(tenant: &Tenant, secrets: impl IntoIterator<Item = &'a Secret>) -> Contents {
    let names = SecretKind::ALL.map(|kind| (kind.name(&tenant.name), kind));
    let find = |secret: &Secret| {
        let name = secret.metadata.name.as_deref()?;
        let (_, kind) = names.iter().find(|(known, _)| known == name)?;
        Some((*kind, Content::from_secret(secret)))
    };
    let ours = |secret: &&Secret| secret.metadata.namespace.as_deref() == Some(&tenant.namespace);
    secrets.into_iter().filter(ours).filter_map(find).collect()
}
