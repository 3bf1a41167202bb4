//! `Cidr`: a range of addresses written as a network and a prefix length.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An IPv4 or IPv6 network such as `10.244.0.0/16`, with no host bits set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr(IpNet);

/// Why text is no network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CidrError {
    /// Not an address, a slash and a prefix length.
    #[error(
        "{0:?} is not a network range: write an address and a prefix length, such as 10.244.0.0/16"
    )]
    Malformed(String),
    /// An address inside the network instead of its first one.
    #[error("{given} has host bits set: the network is {network}")]
    HostBits {
        /// What was written.
        given: IpNet,
        /// The network it lies in.
        network: IpNet,
    },
}

impl Cidr {
    /// The first address of the network.
    pub fn network(self) -> IpAddr {
        self.0.network()
    }

    /// The last address of the network.
    pub fn last(self) -> IpAddr {
        self.0.broadcast()
    }

    /// How many leading bits all addresses of the network share.
    pub fn prefix_len(self) -> u8 {
        self.0.prefix_len()
    }

    /// Whether this is an IPv4 network.
    pub fn is_ipv4(self) -> bool {
        self.network().is_ipv4()
    }

    /// Whether the address lies in the network.
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// Whether every address of `other` lies in this network.
    pub fn contains_cidr(self, other: Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Whether an address lies in both networks.
    ///
    /// Two networks meet only when one of them holds the other.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains_cidr(other) || other.contains_cidr(self)
    }
}

impl TryFrom<IpNet> for Cidr {
    type Error = CidrError;

    fn try_from(given: IpNet) -> Result<Self, Self::Error> {
        let network = given.trunc();
        if given == network {
            Ok(Self(network))
        } else {
            Err(CidrError::HostBits { given, network })
        }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<IpNet>()
            .map_err(|_| CidrError::Malformed(text.into()))?
            .try_into()
    }
}

impl TryFrom<String> for Cidr {
    type Error = CidrError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> Self {
        cidr.to_string()
    }
}

impl From<Cidr> for IpNet {
    fn from(cidr: Cidr) -> Self {
        cidr.0
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_knows_its_first_and_last_address() {
        let pods = cidr("10.244.0.0/16");
        assert_eq!(pods.network().to_string(), "10.244.0.0");
        assert_eq!(pods.last().to_string(), "10.244.255.255");
        assert_eq!(cidr("fd00::/126").last().to_string(), "fd00::3");
    }

    #[test]
    fn networks_overlap_when_one_holds_the_other() {
        assert!(cidr("10.0.0.0/8").overlaps(cidr("10.96.0.0/12")));
        assert!(cidr("10.96.0.0/12").overlaps(cidr("10.0.0.0/8")));
        assert!(!cidr("10.96.0.0/12").overlaps(cidr("10.244.0.0/16")));
        assert!(!cidr("0.0.0.0/0").overlaps(cidr("::/0")));
    }

    #[test]
    fn host_bits_are_refused_and_the_network_is_named() {
        let error = "10.244.3.1/16".parse::<Cidr>().unwrap_err().to_string();
        assert_eq!(
            error,
            "10.244.3.1/16 has host bits set: the network is 10.244.0.0/16"
        );
    }

    #[test]
    fn text_that_is_no_network_is_refused_with_an_example() {
        for text in [
            "10.244.0.0",
            "10.244.0.0/33",
            "10.244/16",
            "fd00::/129",
            "pods",
            "",
            "/16",
        ] {
            let error = text.parse::<Cidr>().unwrap_err().to_string();
            assert!(error.contains("such as 10.244.0.0/16"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn every_network_reads_back_as_it_was_written(address: std::net::IpAddr, length in 0u8..=128) {
            let length = if address.is_ipv4() { length.min(32) } else { length };
            let network = Cidr::try_from(IpNet::new(address, length).unwrap().trunc()).unwrap();
            prop_assert_eq!(network.to_string().parse(), Ok(network));
            prop_assert!(network.contains(address));
        }
    }
}
