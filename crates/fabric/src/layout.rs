//! Which addresses of the platform's range are for what.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The addresses of one platform, all derived from one range.
///
/// The first half is for machines: the host is its first address and the gateway its last. The third quarter is for
/// load balancers. It is no subnet of anything, so its addresses are always routed and never asked for by ARP. The
/// last address but one is the platform's own services: registry and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Ipv4Net", into = "Ipv4Net")]
pub struct Layout {
    range: Ipv4Net,
}

/// Why a range cannot carry a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// It has host bits set.
    #[error("{} has host bits set: the network is {}", .0, .0.trunc())]
    HostBits(Ipv4Net),
    /// It is too small or needlessly large.
    #[error("{0} cannot carry a platform: it must be between a /16 and a /26")]
    Size(Ipv4Net),
    /// It is not private, so that real hosts could be cut off.
    #[error(
        "{0} is not a private range: take one from 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"
    )]
    Public(Ipv4Net),
}

impl Layout {
    /// A layout for a range such as `10.40.0.0/24`.
    pub fn new(range: Ipv4Net) -> Result<Self, LayoutError> {
        if range.trunc() != range {
            return Err(LayoutError::HostBits(range));
        }
        if !(16..=26).contains(&range.prefix_len()) {
            return Err(LayoutError::Size(range));
        }
        if !(range.network().is_private() && range.broadcast().is_private()) {
            return Err(LayoutError::Public(range));
        }
        Ok(Self { range })
    }

    /// Everything.
    pub fn range(self) -> Ipv4Net {
        self.range
    }

    /// The host's own address.
    pub fn host(self) -> Ipv4Addr {
        self.at(1)
    }

    /// Machines, the host and the gateway.
    pub fn machines(self) -> Ipv4Net {
        self.part(1, 0)
    }

    /// The addresses machines can get.
    pub fn machine_addresses(self) -> impl Iterator<Item = Ipv4Addr> {
        let gateway = self.gateway();
        let hosts = self.machines().hosts();
        hosts.skip(1).filter(move |address| *address != gateway)
    }

    /// Where every machine sends what is not for itself.
    pub fn gateway(self) -> Ipv4Addr {
        self.at(self.size() / 2 - 2)
    }

    /// Addresses of load balancers.
    pub fn balancers(self) -> Ipv4Net {
        self.part(2, 2)
    }

    /// The registry and the resolver of the platform.
    pub fn services(self) -> Ipv4Addr {
        self.at(self.size() - 2)
    }

    fn size(self) -> u32 {
        1 << (32 - self.range.prefix_len())
    }

    fn at(self, offset: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.range.network().to_bits() + offset)
    }

    /// The `index`-th of `2^bits` equal parts.
    fn part(self, bits: u8, index: u32) -> Ipv4Net {
        let length = self.range.prefix_len() + bits;
        let start = self.at(index << (32 - length));
        Ipv4Net::new_assert(start, length)
    }
}

impl TryFrom<Ipv4Net> for Layout {
    type Error = LayoutError;

    fn try_from(range: Ipv4Net) -> Result<Self, LayoutError> {
        Self::new(range)
    }
}

impl From<Layout> for Ipv4Net {
    fn from(layout: Layout) -> Self {
        layout.range
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_range_is_cut_as_documented() {
        let layout = Layout::new("10.40.0.0/24".parse().unwrap()).unwrap();
        assert_eq!(layout.host().to_string(), "10.40.0.1");
        assert_eq!(layout.machines().to_string(), "10.40.0.0/25");
        assert_eq!(layout.gateway().to_string(), "10.40.0.126");
        assert_eq!(layout.balancers().to_string(), "10.40.0.128/26");
        assert_eq!(layout.services().to_string(), "10.40.0.254");
        let machines: Vec<_> = layout.machine_addresses().collect();
        assert_eq!(machines.len(), 124);
        assert!(!machines.contains(&layout.host()) && !machines.contains(&layout.gateway()));
    }

    #[test]
    fn ranges_that_cannot_work_are_refused_with_a_reason() {
        let refused = |range: &str| Layout::new(range.parse().unwrap()).unwrap_err().to_string();
        assert!(refused("10.40.0.5/24").contains("the network is 10.40.0.0/24"));
        assert!(refused("10.40.0.0/28").contains("between a /16 and a /26"));
        assert!(refused("8.8.8.0/24").contains("not a private range"));
    }
}
