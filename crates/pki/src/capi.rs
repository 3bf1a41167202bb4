//! The Secrets that Cluster API looks for beside a Cluster: its kubeconfig and its authority.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::layout::{COMPONENT, Content};

/// The type of Cluster API's Secrets.
pub const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
/// The label that ties an object to its Cluster.
pub const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

/// Where the two Secrets belong.
#[derive(Clone, Copy, Debug)]
pub struct Cluster<'a> {
    /// Name of the Cluster.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Name of the control plane that serves it.
    pub tenant: &'a str,
}

impl Cluster<'_> {
    /// `<cluster>-kubeconfig`, from a file of the administrators' Secret such as `admin.conf`.
    ///
    /// Nothing if the file is not there.
    pub fn kubeconfig(self, administrators: &Content, file: &str) -> Option<Secret> {
        let value = administrators.file(file)?;
        Some(self.secret("kubeconfig", [("value", value)]))
    }

    /// `<cluster>-ca`, from the Secret of the cluster's authority. Nothing if that is incomplete.
    pub fn authority(self, authority: &Content) -> Option<Secret> {
        let (certificate, key) = (authority.file("tls.crt")?, authority.file("tls.key")?);
        Some(self.secret("ca", [("tls.crt", certificate), ("tls.key", key)]))
    }

    fn secret<const N: usize>(self, what: &str, files: [(&str, &[u8]); N]) -> Secret {
        let labels = [
            (CLUSTER_NAME, self.name),
            (COMPONENT, "capi"),
            ("steward.butlerlabs.dev/secret", what),
            ("steward.butlerlabs.dev/cluster", self.name),
            ("steward.butlerlabs.dev/tcp", self.tenant),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let files = files.map(|(key, value)| (key.to_owned(), ByteString(value.to_vec())));
        Secret {
            metadata: ObjectMeta {
                name: Some(format!("{}-{what}", self.name)),
                namespace: Some(self.namespace.to_owned()),
                labels: Some(BTreeMap::from(labels)),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(BTreeMap::from(files)),
            ..Secret::default()
        }
    }
}
