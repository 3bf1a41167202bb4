//! What is asked for inside a tenant cluster, as checked values. Knows no custom resource.

use std::{fmt, net::IpAddr};

use butler_api::types::{Cidr, KubeVersion};
use serde_json::Value;

/// Everything that the objects inside one tenant cluster depend on.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantSettings {
    /// Name of the cluster, as `kubeadm` and kubeconfigs show it.
    pub cluster_name: String,
    /// Release of the control plane; 1.31 or later, which is where kubeadm's `v1beta4` begins.
    pub version: KubeVersion,
    /// DNS domain of the cluster.
    pub cluster_domain: String,
    /// Addresses of pods.
    pub pod_cidr: Cidr,
    /// Addresses of Services.
    pub service_cidr: Cidr,
    /// Addresses of the DNS Service; empty means the tenth of the Services' range.
    pub dns_service_ips: Vec<IpAddr>,
    /// Where nodes reach the API server.
    pub endpoint: ControlPlaneEndpoint,
    /// Certificate of the tenant's authority, in PEM.
    pub ca_certificate: String,
    /// What kubelets are told.
    pub kubelet: KubeletSettings,
    /// `CoreDNS`; `None` turns it off and removes it.
    pub core_dns: Option<AddonImage>,
    /// kube-proxy; `None` turns it off and removes it.
    pub kube_proxy: Option<AddonImage>,
    /// Agents of the tunnel to the nodes; `None` turns them off and removes them.
    pub konnectivity: Option<KonnectivityAgents>,
    /// Kinds of writes that the cluster refuses for now; `None` refuses none.
    pub refused_writes: Option<RefusedWrites>,
    /// Where images come from, such as `registry.k8s.io`.
    pub registry: String,
}

/// Host and port of an API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlaneEndpoint {
    /// Name or address, an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for ControlPlaneEndpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(formatter, "[{host}]:{port}")
        } else {
            write!(formatter, "{host}:{port}")
        }
    }
}

/// What kubelets are told beyond what kubeadm tells every kubelet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KubeletSettings {
    /// Who manages cgroups; `None` is kubeadm's choice, systemd.
    pub cgroup_driver: Option<CgroupDriver>,
    /// Changes to the finished configuration, in order.
    pub patches: json_patch::Patch,
}

/// Who manages cgroups on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupDriver {
    /// systemd.
    Systemd,
    /// The kubelet itself.
    Cgroupfs,
}

impl CgroupDriver {
    /// The word of the kubelet's configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Cgroupfs => "cgroupfs",
        }
    }
}

/// Where an addon's image comes from; each part can be given without the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddonImage {
    /// Repository without the image's own name.
    pub repository: Option<String>,
    /// Tag.
    pub tag: Option<String>,
}

/// Kinds of writes that are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedWrites {
    /// New objects.
    pub creation: bool,
    /// Changes.
    pub update: bool,
    /// Deletions.
    pub deletion: bool,
}

/// The ends of the tunnel that run in the tenant cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct KonnectivityAgents {
    /// Image with its tag.
    pub image: String,
    /// What runs them.
    pub mode: AgentMode,
    /// Host of the tunnel's other end.
    pub server_host: String,
    /// Port of the tunnel's other end.
    pub server_port: u16,
    /// Whether they run in their node's network.
    pub host_network: bool,
    /// Taints they tolerate.
    pub tolerations: Vec<Value>,
    /// More flags; a flag that is given here wins.
    pub extra_args: Vec<String>,
}

/// What runs the tunnel's agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentMode {
    /// One on each node.
    DaemonSet,
    /// This many.
    Deployment(u16),
}

impl TenantSettings {
    /// The addresses that pods ask for names: those given, or the tenth of the Services' range.
    pub fn dns_addresses(&self) -> Vec<IpAddr> {
        if self.dns_service_ips.is_empty() {
            vec![tenth_address(self.service_cidr)]
        } else {
            self.dns_service_ips.clone()
        }
    }
}

/// The tenth address of a range, where kubeadm puts the DNS Service.
pub fn tenth_address(range: Cidr) -> IpAddr {
    match range.network() {
        IpAddr::V4(first) => IpAddr::V4(u32::from(first).saturating_add(10).into()),
        IpAddr::V6(first) => IpAddr::V6(u128::from(first).saturating_add(10).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dns_address_is_the_tenth_of_the_range() {
        let tenth = |range: &str| tenth_address(range.parse().unwrap()).to_string();
        assert_eq!(tenth("10.96.0.0/16"), "10.96.0.10");
        assert_eq!(tenth("fd00:10:96::/112"), "fd00:10:96::a");
    }

    #[test]
    fn an_ipv6_endpoint_is_written_with_brackets() {
        let endpoint = |host: &str| {
            ControlPlaneEndpoint {
                host: host.into(),
                port: 6443,
            }
            .to_string()
        };
        assert_eq!(endpoint("fd00::1"), "[fd00::1]:6443");
        assert_eq!(endpoint("api.example.com"), "api.example.com:6443");
    }
}
