//! What a control plane should have, after validation: the input of the plan.

use std::net::{IpAddr, Ipv6Addr};

use crate::{
    authority::Authority, key::Algorithm, layout::Tenant, names::AltNames, validity::Lifetimes,
};

/// Everything that decides the keys, certificates and kubeconfigs of one control plane.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Whose they are.
    pub tenant: Tenant,
    /// How new keys are made.
    pub algorithm: Algorithm,
    /// Whether certificates with keys of another kind are replaced at once, instead of when they are due.
    ///
    /// Authorities and the keys of service accounts stay: replacing those is a rotation, to be asked for.
    pub replace_other_algorithms: bool,
    /// How long new certificates live.
    pub lifetimes: Lifetimes,
    /// The authority that people bring; without one it is made here.
    pub authority: Option<Authority>,
    /// What the API server's certificate is valid for, see [`crate::names::ServerNames`].
    pub server_names: AltNames,
    /// Where the API server is reached.
    pub servers: Servers,
    /// The store that wants a client certificate.
    pub store: Option<Store>,
    /// Whether there is a tunnel to nodes, whose server asks the API server whom it talks to.
    pub tunnel: bool,
    /// A word that asks for new certificates and kubeconfigs, once for each new word.
    pub rotation: Option<String>,
}

/// A store that knows the API server by a client certificate.
#[derive(Clone, Debug)]
pub struct Store {
    /// Its authority.
    pub authority: Authority,
    /// The user that the tenant is to it.
    pub user: String,
}

/// Addresses of the API server, as kubeconfigs write them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Servers {
    /// For clients outside.
    pub external: String,
    /// For clients in the cluster that the control plane runs in.
    pub service: String,
    /// For components in the same pod.
    pub local: String,
}

impl Servers {
    /// The addresses of a control plane whose API server listens on `port`, and that is told to clients
    /// as `host` and `endpoint_port`.
    pub fn new(tenant: &Tenant, port: u16, host: &str, endpoint_port: u16) -> Self {
        let Tenant { name, namespace } = tenant;
        Self {
            external: url(host, endpoint_port),
            service: url(&format!("{name}.{namespace}.svc"), port),
            local: url(&IpAddr::from([127, 0, 0, 1]).to_string(), port),
        }
    }
}

/// IPv6 addresses stand in brackets.
fn url(host: &str, port: u16) -> String {
    if host.parse::<Ipv6Addr>().is_ok() {
        format!("https://[{host}]:{port}")
    } else {
        format!("https://{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_client_gets_its_own_address() {
        let tenant = Tenant {
            name: "blue".into(),
            namespace: "team-a".into(),
        };
        let servers = Servers::new(&tenant, 6443, "fd00::1", 443);
        assert_eq!(servers.external, "https://[fd00::1]:443");
        assert_eq!(servers.service, "https://blue.team-a.svc:6443");
        assert_eq!(servers.local, "https://127.0.0.1:6443");
    }
}
