//! The network as data: what there is, or should be, in each namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::Ipv4Addr,
};

use ipnet::Ipv4Net;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Marks the routes that are ours, so that nobody else's are ever touched.
pub const PROTOCOL: u8 = 157;
/// The kernel's number of the main route table.
pub const MAIN: u32 = 254;
/// The host's end of the veth to the router.
pub const HOST_LINK: &str = "butler0";
/// The router's end of it.
pub const UPLINK: &str = "host";
/// A machine's end of its veth.
pub const MACHINE_LINK: &str = "eth0";
/// The name of our nftables table, in every namespace that has one.
pub const FILTER_TABLE: &str = "butler";

/// A network namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Space {
    /// The one the platform was started in. Only what is ours is looked at.
    Host,
    /// The router. All of it is ours.
    Router,
    /// A machine's, by its id. Only its way to the router is looked at.
    Machine(String),
}

/// Everything there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct State {
    /// By namespace. The host is always there; one that is missing does not exist.
    pub spaces: BTreeMap<Space, Content>,
}

/// What is in one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Content {
    /// Links by name.
    pub links: BTreeMap<String, Link>,
    /// Single addresses and the link they are on.
    pub addresses: BTreeSet<Address>,
    /// Routes, where they lead.
    #[serde(serialize_with = "pairs")]
    pub routes: BTreeMap<Destination, Target>,
    /// Which packets look into which table.
    pub rules: BTreeSet<Rule>,
    /// Kernel settings, as paths below `/proc/sys`.
    pub settings: BTreeMap<String, String>,
    /// The packet filter.
    pub filter: Option<Filter>,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// What it is.
    pub kind: LinkKind,
    /// The bridge it is a port of.
    pub bridge: Option<String>,
    /// Whether it is switched on.
    pub up: bool,
}

/// What a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum LinkKind {
    /// The loopback that every namespace has.
    Loopback,
    /// A bridge.
    Bridge,
    /// One end of a veth. Who its peer is follows from its name.
    Pair,
}

/// An address on a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Address {
    /// The link.
    pub link: String,
    /// The address, always alone: a /32.
    pub address: Ipv4Addr,
}

/// What makes a route one of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Destination {
    /// The table.
    pub table: u32,
    /// Where packets want to go.
    pub to: Ipv4Net,
    /// Smaller ones are taken first.
    pub metric: u32,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Target {
    /// Nowhere, and the sender is told.
    Unreachable,
    /// This table has no answer: ask the next one.
    Throw,
    /// To whoever is on the link.
    Link {
        /// The link.
        link: String,
        /// The address our own packets carry.
        source: Option<Ipv4Addr>,
    },
    /// Over one or several next hops, which are taken to be on their links.
    Hops {
        /// Sorted.
        hops: BTreeSet<Hop>,
        /// The address our own packets carry.
        source: Option<Ipv4Addr>,
    },
}

/// A next hop.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Hop {
    /// Its address.
    pub via: Ipv4Addr,
    /// The link it is on.
    pub link: String,
}

/// Which packets look into which table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Rule {
    /// Smaller ones are asked first.
    pub priority: u32,
    /// Only packets that came in here.
    pub link: Option<String>,
    /// Only packets from here.
    pub from: Option<Ipv4Net>,
    /// Only packets that a filter has marked so.
    pub mark: Option<u32>,
    /// The table.
    pub table: u32,
}

/// A packet filter. Two are the same when their digests and counts are.
#[derive(Clone, Debug, Serialize)]
pub struct Filter {
    /// The chains, as nftables reads them; empty in what was observed.
    pub chains: String,
    /// Of the chains; the table carries it as its comment.
    pub digest: String,
    /// How many rules are in the chains: a rule that was removed by hand is missed.
    pub rules: usize,
}

impl Filter {
    /// A filter of these chains. A chain is written with one rule per line.
    pub fn new(chains: String) -> Self {
        let mut digest = String::new();
        for byte in Sha256::digest(chains.as_bytes()).iter().take(8) {
            // Writing to a text cannot fail.
            let _ = write!(digest, "{byte:02x}");
        }
        let rules = count_rules(&chains);
        Self {
            chains,
            digest,
            rules,
        }
    }
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest && self.rules == other.rules
    }
}

impl Eq for Filter {}

/// Lines that are rules, and not the frame around them.
pub(crate) fn count_rules(text: &str) -> usize {
    let frame = ["table ", "chain ", "type ", "comment ", "}"];
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .filter(|line| !frame.iter().any(|start| line.starts_with(start)))
        .count()
}

/// A map whose keys are no text, as a list.
fn pairs<S: serde::Serializer>(
    map: &BTreeMap<Destination, Target>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(map.iter())
}
