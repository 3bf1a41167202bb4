//! Addresses, ports, ranges and the Service of a control plane.

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use butler_api::{
    steward::tenant_control_plane::{
        NetworkProfile, TenantControlPlaneSpec,
        exposure::{Protocol, ServiceType},
    },
    types::Cidr,
};
use k8s_openapi::{api::core::v1::ServicePort, apimachinery::pkg::util::intstr::IntOrString};

use super::{Flags, Konnectivity, Metadata, SpecError, pods};
use crate::names;

/// Ports that the other containers of the pod listen on.
pub(crate) const CONTROLLER_MANAGER_PORT: u16 = 10257;
/// See [`CONTROLLER_MANAGER_PORT`].
pub(crate) const SCHEDULER_PORT: u16 = 10259;
/// Administration of the tunnel's server.
pub(crate) const KONNECTIVITY_ADMIN_PORT: u16 = 8133;
/// Health of the tunnel's server.
pub(crate) const KONNECTIVITY_HEALTH_PORT: u16 = 8134;

/// A name that a certificate is valid for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum San {
    /// A DNS name, possibly with a wildcard as its first label.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

impl FromStr for San {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Ip(address.to_canonical()));
        }
        let name = text.to_ascii_lowercase();
        let host = name.strip_prefix("*.").unwrap_or(&name);
        // Digits and dots alone are an address with a mistake, which no client would look up as a name.
        let numeric = host
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        if name.len() <= 253 && !numeric && host.split('.').all(is_label) {
            return Ok(Self::Dns(name));
        }
        Err(format!(
            "{text:?} is neither an IP address nor a DNS name; write it without scheme and port, such as api.example.com"
        ))
    }
}

impl fmt::Display for San {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => formatter.write_str(name),
            Self::Ip(address) => address.fmt(formatter),
        }
    }
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Addresses, ports and ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Fixed address of the API server.
    pub address: Option<IpAddr>,
    /// Port of the API server.
    pub port: u16,
    /// More names that its certificate is valid for.
    pub sans: Vec<San>,
    /// Range of Service addresses.
    pub service_cidr: Cidr,
    /// Range of pod addresses.
    pub pod_cidr: Cidr,
    /// Addresses of the DNS Service.
    pub dns_service_ips: Vec<IpAddr>,
    /// DNS domain of the tenant cluster.
    pub cluster_domain: String,
}

impl Network {
    /// The address of `kubernetes.default.svc`: the first of the range.
    pub fn api_service_ip(&self) -> IpAddr {
        offset(self.service_cidr.network(), 1)
    }
}

/// How the Service is exposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// By a load balancer.
    LoadBalancer {
        /// Which implementation.
        class: Option<String>,
        /// Clients that are let in.
        source_ranges: Vec<Cidr>,
    },
    /// By a port of every node.
    NodePort,
    /// Inside this cluster.
    ClusterIp,
}

/// The Service in front of the pods.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceSettings {
    /// How it is exposed.
    pub exposure: Exposure,
    /// Addresses that nodes accept for it besides.
    pub external_ips: Vec<IpAddr>,
    /// Labels and annotations.
    pub metadata: Metadata,
    /// More ports.
    pub ports: Vec<ServicePort>,
}

/// Reads the network profile.
pub(super) fn network(raw: &NetworkProfile) -> Result<Network, SpecError> {
    let at = |field: &str| format!("spec.networkProfile.{field}");
    let service_cidr = cidr(&at("serviceCidr"), &raw.service_cidr)?;
    let pod_cidr = cidr(&at("podCidr"), &raw.pod_cidr)?;
    if service_cidr.overlaps(pod_cidr) {
        let problem = format!("{pod_cidr} overlaps serviceCidr {service_cidr}");
        return Err(SpecError::invalid(at("podCidr"), problem));
    }
    if service_cidr.is_ipv4() != pod_cidr.is_ipv4() {
        let problem =
            format!("{pod_cidr} and serviceCidr {service_cidr} must both be IPv4 or both IPv6");
        return Err(SpecError::invalid(at("podCidr"), problem));
    }
    check_service_range(&at("serviceCidr"), service_cidr)?;
    let sans = raw.cert_sans.iter().enumerate();
    let sans = sans.map(|(index, text)| {
        text.parse().map_err(|problem: String| {
            SpecError::invalid(at(&format!("certSANs[{index}]")), problem)
        })
    });
    let port = port(&at("port"), raw.port)?;
    if [CONTROLLER_MANAGER_PORT, SCHEDULER_PORT].contains(&port) {
        let problem = format!("{port} is a port of another component in the same pod");
        return Err(SpecError::invalid(at("port"), problem));
    }
    Ok(Network {
        address: address(&at("address"), raw.address.as_deref())?,
        port,
        sans: sans.collect::<Result<_, _>>()?,
        service_cidr,
        pod_cidr,
        dns_service_ips: dns(&at("dnsServiceIPs"), &raw.dns_service_ips, service_cidr)?,
        cluster_domain: raw.cluster_domain.clone(),
    })
}

/// The API server takes at most 20 bits of addresses, and the tenth must exist for DNS.
fn check_service_range(field: &str, range: Cidr) -> Result<(), SpecError> {
    let width = if range.is_ipv4() { 32 } else { 128 };
    let bits = width - range.prefix_len();
    if (5..=20).contains(&bits) {
        return Ok(());
    }
    let problem = format!(
        "{range} has the wrong size: use a prefix from /{} to /{}",
        width - 20,
        width - 5
    );
    Err(SpecError::invalid(field, problem))
}

fn dns(field: &str, raw: &[String], range: Cidr) -> Result<Vec<IpAddr>, SpecError> {
    if raw.is_empty() {
        let base = range.network();
        // The tenth address of an IPv4 range; the one that ends in `::10` of an IPv6 range.
        let step = if base.is_ipv4() { 10 } else { 16 };
        return Ok(vec![offset(base, step)]);
    }
    let parse = |(index, text): (usize, &String)| {
        let field = format!("{field}[{index}]");
        let address: IpAddr = text.parse().map_err(|_| {
            SpecError::invalid(field.as_str(), format!("{text:?} is not an IP address"))
        })?;
        if range.contains(address) {
            return Ok(address);
        }
        Err(SpecError::invalid(
            field,
            format!("{address} is not in serviceCidr {range}"),
        ))
    };
    raw.iter().enumerate().map(parse).collect()
}

/// Ranges are checked to be large enough before.
fn offset(base: IpAddr, step: u8) -> IpAddr {
    match base {
        IpAddr::V4(base) => Ipv4Addr::from(u32::from(base).saturating_add(step.into())).into(),
        IpAddr::V6(base) => Ipv6Addr::from(u128::from(base).saturating_add(step.into())).into(),
    }
}

/// How large the part of the pod range is that each node gets, where the controller manager's own choice
/// (/24 and /64) does not fit: it gives out at most 16 bits of nodes.
pub(crate) fn node_mask(pods: Cidr) -> Option<u8> {
    let usual = usual_node_mask(pods);
    let largest = pods.prefix_len().saturating_add(16);
    (largest < usual).then_some(largest)
}

fn usual_node_mask(pods: Cidr) -> u8 {
    if pods.is_ipv4() { 24 } else { 64 }
}

/// A pod range from which no node could be given its part keeps the controller manager from starting.
pub(super) fn check_node_ranges(network: &Network, flags: &Flags) -> Result<(), SpecError> {
    let pods = network.pod_cidr;
    let usual = usual_node_mask(pods);
    let chosen = flags
        .iter()
        .any(|flag| flag.name().starts_with("node-cidr-mask-size"));
    if chosen || pods.prefix_len() <= usual {
        return Ok(());
    }
    let problem = format!(
        "{pods} is smaller than the /{usual} that a single node gets: use a larger range, or the flag --node-cidr-mask-size of the controller manager"
    );
    Err(SpecError::invalid("spec.networkProfile.podCidr", problem))
}

/// Reads the Service.
pub(super) fn service(
    spec: &TenantControlPlaneSpec,
    network: &Network,
    konnectivity: Option<&Konnectivity>,
) -> Result<ServiceSettings, SpecError> {
    let (service, profile) = (&spec.control_plane.service, &spec.network_profile);
    let exposure = exposure(service.service_type, profile)?;
    let external =
        profile.allow_address_as_external_ip && !matches!(exposure, Exposure::LoadBalancer { .. });
    let ports = &service.additional_ports;
    let mut taken = BTreeSet::from([("TCP", network.port)]);
    taken.extend(konnectivity.map(|tunnel| ("TCP", tunnel.port)));
    let port = |(index, raw): (
        usize,
        &butler_api::steward::tenant_control_plane::exposure::AdditionalPort,
    )| {
        let field = format!("spec.controlPlane.service.additionalPorts[{index}]");
        if [names::API_SERVER, names::KONNECTIVITY_SERVER].contains(&raw.name.as_str()) {
            let problem = format!("{:?} is used by the control plane itself", raw.name);
            return Err(SpecError::invalid(format!("{field}.name"), problem));
        }
        let protocol = match raw.protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        };
        let number = self::port(&format!("{field}.port"), raw.port)?;
        if !taken.insert((protocol, number)) {
            let problem =
                format!("{protocol} port {number} is used by another port of the Service");
            return Err(SpecError::invalid(format!("{field}.port"), problem));
        }
        Ok(ServicePort {
            name: Some(raw.name.clone()),
            protocol: Some(protocol.to_owned()),
            app_protocol: raw.app_protocol.clone(),
            port: number.into(),
            target_port: Some(raw.target_port.clone()),
            ..ServicePort::default()
        })
    };
    Ok(ServiceSettings {
        exposure,
        external_ips: network.address.into_iter().filter(|_| external).collect(),
        metadata: pods::metadata(service.additional_metadata.as_ref()),
        ports: ports
            .iter()
            .enumerate()
            .map(port)
            .collect::<Result<_, _>>()?,
    })
}

fn exposure(kind: ServiceType, profile: &NetworkProfile) -> Result<Exposure, SpecError> {
    Ok(match kind {
        ServiceType::LoadBalancer => {
            let ranges = profile.load_balancer_source_ranges.iter().enumerate();
            let read = |(index, text): (usize, &String)| {
                cidr(
                    &format!("spec.networkProfile.loadBalancerSourceRanges[{index}]"),
                    text,
                )
            };
            Exposure::LoadBalancer {
                class: profile.load_balancer_class.clone(),
                source_ranges: ranges.map(read).collect::<Result<_, _>>()?,
            }
        }
        ServiceType::NodePort => Exposure::NodePort,
        ServiceType::ClusterIP => Exposure::ClusterIp,
    })
}

fn cidr(field: &str, text: &str) -> Result<Cidr, SpecError> {
    text.parse()
        .map_err(|error| SpecError::invalid(field, error))
}

fn address(field: &str, text: Option<&str>) -> Result<Option<IpAddr>, SpecError> {
    let read = |text: &str| {
        text.parse::<IpAddr>()
            .map_err(|_| SpecError::invalid(field, format!("{text:?} is not an IP address")))
    };
    text.filter(|text| !text.is_empty()).map(read).transpose()
}

/// Reads a port.
pub(super) fn port(field: &str, number: i32) -> Result<u16, SpecError> {
    let port = u16::try_from(number).ok().filter(|port| *port != 0);
    port.ok_or_else(|| SpecError::invalid(field, format!("{number} is not a port from 1 to 65535")))
}

/// A port as the API writes it.
pub(crate) fn target(port: u16) -> IntOrString {
    IntOrString::Int(port.into())
}
