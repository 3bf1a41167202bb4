//! Which addresses of a pool may be handed out at all.

use std::net::IpAddr;

use butler_api::types::{AddressRange, Cidr};

use crate::number::{address, number};

/// First and last address, both included.
pub(crate) type Span = (u128, u128);

/// The addresses that tenants may get, and what the others are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    cidr: Cidr,
    /// Sorted, apart from each other.
    open: Vec<Span>,
    reserved: u128,
    unmanaged: Vec<AddressRange>,
}

/// Why a pool cannot be laid out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A reserved range is not part of the pool.
    #[error(
        "reserved range {reserved} does not lie inside the pool {pool}: take it out, or enlarge the pool"
    )]
    Reserved {
        /// The range.
        reserved: Cidr,
        /// The pool.
        pool: Cidr,
    },
    /// A range for tenants is not part of the pool.
    #[error(
        "range {range} does not lie inside the pool {pool}: change the range, or enlarge the pool"
    )]
    Outside {
        /// The range.
        range: AddressRange,
        /// The pool.
        pool: Cidr,
    },
    /// Two ranges for tenants share addresses, or are not in order.
    #[error("range {second} must come after range {first} and share no address with it")]
    Order {
        /// The range that comes first.
        first: AddressRange,
        /// The range after it.
        second: AddressRange,
    },
    /// The gateway is not part of the pool.
    #[error("gateway {gateway} does not lie inside the pool {pool}")]
    Gateway {
        /// The gateway.
        gateway: IpAddr,
        /// The pool.
        pool: Cidr,
    },
    /// Nothing is left for tenants.
    #[error("no address of {pool} is left for tenants: its ranges are reserved or cannot be used")]
    Nothing {
        /// The pool.
        pool: Cidr,
    },
}

impl Layout {
    /// Lays out a pool. No ranges means all of it. The network address, the broadcast address of IPv4 and the
    /// gateway are never open, whatever the ranges say.
    pub fn new(
        pool: Cidr,
        reserved: &[Cidr],
        ranges: &[AddressRange],
        gateway: Option<IpAddr>,
    ) -> Result<Self, LayoutError> {
        let whole = AddressRange::from(pool);
        for cidr in reserved {
            if !pool.contains_cidr(*cidr) {
                let reserved = *cidr;
                return Err(LayoutError::Reserved { reserved, pool });
            }
        }
        for range in ranges {
            if !whole.contains(range.start()) || !whole.contains(range.end()) {
                let range = *range;
                return Err(LayoutError::Outside { range, pool });
            }
        }
        for (first, second) in ranges.iter().zip(ranges.iter().skip(1)) {
            if first.end() >= second.start() {
                let (first, second) = (*first, *second);
                return Err(LayoutError::Order { first, second });
            }
        }
        if let Some(gateway) = gateway.filter(|gateway| !pool.contains(*gateway)) {
            return Err(LayoutError::Gateway { gateway, pool });
        }
        let reserved = joined(
            reserved
                .iter()
                .map(|cidr| span(AddressRange::from(*cidr)))
                .collect(),
        );
        let managed: Vec<Span> = if ranges.is_empty() {
            vec![span(whole)]
        } else {
            ranges.iter().copied().map(span).collect()
        };
        let closed = joined(
            closed(pool)
                .into_iter()
                .chain(gateway)
                .map(|ip| (number(ip), number(ip)))
                .collect(),
        );
        let open = without(&without(&managed, &reserved), &closed);
        if open.is_empty() {
            return Err(LayoutError::Nothing { pool });
        }
        let unmanaged = without(&without(&[span(whole)], &reserved), &managed);
        Ok(Self {
            cidr: pool,
            open,
            reserved: reserved
                .iter()
                .copied()
                .map(size)
                .fold(0, u128::saturating_add),
            unmanaged: unmanaged
                .into_iter()
                .filter_map(|part| range(part, pool.is_ipv4()))
                .collect(),
        })
    }

    /// The whole range of the pool.
    pub fn cidr(&self) -> Cidr {
        self.cidr
    }

    /// How many addresses the whole range has.
    pub fn size(&self) -> u128 {
        AddressRange::from(self.cidr).size()
    }

    /// How many addresses tenants may get.
    pub fn total(&self) -> u128 {
        self.open
            .iter()
            .copied()
            .map(size)
            .fold(0, u128::saturating_add)
    }

    /// How many addresses are reserved.
    pub fn reserved(&self) -> u128 {
        self.reserved
    }

    /// Parts of the pool that are neither reserved nor for tenants.
    pub fn unmanaged(&self) -> &[AddressRange] {
        &self.unmanaged
    }

    /// Whether some address is open in both.
    pub fn meets(&self, other: &Self) -> bool {
        self.is_v4() == other.is_v4()
            && self.open.iter().any(|span| !other.inside(*span).is_empty())
    }

    /// Whether tenants may get this address.
    pub fn is_open(&self, ip: IpAddr) -> bool {
        self.cidr.contains(ip) && !self.inside((number(ip), number(ip))).is_empty()
    }

    pub(crate) fn is_v4(&self) -> bool {
        self.cidr.is_ipv4()
    }

    pub(crate) fn open(&self) -> &[Span] {
        &self.open
    }

    /// The open parts of a span.
    pub(crate) fn inside(&self, (start, end): Span) -> Vec<Span> {
        let first = self.open.partition_point(|(_, last)| *last < start);
        let meeting = self
            .open
            .iter()
            .skip(first)
            .take_while(|(from, _)| *from <= end);
        meeting
            .map(|(from, to)| ((*from).max(start), (*to).min(end)))
            .collect()
    }
}

/// Addresses that mean the network or everybody in it. A link of two, and a single address, have neither.
fn closed(pool: Cidr) -> Vec<IpAddr> {
    match (pool.is_ipv4(), pool.prefix_len()) {
        (true, 31..) | (false, 127..) => Vec::new(),
        (true, _) => vec![pool.network(), pool.last()],
        // The first address of an IPv6 network is that of its routers, all of them.
        (false, _) => vec![pool.network()],
    }
}

pub(crate) fn span(range: AddressRange) -> Span {
    (number(range.start()), number(range.end()))
}

pub(crate) fn range((start, end): Span, v4: bool) -> Option<AddressRange> {
    AddressRange::new(address(start, v4), address(end, v4)).ok()
}

pub(crate) fn size((start, end): Span) -> u128 {
    (end - start).saturating_add(1)
}

/// Every address of a range, lowest first.
pub fn addresses(range: AddressRange) -> impl Iterator<Item = IpAddr> {
    let (start, end) = span(range);
    let v4 = range.start().is_ipv4();
    (start..=end).map(move |number| address(number, v4))
}

/// The network that a range is, if it is one.
pub fn network(range: AddressRange) -> Option<Cidr> {
    let (start, end) = span(range);
    let bits = if range.start().is_ipv4() { 32 } else { 128 };
    // All of IPv6 has no size that fits, and is no claim.
    let size = (end - start).checked_add(1)?;
    if !size.is_power_of_two() || start & (size - 1) != 0 {
        return None;
    }
    let length = bits - size.trailing_zeros();
    format!("{}/{length}", range.start()).parse().ok()
}

/// Sorted, with those that touch made one.
fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::new();
    for (start, end) in spans {
        match joined.last_mut() {
            Some((_, last)) if start <= last.saturating_add(1) => *last = end.max(*last),
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// What of sorted spans is left after sorted holes.
fn without(spans: &[Span], holes: &[Span]) -> Vec<Span> {
    let mut left = Vec::new();
    for (start, end) in spans.iter().copied() {
        let mut next = Some(start);
        for (from, to) in holes
            .iter()
            .copied()
            .filter(|(from, to)| *from <= end && *to >= start)
        {
            if let Some(start) = next.filter(|start| *start < from) {
                left.push((start, from - 1));
            }
            next = to.checked_add(1).filter(|next| *next <= end);
        }
        left.extend(next.map(|start| (start, end)));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unwrap_in_result, reason = "a test fails where it stands")]
    fn layout(pool: &str, reserved: &[&str], ranges: &[&str]) -> Result<Layout, LayoutError> {
        let reserved: Vec<Cidr> = reserved.iter().map(|text| text.parse().unwrap()).collect();
        let ranges: Vec<AddressRange> = ranges.iter().map(|text| text.parse().unwrap()).collect();
        Layout::new(pool.parse().unwrap(), &reserved, &ranges, None)
    }

    #[test]
    fn network_and_broadcast_are_never_open_whatever_the_ranges_say() {
        let whole = layout("10.0.0.0/24", &[], &[]).unwrap();
        assert_eq!((whole.size(), whole.total()), (256, 254));
        let ends = layout(
            "10.0.0.0/24",
            &[],
            &["10.0.0.0-10.0.0.9", "10.0.0.250-10.0.0.255"],
        )
        .unwrap();
        assert_eq!(ends.total(), 9 + 5);
        assert!(!ends.is_open("10.0.0.0".parse().unwrap()));
        assert_eq!(layout("10.0.0.0/31", &[], &[]).unwrap().total(), 2);
        assert_eq!(
            layout("fd00::/64", &[], &[]).unwrap().total(),
            (1 << 64) - 1
        );
        assert_eq!(layout("::/0", &[], &[]).unwrap().total(), u128::MAX);
    }

    #[test]
    fn reserved_ranges_are_cut_out_wherever_they_lie() {
        let cut = layout(
            "10.0.0.0/24",
            &["10.0.0.0/28", "10.0.0.8/29", "10.0.0.64/26"],
            &["10.0.0.10-10.0.0.70", "10.0.0.120-10.0.0.130"],
        )
        .unwrap();
        assert_eq!(cut.reserved(), 16 + 64);
        assert_eq!(cut.total(), 48 + 3);
        let unmanaged: Vec<String> = cut.unmanaged().iter().map(ToString::to_string).collect();
        assert_eq!(unmanaged, ["10.0.0.131-10.0.0.255"]);
    }

    #[test]
    fn a_range_is_a_network_only_when_it_is_aligned_and_complete() {
        let notation = |text: &str| network(text.parse().unwrap()).map(|cidr| cidr.to_string());
        assert_eq!(
            notation("10.0.0.8-10.0.0.15").as_deref(),
            Some("10.0.0.8/29")
        );
        assert_eq!(
            notation("10.0.0.7-10.0.0.7").as_deref(),
            Some("10.0.0.7/32")
        );
        assert_eq!(notation("fd00::-fd00::ffff").as_deref(), Some("fd00::/112"));
        assert_eq!(notation("10.0.0.4-10.0.0.11"), None);
        assert_eq!(notation("10.0.0.8-10.0.0.12"), None);
        let all: Vec<String> = addresses("10.0.0.254-10.0.1.1".parse().unwrap())
            .map(|ip| ip.to_string())
            .collect();
        assert_eq!(all, ["10.0.0.254", "10.0.0.255", "10.0.1.0", "10.0.1.1"]);
    }

    #[test]
    fn the_gateway_is_never_open() {
        let gateway = "10.0.0.1".parse().unwrap();
        let pool = Layout::new("10.0.0.0/24".parse().unwrap(), &[], &[], Some(gateway)).unwrap();
        assert_eq!(pool.total(), 253);
        let elsewhere = "10.9.0.1".parse().unwrap();
        let error = Layout::new("10.0.0.0/24".parse().unwrap(), &[], &[], Some(elsewhere));
        assert!(error.unwrap_err().to_string().contains("gateway 10.9.0.1"));
    }

    #[test]
    fn a_pool_that_cannot_be_laid_out_says_which_part_is_wrong() {
        for (reserved, ranges, says) in [
            (&["10.1.0.0/28"][..], &[][..], "reserved range 10.1.0.0/28"),
            (
                &[],
                &["10.0.0.9-10.0.1.4"],
                "range 10.0.0.9-10.0.1.4 does not lie inside",
            ),
            (
                &[],
                &["10.0.0.9-10.0.0.20", "10.0.0.20-10.0.0.30"],
                "must come after",
            ),
            (&["10.0.0.0/24"], &[], "no address of 10.0.0.0/24 is left"),
        ] {
            let error = layout("10.0.0.0/24", reserved, ranges)
                .unwrap_err()
                .to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
