//! From records to the complete wanted network. Pure.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::{
    filter,
    layout::Layout,
    records::{Admitted, Cluster, Machine, Table},
    state::{
        Address, Content, Destination, HOST_LINK, Hop, Link, LinkKind, MACHINE_LINK, MAIN, Rule,
        Space, State, Target, UPLINK,
    },
};

/// Answers of load balancers go before the rules of clusters.
const BALANCERS: u32 = 90;
/// So do open connections to load balancers.
const OPEN_CONNECTIONS: u32 = 95;
/// What comes from a cluster looks into its table.
const CLUSTERS: u32 = 100;
/// Worse than any route somebody else made, better than the default route.
const LAST_RESORT: u32 = 4000;

/// The whole network for these records.
pub fn plan(records: &Admitted) -> State {
    let mut state = State::default();
    state.spaces.insert(Space::Host, host(records));
    state.spaces.insert(Space::Router, router(records));
    for cluster in &records.clusters {
        for machine in &cluster.machines {
            let content = machine_content(records.layout, cluster, machine);
            state
                .spaces
                .insert(Space::Machine(machine.id.clone()), content);
        }
    }
    state
}

/// The router's end of a machine's veth: addresses are unlike each other and short.
pub fn port_of(machine: Ipv4Addr) -> String {
    format!("m-{:08x}", machine.to_bits())
}

/// What marks open connections to a machine, and the table of its own that they follow: its address, and far above the
/// numbers of clusters.
pub(crate) fn mark_of(machine: Ipv4Addr) -> u32 {
    machine.to_bits()
}

/// The bridge of a cluster.
pub fn bridge_of(table: Table) -> String {
    match table {
        Table::Main => "br-main".to_owned(),
        Table::Own(number) => format!("br-{number}"),
    }
}

fn host(records: &Admitted) -> Content {
    let layout = records.layout;
    let mut content = Content::default();
    content.links.insert(HOST_LINK.to_owned(), pair(None));
    content.addresses.insert(address(HOST_LINK, layout.host()));
    let source = Some(layout.host());
    content.route(MAIN, layout.gateway().into(), 0, {
        let link = HOST_LINK.to_owned();
        Target::Link { link, source }
    });
    content.route(MAIN, layout.range(), 0, {
        let hops = [hop(layout.gateway(), HOST_LINK)].into();
        Target::Hops { hops, source }
    });
    for management in records.clusters.iter().filter(|it| is_management(it)) {
        let hops = [hop(layout.gateway(), HOST_LINK)].into();
        content.route(MAIN, management.services, 0, Target::Hops { hops, source });
    }
    // Should the link be gone, nothing of this may leave by the default route.
    let of_clusters = records.clusters.iter();
    let ranges = of_clusters.flat_map(|cluster| [cluster.pods, cluster.services]);
    for range in ranges.chain([layout.range()]) {
        content.route(MAIN, range, LAST_RESORT, Target::Unreachable);
    }
    content
}

fn router(records: &Admitted) -> Content {
    let layout = records.layout;
    let mut content = Content::default();
    content.loopback();
    content.links.insert(UPLINK.to_owned(), pair(None));
    for own in [layout.gateway(), layout.services()] {
        content.addresses.insert(address("lo", own));
    }
    content.route(MAIN, layout.host().into(), 0, on(UPLINK));
    content.route(MAIN, Ipv4Net::default(), 9000, Target::Unreachable);
    content.rules.insert(Rule {
        priority: BALANCERS,
        link: None,
        from: Some(layout.balancers()),
        mark: None,
        table: MAIN,
    });
    for (name, value) in [
        ("net/ipv4/ip_forward", "1"),
        ("net/ipv4/conf/all/rp_filter", "0"),
        ("net/ipv4/conf/default/rp_filter", "0"),
        ("net/ipv4/conf/all/send_redirects", "0"),
        ("net/ipv4/conf/default/send_redirects", "0"),
        ("net/ipv4/fib_multipath_hash_policy", "1"),
        ("net/ipv6/conf/all/disable_ipv6", "1"),
        ("net/ipv6/conf/default/disable_ipv6", "1"),
        ("net/bridge/bridge-nf-call-iptables", "0"),
    ] {
        content.settings.insert(name.to_owned(), value.to_owned());
    }
    let management = records.clusters.iter().find(|it| is_management(it));
    let machines = records.clusters.iter().flat_map(|it| &it.machines);
    let machines = machines.map(|machine| machine.address);
    content.filter = Some(filter::router(layout, management, machines));
    for cluster in &records.clusters {
        add_cluster(&mut content, layout, cluster, management);
    }
    content
}

fn add_cluster(
    content: &mut Content,
    layout: Layout,
    cluster: &Cluster,
    management: Option<&Cluster>,
) {
    let bridge = bridge_of(cluster.table);
    let table = match cluster.table {
        Table::Main => MAIN,
        Table::Own(number) => u32::from(number),
    };
    content.links.insert(
        bridge.clone(),
        Link {
            kind: LinkKind::Bridge,
            bridge: None,
            up: true,
        },
    );
    if cluster.table != Table::Main {
        content.rules.insert(rule(&bridge, None, table));
        // What is not said below is not to be had: other clusters' machines, the management cluster's pods.
        content.route(table, cluster.pods, 0, Target::Unreachable);
        content.route(table, layout.machines(), 0, Target::Unreachable);
        if let Some(management) = management {
            content.route(table, management.pods, 0, Target::Unreachable);
            content.route(table, management.services, 0, Target::Unreachable);
        }
        content.route(table, layout.host().into(), 0, Target::Throw);
    }
    for machine in &cluster.machines {
        let port = port_of(machine.address);
        content.links.insert(port, pair(Some(&bridge)));
        for table in [MAIN, table] {
            content.route(table, machine.address.into(), 0, on(&bridge));
        }
        // Connections that are open stay with it, also when new ones go elsewhere.
        let mark = mark_of(machine.address);
        let only = over([machine.address], &bridge);
        content.route(mark, layout.balancers(), 0, only);
        content.rules.insert(Rule {
            priority: OPEN_CONNECTIONS,
            link: None,
            from: None,
            mark: Some(mark),
            table: mark,
        });
    }
    if is_management(cluster) && !cluster.machines.is_empty() {
        // For the host: machines and pods translate addresses of Services themselves.
        let machines = cluster.machines.iter().map(|machine| machine.address);
        content.route(MAIN, cluster.services, 0, over(machines, &bridge));
    }
    for node in &cluster.nodes {
        content.route(table, node.pods, 0, over([node.machine], &bridge));
    }
    for balancer in &cluster.balancers {
        // Without machines there is no route, and the caller is told at once.
        if !balancer.machines.is_empty() {
            let machines = balancer.machines.iter().copied();
            content.route(MAIN, balancer.address.into(), 0, over(machines, &bridge));
        }
    }
    let management = bridge_of(Table::Main);
    for endpoint in &cluster.endpoints {
        let back = over([endpoint.machine], &management);
        content.route(table, endpoint.pod.into(), 0, back);
        let from = Some(endpoint.pod.into());
        content.rules.insert(rule(&management, from, table));
    }
}

/// The cluster that the host itself belongs to: it reaches its Services.
fn is_management(cluster: &Cluster) -> bool {
    cluster.table == Table::Main
}

fn machine_content(layout: Layout, cluster: &Cluster, machine: &Machine) -> Content {
    let mut content = Content::default();
    content.loopback();
    content.links.insert(MACHINE_LINK.to_owned(), pair(None));
    let own = address(MACHINE_LINK, machine.address);
    content.addresses.insert(own);
    content.route(MAIN, layout.gateway().into(), 0, on(MACHINE_LINK));
    let gateway = over([layout.gateway()], MACHINE_LINK);
    content.route(MAIN, Ipv4Net::default(), 0, gateway);
    for (name, value) in [
        ("net/ipv4/ip_forward", "1"),
        ("net/ipv4/conf/all/accept_redirects", "0"),
        ("net/bridge/bridge-nf-call-iptables", "1"),
    ] {
        content.settings.insert(name.to_owned(), value.to_owned());
    }
    // Pods of the management cluster are known to the router by their own addresses.
    if cluster.table != Table::Main {
        content.filter = Some(filter::machine(cluster.pods));
    }
    content
}

impl Content {
    fn route(&mut self, table: u32, to: Ipv4Net, metric: u32, target: Target) {
        let destination = Destination { table, to, metric };
        self.routes.insert(destination, target);
    }

    fn loopback(&mut self) {
        let link = Link {
            kind: LinkKind::Loopback,
            bridge: None,
            up: true,
        };
        self.links.insert("lo".to_owned(), link);
    }
}

fn pair(bridge: Option<&str>) -> Link {
    Link {
        kind: LinkKind::Pair,
        bridge: bridge.map(str::to_owned),
        up: true,
    }
}

fn address(link: &str, address: Ipv4Addr) -> Address {
    let link = link.to_owned();
    Address { link, address }
}

fn hop(via: Ipv4Addr, link: &str) -> Hop {
    let link = link.to_owned();
    Hop { via, link }
}

fn on(link: &str) -> Target {
    Target::Link {
        link: link.to_owned(),
        source: None,
    }
}

fn over(machines: impl IntoIterator<Item = Ipv4Addr>, link: &str) -> Target {
    Target::Hops {
        hops: machines.into_iter().map(|via| hop(via, link)).collect(),
        source: None,
    }
}

fn rule(link: &str, from: Option<Ipv4Net>, table: u32) -> Rule {
    Rule {
        priority: CLUSTERS,
        link: Some(link.to_owned()),
        from,
        mark: None,
        table,
    }
}
