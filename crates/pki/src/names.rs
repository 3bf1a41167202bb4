//! What a serving certificate is valid for: DNS names and addresses, in no particular order.

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use butler_api::types::Cidr;
use serde::Serialize;
use thiserror::Error;

/// One subject alternative name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "String")]
pub enum AltName {
    /// A DNS name in lower case, or a wildcard such as `*.example.com`.
    Dns(String),
    /// An address.
    Ip(IpAddr),
}

/// Text that is neither an address nor a DNS name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} cannot be in a certificate: write an IP address or a DNS name without scheme and port, such as 10.40.1.100 or api.example.com"
)]
pub struct AltNameError(pub String);

impl FromStr for AltName {
    type Err = AltNameError;

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
        if name.len() > 253 || numeric || !host.split('.').all(is_label) {
            return Err(AltNameError(text.to_owned()));
        }
        Ok(Self::Dns(name))
    }
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

impl fmt::Display for AltName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => formatter.write_str(name),
            Self::Ip(address) => address.fmt(formatter),
        }
    }
}

impl From<AltName> for String {
    fn from(name: AltName) -> Self {
        name.to_string()
    }
}

impl From<IpAddr> for AltName {
    fn from(address: IpAddr) -> Self {
        Self::Ip(address.to_canonical())
    }
}

/// All names of a certificate. A set: the order in which people list them is no reason to make it anew.
pub type AltNames = BTreeSet<AltName>;

/// What decides the names of an API server.
#[derive(Clone, Copy, Debug)]
pub struct ServerNames<'a> {
    /// Name of the control plane, which is also the name of its Service.
    pub tenant: &'a str,
    /// Namespace of the control plane.
    pub namespace: &'a str,
    /// DNS domain of the tenant cluster, such as `cluster.local`.
    pub cluster_domain: &'a str,
    /// DNS domain of the cluster that the control plane runs in.
    pub management_domain: &'a str,
    /// Service ranges of the tenant cluster; pods reach the API at the first address of each.
    pub service_ranges: &'a [Cidr],
    /// Advertised addresses, and the host that clients are told.
    pub endpoints: &'a [AltName],
    /// What people add.
    pub extra: &'a [AltName],
}

impl ServerNames<'_> {
    /// The names of kubeadm, those of the Service, the loopback, the endpoints and the extra ones.
    ///
    /// Names that cannot stand in a certificate are left out: the API refuses such objects.
    pub fn collect(self) -> AltNames {
        let Self {
            tenant,
            namespace,
            cluster_domain,
            management_domain,
            service_ranges,
            endpoints,
            extra,
        } = self;
        let given = [
            "kubernetes".to_owned(),
            "kubernetes.default".to_owned(),
            "kubernetes.default.svc".to_owned(),
            format!("kubernetes.default.svc.{cluster_domain}"),
            "localhost".to_owned(),
            tenant.to_owned(),
            format!("{tenant}.{namespace}.svc"),
            format!("{tenant}.{namespace}.svc.{management_domain}"),
        ];
        given
            .iter()
            .filter_map(|name| name.parse().ok())
            .chain([AltName::Ip(Ipv4Addr::LOCALHOST.into())])
            .chain(service_ranges.iter().map(|range| first_host(*range).into()))
            .chain(endpoints.iter().cloned())
            .chain(extra.iter().cloned())
            .collect()
    }
}

/// The address of the `kubernetes` Service: the one after the network's own.
pub fn first_host(range: Cidr) -> IpAddr {
    let next = match range.network() {
        IpAddr::V4(network) => Ipv4Addr::from_bits(network.to_bits().saturating_add(1)).into(),
        IpAddr::V6(network) => Ipv6Addr::from_bits(network.to_bits().saturating_add(1)).into(),
    };
    if range.contains(next) {
        next
    } else {
        range.network()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_addresses_are_told_apart() {
        let name = |text: &str| text.parse::<AltName>().unwrap();
        assert_eq!(name("10.0.0.1"), AltName::Ip([10, 0, 0, 1].into()));
        assert_eq!(name("::ffff:10.0.0.1"), name("10.0.0.1"));
        assert_eq!(
            name("API.Example.com"),
            AltName::Dns("api.example.com".into())
        );
        assert_eq!(name("*.example.com").to_string(), "*.example.com");
    }

    #[test]
    fn what_is_no_name_is_refused_with_an_example() {
        for text in [
            "",
            "a b",
            "https://a.example",
            "a.example:6443",
            "10.0.0.256",
            "-a",
            "*",
            "a..b",
            "ä",
        ] {
            let error = text.parse::<AltName>().unwrap_err();
            assert!(error.to_string().contains("such as 10.40.1.100"), "{text}");
        }
    }

    #[test]
    fn an_api_server_answers_to_the_names_of_kubeadm_and_of_its_service() {
        let names = ServerNames {
            tenant: "blue",
            namespace: "team-a",
            cluster_domain: "tenant.example",
            management_domain: "mgmt.example",
            service_ranges: &[
                "10.96.0.0/16".parse().unwrap(),
                "fd00::/108".parse().unwrap(),
            ],
            endpoints: &["192.0.2.10".parse().unwrap()],
            extra: &["api.example.com".parse().unwrap()],
        };
        let texts: Vec<String> = names.collect().iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "api.example.com",
                "blue",
                "blue.team-a.svc",
                "blue.team-a.svc.mgmt.example",
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                "kubernetes.default.svc.tenant.example",
                "localhost",
                "10.96.0.1",
                "127.0.0.1",
                "192.0.2.10",
                "fd00::1",
            ]
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fail_and_what_it_reads_it_writes(text in ".{0,80}") {
            if let Ok(name) = text.parse::<AltName>() {
                prop_assert_eq!(name.to_string().parse(), Ok(name));
            }
        }
    }
}
