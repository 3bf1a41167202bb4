//! What certificates say about their holder, as kubeadm writes it.
//!
//! Subjects, names and usages only: no keys, no dates, no Secrets.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;

use crate::names::AltNames;

/// Administrators, through a role binding that the tenant can take back.
pub const CLUSTER_ADMINS: &str = "kubeadm:cluster-admins";
/// Administrators whom no role binding can lock out.
pub const SYSTEM_MASTERS: &str = "system:masters";

/// Whom a certificate names: a Kubernetes user and its groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Subject {
    /// The user.
    pub common_name: String,
    /// The groups.
    pub organizations: BTreeSet<String>,
}

impl Subject {
    /// A user in these groups.
    pub fn new<'a>(user: &str, groups: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            common_name: user.to_owned(),
            organizations: groups.into_iter().map(str::to_owned).collect(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for organization in &self.organizations {
            write!(formatter, "O={organization}, ")?;
        }
        write!(formatter, "CN={}", self.common_name)
    }
}

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Purpose {
    /// To prove a server.
    ServerAuth,
    /// To prove a client.
    ClientAuth,
}

/// What one certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub(crate) subject: Subject,
    pub(crate) purposes: BTreeSet<Purpose>,
    pub(crate) names: AltNames,
    pub(crate) authority: bool,
}

impl Profile {
    /// An authority, which also carries its name as a DNS name, as kubeadm's do.
    pub fn authority(name: &str) -> Self {
        Self {
            subject: Subject::new(name, []),
            purposes: BTreeSet::new(),
            names: name.parse().into_iter().collect(),
            authority: true,
        }
    }

    /// A server that answers to these names.
    pub fn server(name: &str, names: AltNames) -> Self {
        Self {
            subject: Subject::new(name, []),
            purposes: BTreeSet::from([Purpose::ServerAuth]),
            names,
            authority: false,
        }
    }

    /// A client: a user in groups.
    pub fn client(subject: Subject) -> Self {
        Self {
            subject,
            purposes: BTreeSet::from([Purpose::ClientAuth]),
            names: AltNames::new(),
            authority: false,
        }
    }

    /// The authority of a tenant cluster.
    pub fn cluster_authority() -> Self {
        Self::authority("kubernetes")
    }

    /// The authority behind aggregated APIs.
    pub fn front_proxy_authority() -> Self {
        Self::authority("front-proxy-ca")
    }

    /// What the API server shows its clients.
    pub fn api_server(names: AltNames) -> Self {
        Self::server("kube-apiserver", names)
    }

    /// What the API server shows kubelets.
    pub fn kubelet_client() -> Self {
        Self::client(Subject::new(
            "kube-apiserver-kubelet-client",
            [CLUSTER_ADMINS],
        ))
    }

    /// What the API server shows aggregated API servers.
    pub fn front_proxy_client() -> Self {
        Self::client(Subject::new("front-proxy-client", []))
    }

    /// What the API server shows its store, which knows it by this user.
    ///
    /// No group: stores look at the user only, and a leaked certificate must open nothing else.
    pub fn store_client(user: &str) -> Self {
        Self::client(Subject::new(user, []))
    }
}
