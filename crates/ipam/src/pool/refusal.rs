//! What a pool answers when it does not give, or finds something wrong.

use std::net::IpAddr;

use jiff::Timestamp;

/// Why a request gets nothing. The pool is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// More than the pool will ever have.
    #[error(
        "{asked} addresses were asked for and the pool has {total} in all: ask for fewer, or enlarge the pool"
    )]
    TooMany {
        /// How many were asked for.
        asked: u128,
        /// How many the pool has.
        total: u128,
    },
    /// Not enough are free.
    #[error(
        "{asked} addresses were asked for and {free} are free ({resting} more rest before reuse)"
    )]
    Exhausted {
        /// How many were asked for.
        asked: u128,
        /// How many are free.
        free: u128,
        /// How many become free by waiting.
        resting: u128,
    },
    /// Enough are free, but not side by side.
    #[error(
        "{asked} addresses side by side were asked for and the longest free run has {largest} (of {free} free): ask \
         for fewer, or allow several ranges"
    )]
    Fragmented {
        /// How many were asked for.
        asked: u128,
        /// How many are free.
        free: u128,
        /// How many are free side by side.
        largest: u128,
    },
    /// A pinned address does not belong to the pool.
    #[error("{address} does not lie inside the pool")]
    Outside {
        /// The address.
        address: IpAddr,
    },
    /// A pinned address is not for tenants.
    #[error(
        "{address} is not for tenants: it is reserved, outside the tenants' ranges, or the network, broadcast or gateway address"
    )]
    Closed {
        /// The address.
        address: IpAddr,
    },
    /// A pinned address is in use.
    #[error("{address} is in use")]
    Held {
        /// The address.
        address: IpAddr,
    },
    /// A pinned address was given back a moment ago.
    #[error("{address} was given back and rests until {until}")]
    Resting {
        /// The address.
        address: IpAddr,
        /// Until when.
        until: Timestamp,
    },
}

/// Something that is wrong with addresses that somebody is said to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clash {
    /// Somebody else holds this one too.
    Held(IpAddr),
    /// This one is not open to tenants, or not any more.
    Closed(IpAddr),
}
