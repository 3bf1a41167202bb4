//! Where clients reach an API server, derived from the spec and from what its Service looks like now.
//!
//! Pure: a host name that a load balancer gave is resolved by the caller. Everything that follows the
//! endpoint (advertised address, names in certificates, kubeconfigs) is made from [`Endpoint`], so a change
//! of it reaches all of them.
//!
//! The API server listens on the port that clients outside dial. Inside the tenant cluster
//! `kubernetes.default.svc` leads to the advertised address and the *listening* port, so with a node port
//! that differs from it no pod of the tenant could reach its API.

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, Ipv4Addr},
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{LoadBalancerIngress, Service},
};

use crate::{
    names,
    spec::{ControlPlane, Exposure, San},
};

/// What a Service looks like now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Its addresses in this cluster.
    pub cluster_ips: Vec<IpAddr>,
    /// The node port of the API server.
    pub node_port: Option<u16>,
    /// The node port of the tunnel.
    pub konnectivity_node_port: Option<u16>,
    /// What the load balancer gave.
    pub balancer: Vec<Balancer>,
    /// Addresses that the load balancer's host name resolves to; filled in by the caller.
    pub resolved: Vec<IpAddr>,
    /// The address that is advertised now; kept while it is still right. Filled in by the caller.
    pub advertised: Option<IpAddr>,
}

/// One thing that a load balancer gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Balancer {
    /// An address.
    Address(IpAddr),
    /// A host name, as some clouds do.
    Hostname(String),
}

impl Observed {
    /// Reads a Service.
    pub fn of(service: &Service) -> Self {
        let spec = service.spec.as_ref();
        let ips = spec
            .and_then(|spec| spec.cluster_ips.as_ref())
            .into_iter()
            .flatten();
        let status = service.status.as_ref();
        let balancer = status.and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
        Self {
            cluster_ips: ips.filter_map(|text| text.parse().ok()).collect(),
            node_port: node_port(service, names::API_SERVER),
            konnectivity_node_port: node_port(service, names::KONNECTIVITY_SERVER),
            balancer: balancer.into_iter().flatten().filter_map(given).collect(),
            resolved: Vec::new(),
            advertised: None,
        }
    }

    /// The host name to resolve before [`resolve`] can say more, if that is what it waits for.
    pub fn hostname(&self) -> Option<&str> {
        self.balancer.iter().find_map(|item| match item {
            Balancer::Hostname(name) => Some(name.as_str()),
            Balancer::Address(_) => None,
        })
    }
}

/// The address that the pods of a control plane advertise.
pub fn advertised(deployment: &Deployment) -> Option<IpAddr> {
    let pods = deployment.spec.as_ref()?.template.spec.as_ref()?;
    let api_server = pods
        .containers
        .iter()
        .find(|container| container.name == names::API_SERVER)?;
    let words = [&api_server.command, &api_server.args];
    words
        .into_iter()
        .flatten()
        .flatten()
        .find_map(|word| word.strip_prefix("--advertise-address="))?
        .parse()
        .ok()
}

fn node_port(service: &Service, name: &str) -> Option<u16> {
    let mut ports = service.spec.as_ref()?.ports.as_ref()?.iter();
    let port = ports
        .find(|port| port.name.as_deref() == Some(name))?
        .node_port?;
    u16::try_from(port).ok().filter(|port| *port != 0)
}

fn given(ingress: &LoadBalancerIngress) -> Option<Balancer> {
    let address = ingress.ip.as_deref().and_then(|text| text.parse().ok());
    let hostname = || ingress.hostname.clone().filter(|name| !name.is_empty());
    address
        .map(Balancer::Address)
        .or_else(|| hostname().map(Balancer::Hostname))
}

/// Where clients reach the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Address or host name.
    pub host: Host,
    /// Port that clients outside dial, and that the API server listens on.
    pub port: u16,
    /// Port of the Service in this cluster.
    pub service_port: u16,
    /// Port that agents of the tunnel dial, where there is a tunnel.
    pub konnectivity_port: Option<u16>,
    /// Address that pods of the tenant are sent to.
    pub advertise_address: IpAddr,
    /// Name of the Service in this cluster.
    pub service_host: String,
    /// What the API server's certificate must be valid for.
    pub sans: BTreeSet<San>,
}

/// An address or a host name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An address.
    Ip(IpAddr),
    /// A host name.
    Name(String),
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(formatter),
            Self::Name(name) => formatter.write_str(name),
        }
    }
}

impl Endpoint {
    /// As `host:port`; IPv6 addresses in brackets.
    pub fn authority(&self) -> String {
        match &self.host {
            Host::Ip(address) => std::net::SocketAddr::new(*address, self.port).to_string(),
            Host::Name(name) => format!("{name}:{}", self.port),
        }
    }

    /// For clients outside.
    pub fn url(&self) -> String {
        format!("https://{}", self.authority())
    }

    /// For clients in this cluster.
    pub fn service_url(&self) -> String {
        format!("https://{}:{}", self.service_host, self.service_port)
    }

    /// For the other containers of the pod.
    pub fn local_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }
}

/// Why there is no endpoint yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// One word for a condition.
    pub reason: &'static str,
    /// What is waited for, and what helps.
    pub message: String,
}

/// The endpoint, or what it waits for.
///
/// `management_domain` is the DNS domain of the cluster that the control plane runs in.
pub fn resolve(
    spec: &ControlPlane,
    observed: &Observed,
    management_domain: &str,
) -> Result<Endpoint, Waiting> {
    let (host, advertise_address) = reach(spec, observed)?;
    let (port, konnectivity_port) = ports(spec, observed)?;
    let identity = &spec.identity;
    let service_host = format!("{}.{}.svc", identity.name, identity.namespace);
    let sans = sans(spec, observed, &host, advertise_address, management_domain);
    Ok(Endpoint {
        host,
        port,
        service_port: spec.network.port,
        konnectivity_port,
        advertise_address,
        service_host,
        sans,
    })
}

fn waiting<T>(reason: &'static str, message: String) -> Result<T, Waiting> {
    Err(Waiting { reason, message })
}

/// The host that clients dial, and the address that pods of the tenant are sent to.
fn reach(spec: &ControlPlane, observed: &Observed) -> Result<(Host, IpAddr), Waiting> {
    let fixed = spec
        .network
        .address
        .map(|address| (Host::Ip(address), address));
    match &spec.service.exposure {
        Exposure::LoadBalancer { .. } => match fixed {
            Some(fixed) => Ok(fixed),
            None => balanced(spec, observed),
        },
        Exposure::NodePort => fixed.map_or_else(
            || {
                let message = "a NodePort Service is reached by an address of the nodes: set spec.networkProfile.address";
                waiting("AddressNeeded", message.to_owned())
            },
            Ok,
        ),
        Exposure::ClusterIp => match fixed.or_else(|| {
            let address = choose(&observed.cluster_ips, spec, None)?;
            Some((Host::Ip(address), address))
        }) {
            Some(found) => Ok(found),
            None => waiting("ClusterIPPending", "the Service has no cluster IP yet".to_owned()),
        },
    }
}

fn balanced(spec: &ControlPlane, observed: &Observed) -> Result<(Host, IpAddr), Waiting> {
    let addresses = observed.balancer.iter().filter_map(|item| match item {
        Balancer::Address(address) => Some(*address),
        Balancer::Hostname(_) => None,
    });
    let addresses: Vec<IpAddr> = addresses.collect();
    if let Some(address) = choose(&addresses, spec, observed.advertised) {
        return Ok((Host::Ip(address), address));
    }
    let Some(name) = observed.hostname() else {
        let message = format!(
            "the load balancer gave Service {} no address yet; is a load-balancer implementation installed?",
            spec.identity.name
        );
        return waiting("LoadBalancerPending", message);
    };
    // In order: resolvers shuffle their answers, and a new choice would replace every pod.
    let mut resolved = observed.resolved.clone();
    resolved.sort_unstable();
    match choose(&resolved, spec, observed.advertised) {
        Some(address) => Ok((Host::Name(name.to_owned()), address)),
        None => waiting(
            "LoadBalancerUnresolved",
            format!(
                "the load balancer's name {name} does not resolve yet, and pods need an address; set spec.networkProfile.address to give one"
            ),
        ),
    }
}

/// The address that is used already, if it is still there; else the first one of the tenant's family; else
/// the first one.
fn choose(addresses: &[IpAddr], spec: &ControlPlane, held: Option<IpAddr>) -> Option<IpAddr> {
    let wanted = spec.network.service_cidr.is_ipv4();
    let family = || addresses.iter().find(|address| address.is_ipv4() == wanted);
    let standing = addresses.iter().find(|address| Some(**address) == held);
    standing
        .or_else(family)
        .or_else(|| addresses.first())
        .copied()
}

/// The ports that clients outside dial: of the API server, and of the tunnel.
fn ports(spec: &ControlPlane, observed: &Observed) -> Result<(u16, Option<u16>), Waiting> {
    let tunnel = spec.konnectivity.as_ref().map(|tunnel| tunnel.port);
    match &spec.service.exposure {
        Exposure::LoadBalancer { .. } | Exposure::ClusterIp => Ok((spec.network.port, tunnel)),
        Exposure::NodePort => {
            let pending = || Waiting {
                reason: "NodePortPending",
                message: "the Service has no node port yet".to_owned(),
            };
            let port = observed.node_port.ok_or_else(pending)?;
            let tunnel = tunnel.map(|_| observed.konnectivity_node_port.ok_or_else(pending));
            Ok((port, tunnel.transpose()?))
        }
    }
}

fn sans(
    spec: &ControlPlane,
    observed: &Observed,
    host: &Host,
    advertised: IpAddr,
    management_domain: &str,
) -> BTreeSet<San> {
    let (name, namespace) = (&spec.identity.name, &spec.identity.namespace);
    let domain = &spec.network.cluster_domain;
    let mut sans: BTreeSet<San> = [
        "localhost".to_owned(),
        name.clone(),
        format!("{name}.{namespace}"),
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}.svc.{management_domain}"),
        "kubernetes".to_owned(),
        "kubernetes.default".to_owned(),
        "kubernetes.default.svc".to_owned(),
        format!("kubernetes.default.svc.{domain}"),
    ]
    .map(San::Dns)
    .into();
    let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
    sans.extend([loopback, advertised, spec.network.api_service_ip()].map(San::Ip));
    sans.extend(observed.cluster_ips.iter().copied().map(San::Ip));
    sans.extend(observed.balancer.iter().map(|item| match item {
        Balancer::Address(address) => San::Ip(*address),
        Balancer::Hostname(name) => San::Dns(name.to_ascii_lowercase()),
    }));
    sans.insert(match host {
        Host::Ip(address) => San::Ip(*address),
        Host::Name(name) => San::Dns(name.to_ascii_lowercase()),
    });
    sans.extend(spec.network.sans.iter().cloned());
    sans
}

#[cfg(test)]
mod tests;
