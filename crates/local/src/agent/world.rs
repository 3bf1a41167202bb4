//! From what is seen in the management cluster to the network's records and to the addresses of Services. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use butler_fabric::{Balancer, Cluster, Layout, Machine, Node, Records, Table};
use ipnet::Ipv4Net;

use crate::{
    ledger::Ledger,
    settings::{MANAGEMENT, Settings},
};

/// A node as its cluster tells about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenNode {
    /// Its own address.
    pub address: Ipv4Addr,
    /// Its pods.
    pub pods: Option<Ipv4Net>,
    /// Whether it takes traffic.
    pub ready: bool,
}

/// A Service of type `LoadBalancer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenService {
    /// Namespace and name.
    pub name: (String, String),
    /// The address it has.
    pub held: Option<Ipv4Addr>,
    /// The address its owner would like.
    pub asked: Option<Ipv4Addr>,
}

/// The network before anything is known: the management cluster's machine.
pub fn initial(settings: &Settings) -> Records {
    Records {
        layout: settings.layout,
        clusters: vec![Cluster {
            name: "management".to_owned(),
            table: Table::Main,
            pods: settings.pods,
            services: settings.services,
            machines: vec![Machine {
                id: MANAGEMENT.to_owned(),
                address: settings.management(),
            }],
            nodes: Vec::new(),
            balancers: Vec::new(),
            endpoints: Vec::new(),
        }],
    }
}

/// The network for what is seen, and for the clusters of the book.
pub fn records(
    settings: &Settings,
    book: &Ledger,
    nodes: &[SeenNode],
    addresses: &BTreeMap<(String, String), Ipv4Addr>,
) -> Records {
    let mut records = initial(settings);
    let ready: BTreeSet<_> = nodes
        .iter()
        .filter(|node| node.ready)
        .map(|node| node.address)
        .collect();
    for management in &mut records.clusters {
        management.nodes = nodes
            .iter()
            .filter_map(|node| {
                Some(Node {
                    machine: node.address,
                    pods: node.pods?,
                })
            })
            .collect();
        management.balancers = addresses
            .values()
            .map(|address| Balancer {
                address: *address,
                machines: ready.clone(),
            })
            .collect();
    }
    records
        .clusters
        .extend(book.clusters().map(|(_, cluster)| cluster));
    records
}

/// Gives every Service an address: the one it has, else the one it asks for, else the next that is free.
///
/// `last` is the address that was given last: the search goes on behind it, so that an address that was freed rests.
pub fn assign(
    layout: Layout,
    services: &[SeenService],
    last: &mut Option<Ipv4Addr>,
) -> BTreeMap<(String, String), Ipv4Addr> {
    let range = layout.balancers();
    let mut taken = BTreeSet::new();
    let mut given = BTreeMap::new();
    let mut sorted: Vec<_> = services.iter().collect();
    sorted.sort_by(|one, other| one.name.cmp(&other.name));
    let mut give = |service: &SeenService, address: Option<Ipv4Addr>| {
        let address = address.filter(|it| range.contains(it) && taken.insert(*it));
        if let Some(address) = address {
            given.insert(service.name.clone(), address);
        }
        address.is_some()
    };
    // Who has one keeps it, whoever else comes.
    let rest: Vec<_> = sorted.into_iter().filter(|it| !give(it, it.held)).collect();
    let rest: Vec<_> = rest.into_iter().filter(|it| !give(it, it.asked)).collect();
    for service in rest {
        let start = last.map_or(0, |last| last.to_bits() - range.network().to_bits() + 1);
        let size = u32::try_from(range.hosts().count() + 2).unwrap_or(u32::MAX);
        let candidates = (0..size)
            .map(|offset| Ipv4Addr::from_bits(range.network().to_bits() + (start + offset) % size));
        for address in candidates {
            if give(service, Some(address)) {
                *last = Some(address);
                break;
            }
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::new("10.40.0.0/26".parse().unwrap()).unwrap()
    }

    fn service(name: &str, held: Option<&str>, asked: Option<&str>) -> SeenService {
        SeenService {
            name: ("default".to_owned(), name.to_owned()),
            held: held.map(|it| it.parse().unwrap()),
            asked: asked.map(|it| it.parse().unwrap()),
        }
    }

    fn assigned(services: &[SeenService], last: &mut Option<Ipv4Addr>) -> Vec<String> {
        let given = assign(layout(), services, last);
        given
            .iter()
            .map(|((_, name), it)| format!("{name} {it}"))
            .collect()
    }

    #[test]
    fn who_has_an_address_keeps_it_and_others_get_what_they_ask_for_or_the_next() {
        let services = [
            service("a", None, None),
            service("b", None, Some("10.40.0.33")),
            service("c", Some("10.40.0.32"), None),
            service("d", None, Some("10.40.0.32")),
        ];
        let wanted = [
            "a 10.40.0.34",
            "b 10.40.0.33",
            "c 10.40.0.32",
            "d 10.40.0.35",
        ];
        assert_eq!(assigned(&services, &mut None), wanted);
    }

    #[test]
    fn an_address_that_is_not_ours_to_give_is_not_given() {
        let services = [service("a", Some("10.40.0.5"), Some("192.0.2.1"))];
        assert_eq!(assigned(&services, &mut None), ["a 10.40.0.32"]);
    }

    #[test]
    fn a_freed_address_rests_until_the_others_were_used() {
        let mut last = None;
        assert_eq!(
            assigned(&[service("a", None, None)], &mut last),
            ["a 10.40.0.32"]
        );
        assert_eq!(
            assigned(&[service("b", None, None)], &mut last),
            ["b 10.40.0.33"]
        );
        for _ in 0..14 {
            assigned(&[service("x", None, None)], &mut last);
        }
        assert_eq!(
            assigned(&[service("c", None, None)], &mut last),
            ["c 10.40.0.32"]
        );
    }

    #[test]
    fn an_empty_range_leaves_the_rest_waiting() {
        let services: Vec<_> = (0..20)
            .map(|it| service(&format!("s{it:02}"), None, None))
            .collect();
        assert_eq!(assigned(&services, &mut None).len(), 16);
    }
}
