//! `AddressRange`: consecutive addresses, from a first to a last one.

use std::{
    fmt,
    net::{AddrParseError, IpAddr},
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Cidr, cidr::CidrError};

/// Addresses of one family from `start` to `end`, both included, such as `10.40.1.0-10.40.1.50`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange {
    start: IpAddr,
    end: IpAddr,
}

/// Why two addresses or a text are no range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressRangeError {
    /// One end is no address.
    #[error("{text:?} is not an IP address: write a range such as 10.40.1.0-10.40.1.50")]
    Address {
        /// What was written.
        text: String,
        /// What the parser found.
        #[source]
        source: AddrParseError,
    },
    /// Neither two addresses nor a network.
    #[error("{text:?} is not a range: write 10.40.1.0-10.40.1.50 or 10.40.1.0/26")]
    Malformed {
        /// What was written.
        text: String,
        /// Why it is no network.
        #[source]
        source: CidrError,
    },
    /// One end is IPv4, the other IPv6.
    #[error("{start} and {end} are of different families: use two IPv4 or two IPv6 addresses")]
    Families {
        /// First address.
        start: IpAddr,
        /// Last address.
        end: IpAddr,
    },
    /// The last address comes before the first.
    #[error("{start} comes after {end}: write the lower address first")]
    Order {
        /// First address.
        start: IpAddr,
        /// Last address.
        end: IpAddr,
    },
}

impl AddressRange {
    /// The range from `start` to `end`, both included.
    pub fn new(start: IpAddr, end: IpAddr) -> Result<Self, AddressRangeError> {
        if start.is_ipv4() != end.is_ipv4() {
            Err(AddressRangeError::Families { start, end })
        } else if start > end {
            Err(AddressRangeError::Order { start, end })
        } else {
            Ok(Self { start, end })
        }
    }

    /// The range between two addresses as people write them.
    pub fn parse(start: &str, end: &str) -> Result<Self, AddressRangeError> {
        let address = |text: &str| {
            text.trim()
                .parse()
                .map_err(|source| AddressRangeError::Address {
                    text: text.into(),
                    source,
                })
        };
        Self::new(address(start)?, address(end)?)
    }

    /// First address.
    pub const fn start(self) -> IpAddr {
        self.start
    }

    /// Last address.
    pub const fn end(self) -> IpAddr {
        self.end
    }

    /// How many addresses the range has; all of IPv6 counts as one less than it is.
    pub fn size(self) -> u128 {
        (number(self.end) - number(self.start)).saturating_add(1)
    }

    /// Whether the address lies in the range.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.start.is_ipv4() && (self.start..=self.end).contains(&address)
    }

    /// Whether an address lies in both ranges.
    pub fn overlaps(self, other: Self) -> bool {
        self.start.is_ipv4() == other.start.is_ipv4()
            && self.start <= other.end
            && other.start <= self.end
    }
}

/// The address as a number, within its family.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

impl From<Cidr> for AddressRange {
    fn from(cidr: Cidr) -> Self {
        Self {
            start: cidr.network(),
            end: cidr.last(),
        }
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some((start, end)) = text.split_once('-') {
            return Self::parse(start, end);
        }
        let network: Result<Cidr, _> = text.parse();
        network
            .map(Self::from)
            .map_err(|source| AddressRangeError::Malformed {
                text: text.into(),
                source,
            })
    }
}

impl TryFrom<String> for AddressRange {
    type Error = AddressRangeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<AddressRange> for String {
    fn from(range: AddressRange) -> Self {
        range.to_string()
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().unwrap()
    }

    #[test]
    fn both_spellings_give_the_same_range() {
        assert_eq!(range("10.40.1.0-10.40.1.63"), range("10.40.1.0/26"));
        assert_eq!(range("10.40.1.0-10.40.1.50").size(), 51);
        assert_eq!(range("fd00::1-fd00::1").size(), 1);
        assert_eq!(range("::/0").size(), u128::MAX);
    }

    #[test]
    fn ranges_that_share_their_last_and_first_address_overlap() {
        assert!(range("10.0.0.1-10.0.0.9").overlaps(range("10.0.0.9-10.0.0.12")));
        assert!(!range("10.0.0.1-10.0.0.9").overlaps(range("10.0.0.10-10.0.0.12")));
        assert!(!range("0.0.0.0/0").overlaps(range("::/0")));
    }

    #[test]
    fn a_range_holds_its_ends_and_nothing_of_the_other_family() {
        let pool = range("10.0.0.1-10.0.0.9");
        assert!(pool.contains(pool.start()) && pool.contains(pool.end()));
        assert!(!pool.contains("10.0.0.10".parse().unwrap()));
        assert!(!pool.contains("::a00:5".parse().unwrap()));
    }

    #[test]
    fn a_bad_range_is_refused_with_what_would_be_right() {
        for (text, says) in [
            ("10.0.0.9-10.0.0.1", "write the lower address first"),
            ("9.255.255.255-fd00::1", "different families"),
            ("10.0.0.1-10.0.0.300", "is not an IP address"),
            ("10.0.0.1", "10.40.1.0-10.40.1.50 or 10.40.1.0/26"),
            ("10.0.0.1/24", "is not a range"),
            ("", "is not a range"),
        ] {
            let error = text.parse::<AddressRange>().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    proptest! {
        #[test]
        fn every_range_reads_back_as_it_was_written(a: std::net::IpAddr, b: std::net::IpAddr) {
            if let Ok(range) = AddressRange::new(a, b) {
                prop_assert_eq!(range.to_string().parse(), Ok(range));
                prop_assert!(range.contains(a) && range.contains(b));
            }
        }
    }
}
