//! Addresses as numbers: 32 bits for IPv4, 128 for IPv6.

use std::{
    fmt::Debug,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// An address as a number of its family.
pub trait Number: Copy + Ord + Debug {
    /// Orders runs by how many addresses they have, then by their first.
    type Key: Copy + Ord + Debug;
    /// The lowest address there is.
    const MIN: Self;

    /// The key of a run whose last address is `span` above its first.
    fn key(span: Self, start: Self) -> Self::Key;
    /// Span and first address of a key.
    fn of_key(key: Self::Key) -> (Self, Self);
    /// The address after this one.
    fn next(self) -> Option<Self>;
    /// The address before this one.
    fn previous(self) -> Option<Self>;
    /// The address `span` above this one; the caller knows that there is one.
    #[must_use]
    fn plus(self, span: Self) -> Self;
    /// How far this address lies above `lower`; the caller knows that it does.
    #[must_use]
    fn minus(self, lower: Self) -> Self;
    /// The same number, wide.
    fn wide(self) -> u128;
    /// A wide number of this family, or nothing if it has more bits.
    fn narrow(wide: u128) -> Option<Self>;
}

impl Number for u32 {
    // One word: comparing two keys is one instruction.
    type Key = u64;
    const MIN: Self = 0;

    fn key(span: Self, start: Self) -> u64 {
        (u64::from(span) << 32) | u64::from(start)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the key")]
    fn of_key(key: u64) -> (Self, Self) {
        ((key >> 32) as Self, key as Self)
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }

    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }

    fn plus(self, span: Self) -> Self {
        self.wrapping_add(span)
    }

    fn minus(self, lower: Self) -> Self {
        self.wrapping_sub(lower)
    }

    fn wide(self) -> u128 {
        self.into()
    }

    fn narrow(wide: u128) -> Option<Self> {
        Self::try_from(wide).ok()
    }
}

impl Number for u128 {
    type Key = (Self, Self);
    const MIN: Self = 0;

    fn key(span: Self, start: Self) -> Self::Key {
        (span, start)
    }

    fn of_key(key: Self::Key) -> (Self, Self) {
        key
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }

    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }

    fn plus(self, span: Self) -> Self {
        self.wrapping_add(span)
    }

    fn minus(self, lower: Self) -> Self {
        self.wrapping_sub(lower)
    }

    fn wide(self) -> Self {
        self
    }

    fn narrow(wide: Self) -> Option<Self> {
        Some(wide)
    }
}

/// The address as a number within its family.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

/// The address of a number; a number of more than 32 bits is always IPv6.
pub(crate) fn address(number: u128, v4: bool) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if v4 => IpAddr::V4(Ipv4Addr::from(number)),
        _ => IpAddr::V6(Ipv6Addr::from(number)),
    }
}
