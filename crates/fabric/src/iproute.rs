//! The words of `ip`: steps as lines of its batch mode, and what it shows as JSON. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::Ipv4Addr,
    path::Path,
};

use ipnet::Ipv4Net;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    diff::{End, Step},
    space,
    state::{
        Address, Content, Destination, HOST_LINK, Hop, Link, LinkKind, MACHINE_LINK, MAIN,
        PROTOCOL, Rule, Space, Target,
    },
};

/// Everything that [`parse`] reads, in one call of `ip`.
pub(crate) fn questions() -> String {
    format!("link show\naddress show\nroute show table all proto {PROTOCOL}\nrule show\n")
}

/// Options that go with [`questions`]: IPv4, numbers instead of names, JSON, details.
pub(crate) const QUESTION_OPTIONS: [&str; 4] = ["-4", "-N", "-j", "-d"];

/// The namespace a step is taken in and its line, if `ip` can do it.
pub(crate) fn line<'a>(step: &'a Step, folder: &Path) -> Option<(&'a Space, String)> {
    Some(match step {
        Step::MakeSpace(_)
        | Step::DropSpace(_)
        | Step::Set(..)
        | Step::PutFilter(..)
        | Step::DropFilter(_) => return None,
        Step::DropLink(space, link) => (space, format!("link delete {link}")),
        Step::AddBridge(space, link) => (space, format!("link add {link} type bridge")),
        Step::AddPair(one, other) => (&one.space, add_pair(one, other, folder)),
        Step::Enslave(space, link, Some(bridge)) => {
            (space, format!("link set {link} master {bridge}"))
        }
        Step::Enslave(space, link, None) => (space, format!("link set {link} nomaster")),
        Step::SwitchOn(space, link) => (space, format!("link set {link} up")),
        Step::AddAddress(space, Address { link, address }) => {
            (space, format!("address add {address}/32 dev {link}"))
        }
        Step::DropAddress(space, Address { link, address }) => {
            (space, format!("address delete {address}/32 dev {link}"))
        }
        Step::PutRoute(space, destination, target) => (
            space,
            format!("route replace {}", route(destination, Some(target))),
        ),
        Step::DropRoute(space, destination) => {
            (space, format!("route delete {}", route(destination, None)))
        }
        Step::AddRule(space, it) => (space, format!("rule add {}", rule(it))),
        Step::DropRule(space, it) => (space, format!("rule delete {}", rule(it))),
    })
}

fn add_pair(one: &End, other: &End, folder: &Path) -> String {
    let (name, peer) = (&one.link, &other.link);
    // The host's namespace is the one of process 1, as seen by whoever carries this out.
    let place = match &other.space {
        Space::Host => "/proc/self/ns/net".to_owned(),
        inner @ (Space::Router | Space::Machine(_)) => {
            space::file(folder, inner).display().to_string()
        }
    };
    format!("link add {name} type veth peer name {peer} netns {place}")
}

fn route(destination: &Destination, target: Option<&Target>) -> String {
    let Destination { table, to, metric } = destination;
    let mut words = match target {
        Some(Target::Unreachable) => "unreachable ".to_owned(),
        Some(Target::Throw) => "throw ".to_owned(),
        Some(Target::Link { .. } | Target::Hops { .. }) | None => String::new(),
    };
    let _ = write!(words, "{to} table {table} proto {PROTOCOL}");
    if *metric != 0 {
        let _ = write!(words, " metric {metric}");
    }
    if let Some(Target::Link { source, .. } | Target::Hops { source, .. }) = target
        && let Some(source) = source
    {
        let _ = write!(words, " src {source}");
    }
    match target {
        Some(Target::Link { link, .. }) => {
            let _ = write!(words, " dev {link}");
        }
        Some(Target::Hops { hops, .. }) => {
            for Hop { via, link } in hops {
                // One hop alone is no "nexthop", or the kernel would show it in another form.
                let word = if hops.len() > 1 { " nexthop" } else { "" };
                let _ = write!(words, "{word} via {via} dev {link} onlink");
            }
        }
        Some(Target::Unreachable | Target::Throw) | None => {}
    }
    words
}

fn rule(rule: &Rule) -> String {
    let Rule {
        priority,
        link,
        from,
        mark,
        table,
    } = rule;
    let mut words = format!("pref {priority}");
    if let Some(from) = from {
        let _ = write!(words, " from {from}");
    }
    if let Some(mark) = mark {
        let _ = write!(words, " fwmark {mark:#x}");
    }
    if let Some(link) = link {
        let _ = write!(words, " iif {link}");
    }
    let _ = write!(words, " lookup {table}");
    words
}

#[derive(Deserialize)]
struct ShownLink {
    ifname: String,
    #[serde(default)]
    flags: BTreeSet<String>,
    master: Option<String>,
    linkinfo: Option<ShownKind>,
    #[serde(default)]
    addr_info: Vec<ShownAddress>,
}

#[derive(Deserialize)]
struct ShownKind {
    info_kind: Option<String>,
}

#[derive(Deserialize)]
struct ShownAddress {
    local: Option<Ipv4Addr>,
    prefixlen: u8,
}

#[derive(Deserialize)]
struct ShownRoute {
    #[serde(rename = "type")]
    kind: String,
    dst: String,
    table: String,
    #[serde(default)]
    metric: u32,
    dev: Option<String>,
    gateway: Option<Ipv4Addr>,
    prefsrc: Option<Ipv4Addr>,
    #[serde(default)]
    nexthops: Vec<ShownHop>,
}

#[derive(Deserialize)]
struct ShownHop {
    gateway: Option<Ipv4Addr>,
    dev: String,
}

#[derive(Deserialize)]
struct ShownRule {
    priority: u32,
    src: String,
    srclen: Option<u8>,
    iif: Option<String>,
    fwmark: Option<String>,
    table: String,
}

/// What of a namespace's links, addresses, routes and rules is ours.
pub(crate) fn parse(space: &Space, shown: &[u8]) -> Result<Content, serde_json::Error> {
    let mut answers = serde_json::Deserializer::from_slice(shown).into_iter();
    let mut next = || answers.next().transpose().map(Option::unwrap_or_default);
    let links: Vec<ShownLink> = each(next()?)?;
    let addresses: Vec<ShownLink> = each(next()?)?;
    let routes: Vec<ShownRoute> = each(next()?)?;
    let rules: Vec<ShownRule> = each(next()?)?;
    Ok(Content {
        links: links.into_iter().filter_map(|it| link(space, it)).collect(),
        addresses: addresses
            .into_iter()
            .flat_map(|it| addresses_of(space, it))
            .collect(),
        routes: routes.into_iter().filter_map(target).collect(),
        rules: rules
            .into_iter()
            .filter_map(|it| shown_rule(space, it))
            .collect(),
        settings: BTreeMap::new(),
        filter: None,
    })
}

fn each<T: DeserializeOwned>(answer: serde_json::Value) -> Result<Vec<T>, serde_json::Error> {
    match answer {
        serde_json::Value::Null => Ok(Vec::new()),
        answer => serde_json::from_value(answer),
    }
}

fn is_ours(space: &Space, link: &str) -> bool {
    match space {
        Space::Host => link == HOST_LINK,
        Space::Router => true,
        Space::Machine(_) => link == MACHINE_LINK || link == "lo",
    }
}

fn link(space: &Space, shown: ShownLink) -> Option<(String, Link)> {
    let kind = shown.linkinfo.and_then(|it| it.info_kind);
    let kind = match kind.as_deref() {
        Some("bridge") => LinkKind::Bridge,
        Some("veth") => LinkKind::Pair,
        _ if shown.ifname == "lo" => LinkKind::Loopback,
        // Some kernels put devices of their own into every namespace.
        _ => return None,
    };
    let up = shown.flags.contains("UP");
    let bridge = shown.master;
    is_ours(space, &shown.ifname).then_some((shown.ifname, Link { kind, bridge, up }))
}

fn addresses_of(space: &Space, shown: ShownLink) -> Vec<Address> {
    if !is_ours(space, &shown.ifname) {
        return Vec::new();
    }
    let link = shown.ifname;
    let single = shown.addr_info.into_iter().filter(|it| it.prefixlen == 32);
    single
        .filter_map(|it| it.local)
        // kube-proxy and the like may put addresses on the loopback of a machine.
        .filter(|_| link != "lo" || *space == Space::Router)
        .map(|address| Address {
            link: link.clone(),
            address,
        })
        .collect()
}

fn target(shown: ShownRoute) -> Option<(Destination, Target)> {
    let to = match shown.dst.as_str() {
        "default" => Ipv4Net::default(),
        text => text
            .parse()
            .or_else(|_| text.parse::<Ipv4Addr>().map(Ipv4Net::from))
            .ok()?,
    };
    let destination = Destination {
        table: number(&shown.table)?,
        to,
        metric: shown.metric,
    };
    let source = shown.prefsrc;
    let hop = |via: Option<Ipv4Addr>, link: String| via.map(|via| Hop { via, link });
    let target = match (shown.kind.as_str(), shown.gateway, shown.dev) {
        ("7", ..) => Target::Unreachable,
        ("9", ..) => Target::Throw,
        (_, Some(via), Some(link)) => Target::Hops {
            hops: [Hop { via, link }].into(),
            source,
        },
        (_, None, Some(link)) => Target::Link { link, source },
        _ => Target::Hops {
            hops: shown
                .nexthops
                .into_iter()
                .filter_map(|it| hop(it.gateway, it.dev))
                .collect(),
            source,
        },
    };
    Some((destination, target))
}

fn shown_rule(space: &Space, shown: ShownRule) -> Option<Rule> {
    // Only the router's rules are ours, apart from the three that every namespace begins with.
    let begins_with = [0, 32766, 32767];
    if *space != Space::Router || begins_with.contains(&shown.priority) {
        return None;
    }
    let from = match shown.src.as_str() {
        "all" => None,
        text => {
            let address: Ipv4Addr = text.parse().ok()?;
            Some(Ipv4Net::new(address, shown.srclen.unwrap_or(32)).ok()?)
        }
    };
    let mark = match shown.fwmark {
        None => None,
        Some(text) => Some(u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()?),
    };
    Some(Rule {
        priority: shown.priority,
        link: shown.iif,
        from,
        mark,
        table: number(&shown.table)?,
    })
}

fn number(table: &str) -> Option<u32> {
    match table {
        "main" => Some(MAIN),
        text => text.parse().ok(),
    }
}
