//! The keys, certificates and kubeconfigs of a control plane: where each lies, whom it names, who uses it.

use serde::Serialize;

use crate::{
    authority::{Authority, AuthorityError},
    files::Files,
    layout::{Content, SecretKind},
    profile::{CLUSTER_ADMINS, Profile, SYSTEM_MASTERS, Subject},
    wanted::{Servers, Wanted},
};

/// One thing that is planned by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Item {
    /// Authority of the cluster.
    Ca,
    /// Authority behind aggregated APIs.
    FrontProxyCa,
    /// Keys of service-account tokens.
    ServiceAccount,
    /// Serving certificate of the API server.
    ApiServer,
    /// The API server's client certificate for kubelets.
    KubeletClient,
    /// The API server's client certificate for aggregated API servers.
    FrontProxyClient,
    /// The API server's client certificate for its store.
    StoreClient,
    /// Kubeconfig of the administrators.
    Admin,
    /// Kubeconfig that no role binding can lock out.
    SuperAdmin,
    /// Kubeconfig of the controller manager.
    ControllerManager,
    /// Kubeconfig of the scheduler.
    Scheduler,
    /// Kubeconfig of the tunnel to nodes.
    Tunnel,
}

/// Who uses an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Consumer {
    /// The API server mounts it: its pods are rolled.
    ApiServer,
    /// The controller manager mounts it: its pods are rolled.
    ControllerManager,
    /// The scheduler mounts it: its pods are rolled.
    Scheduler,
    /// The tunnel's server mounts it: its pods are rolled.
    Tunnel,
    /// Steward signs in to the tenant with it: its client is built anew.
    Steward,
    /// Cluster API has a copy: its Secret is written anew.
    ClusterApi,
    /// Generated kubeconfigs are signed with it: they are written anew.
    GeneratedKubeconfigs,
    /// People have copies: they are told.
    Administrators,
    /// Nodes trust it: they learn of it, or join again.
    Nodes,
}

impl Item {
    /// The Secret that holds it.
    pub fn secret(self) -> SecretKind {
        match self {
            Self::Ca => SecretKind::Ca,
            Self::FrontProxyCa => SecretKind::FrontProxyCa,
            Self::ServiceAccount => SecretKind::ServiceAccount,
            Self::ApiServer => SecretKind::ApiServer,
            Self::KubeletClient => SecretKind::KubeletClient,
            Self::FrontProxyClient => SecretKind::FrontProxyClient,
            Self::StoreClient => SecretKind::DataStore,
            Self::Admin | Self::SuperAdmin => SecretKind::AdminKubeconfig,
            Self::ControllerManager => SecretKind::ControllerManagerKubeconfig,
            Self::Scheduler => SecretKind::SchedulerKubeconfig,
            Self::Tunnel => SecretKind::KonnectivityKubeconfig,
        }
    }

    /// Who has to be rolled or told when it changes.
    pub fn consumers(self) -> &'static [Consumer] {
        match self {
            Self::Ca => &[
                Consumer::ApiServer,
                Consumer::ControllerManager,
                Consumer::Steward,
                Consumer::ClusterApi,
                Consumer::GeneratedKubeconfigs,
                Consumer::Administrators,
                Consumer::Nodes,
            ],
            Self::FrontProxyCa | Self::ServiceAccount => {
                &[Consumer::ApiServer, Consumer::ControllerManager]
            }
            Self::ApiServer | Self::KubeletClient | Self::FrontProxyClient | Self::StoreClient => {
                &[Consumer::ApiServer]
            }
            Self::Admin => &[
                Consumer::ClusterApi,
                Consumer::GeneratedKubeconfigs,
                Consumer::Administrators,
            ],
            Self::SuperAdmin => &[Consumer::Steward],
            Self::ControllerManager => &[Consumer::ControllerManager],
            Self::Scheduler => &[Consumer::Scheduler],
            Self::Tunnel => &[Consumer::Tunnel],
        }
    }

    /// Keys of the Secret that hold a certificate and its private key; copies follow the first.
    pub(crate) fn pairs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Ca => &[("ca.crt", "ca.key"), ("tls.crt", "tls.key")],
            Self::FrontProxyCa => &[("front-proxy-ca.crt", "front-proxy-ca.key")],
            Self::ApiServer => &[("apiserver.crt", "apiserver.key")],
            Self::KubeletClient => &[(
                "apiserver-kubelet-client.crt",
                "apiserver-kubelet-client.key",
            )],
            Self::FrontProxyClient => &[("front-proxy-client.crt", "front-proxy-client.key")],
            Self::StoreClient => &[("server.crt", "server.key")],
            Self::ServiceAccount
            | Self::Admin
            | Self::SuperAdmin
            | Self::ControllerManager
            | Self::Scheduler
            | Self::Tunnel => &[],
        }
    }

    /// Reads an authority from the first pair that holds a usable one: Cluster API's copy may be all there is.
    pub(crate) fn authority(self, content: &Content) -> Result<Authority, AuthorityError> {
        let text = |name: &str| content.file(name).unwrap_or_default();
        let read =
            |(certificate, key): &(&str, &str)| Authority::from_pem(text(certificate), text(key));
        let mut found = self.pairs().iter().map(read);
        let first = found.next().unwrap_or(Err(AuthorityError::NotAuthority));
        first.or_else(|error| found.find_map(Result::ok).ok_or(error))
    }
}

/// A kubeconfig of the control plane's own: whom it names, and which files hold it.
#[derive(Debug)]
pub(crate) struct OwnKubeconfig {
    pub(crate) item: Item,
    user: &'static str,
    groups: &'static [&'static str],
    files: &'static [(&'static str, Server)],
}

#[derive(Clone, Copy, Debug)]
enum Server {
    External,
    Service,
    Local,
}

/// The kubeconfigs of a control plane.
const KUBECONFIGS: [OwnKubeconfig; 5] = [
    OwnKubeconfig {
        item: Item::Admin,
        user: "kubernetes-admin",
        groups: &[CLUSTER_ADMINS],
        files: &[
            ("admin.conf", Server::External),
            ("admin.svc", Server::Service),
        ],
    },
    OwnKubeconfig {
        item: Item::SuperAdmin,
        user: "kubernetes-super-admin",
        groups: &[SYSTEM_MASTERS],
        files: &[
            ("super-admin.conf", Server::External),
            ("super-admin.svc", Server::Service),
        ],
    },
    OwnKubeconfig {
        item: Item::ControllerManager,
        user: "system:kube-controller-manager",
        groups: &[],
        files: &[("controller-manager.conf", Server::Local)],
    },
    OwnKubeconfig {
        item: Item::Scheduler,
        user: "system:kube-scheduler",
        groups: &[],
        files: &[("scheduler.conf", Server::Local)],
    },
    // No group: it may ask who shows a token, by a role that the tenant cluster binds it to, and nothing else.
    OwnKubeconfig {
        item: Item::Tunnel,
        user: "system:konnectivity-server",
        groups: &[],
        files: &[("konnectivity-server.conf", Server::Local)],
    },
];

/// The kubeconfigs that are wanted.
pub(crate) fn kubeconfigs(wanted: &Wanted) -> impl Iterator<Item = &'static OwnKubeconfig> {
    let tunnel = wanted.tunnel;
    KUBECONFIGS
        .iter()
        .filter(move |config| tunnel || config.item != Item::Tunnel)
}

impl OwnKubeconfig {
    /// What its client certificate says.
    pub(crate) fn profile(&self) -> Profile {
        Profile::client(Subject::new(self.user, self.groups.iter().copied()))
    }

    /// Its files, named as kubeadm names their entries.
    pub(crate) fn files(&self, wanted: &Wanted) -> Files {
        let Servers {
            external,
            service,
            local,
        } = &wanted.servers;
        let address = |server| match server {
            Server::External => external.clone(),
            Server::Service => service.clone(),
            Server::Local => local.clone(),
        };
        let files = self.files.iter();
        Files {
            cluster: wanted.tenant.name.clone(),
            user: self.user.to_owned(),
            context: format!("{}@{}", self.user, wanted.tenant.name),
            servers: files
                .map(|(file, server)| ((*file).to_owned(), address(*server)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_but_the_super_administrator_passes_every_check() {
        let is_master = |config: &&OwnKubeconfig| config.groups.contains(&SYSTEM_MASTERS);
        let masters: Vec<Item> = KUBECONFIGS
            .iter()
            .filter(is_master)
            .map(|config| config.item)
            .collect();
        assert_eq!(masters, [Item::SuperAdmin]);
    }
}
