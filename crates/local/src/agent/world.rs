//! From what is seen in clusters to the network's records and to the addresses of Services. Pure.
//!
//! What a tenant says is only ever used for the tenant itself: which pods its nodes carry goes through the network's
//! gate, and which address a Service has is what we wrote down, not what its status claims.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use butler_fabric::{Balancer, Cluster, Endpoint, Machine, Node, Records, Table};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use super::{
    addresses::{Given, MANAGEMENT_CLUSTER},
    health::Check,
};
use crate::{
    ledger::{Ledger, Tenant},
    settings::{MANAGEMENT, Settings},
};

/// A node as its cluster tells about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenNode {
    /// Its own address.
    pub address: Ipv4Addr,
    /// Its pods.
    pub pods: Option<Ipv4Net>,
    /// Whether it takes traffic.
    pub ready: bool,
    /// Whether it is being emptied: it takes traffic only where no other does.
    #[serde(default)]
    pub draining: bool,
}

/// A Service of type `LoadBalancer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenService {
    /// Namespace and name, with a slash between.
    pub name: String,
    /// The address its status has.
    pub held: Option<Ipv4Addr>,
    /// Where nodes say whether they have a pod of it, if only those serve.
    #[serde(default)]
    pub health_port: Option<u16>,
    /// A port of its own that takes connections.
    #[serde(default)]
    pub port: Option<u16>,
}

/// What was last seen of a cluster. It is kept while the cluster does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Its nodes.
    pub nodes: Vec<SeenNode>,
    /// Its load balancers.
    pub services: Vec<SeenService>,
}

/// A pod of a hosted control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPod {
    /// Its namespace.
    pub namespace: String,
    /// The name of the control plane.
    pub control_plane: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// The address of the machine it is on.
    pub machine: Ipv4Addr,
}

/// The network before anything is known: the management cluster's machine.
pub fn initial(settings: &Settings) -> Records {
    Records {
        layout: settings.layout,
        clusters: vec![Cluster {
            name: MANAGEMENT_CLUSTER.to_owned(),
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
    views: &BTreeMap<String, View>,
    given: &Given,
    pods: &[SeenPod],
    passed: &BTreeSet<Check>,
) -> Records {
    let mut records = initial(settings);
    for management in &mut records.clusters {
        see(management, MANAGEMENT_CLUSTER, views, given, passed);
    }
    let tenants: BTreeMap<_, _> = book.tenants().collect();
    for (id, mut cluster) in book.clusters() {
        see(&mut cluster, id, views, given, passed);
        if let Some(tenant) = tenants.get(id) {
            cluster.endpoints = endpoints(tenant, pods);
        }
        records.clusters.push(cluster);
    }
    records
}

/// What must be asked to know which nodes serve. Only machines of the book are ever asked.
pub fn checks(
    settings: &Settings,
    book: &Ledger,
    views: &BTreeMap<String, View>,
    given: &Given,
) -> BTreeSet<Check> {
    let management = initial(settings).clusters.into_iter();
    let management = management.map(|cluster| (MANAGEMENT_CLUSTER, cluster));
    let all = management.chain(book.clusters());
    all.flat_map(|(id, cluster)| {
        let own: BTreeSet<_> = cluster.machines.iter().map(|it| it.address).collect();
        let view = views.get(id);
        let nodes = view.into_iter().flat_map(|view| &view.nodes);
        let nodes = nodes.filter(move |node| node.ready && own.contains(&node.address));
        nodes.flat_map(move |node| {
            let balanced = balanced(id, view, given);
            balanced.map(|(address, service)| Check::of(service, address, node.address))
        })
    })
    .collect()
}

/// The Services of a cluster that have an address.
fn balanced<'a>(
    id: &str,
    view: Option<&'a View>,
    given: &'a Given,
) -> impl Iterator<Item = (Ipv4Addr, &'a SeenService)> {
    let own = given.get(id);
    let services = view.into_iter().flat_map(|view| &view.services);
    services.filter_map(move |service| Some((*own?.get(&service.name)?, service)))
}

/// Adds what is seen of a cluster to its place in the network.
fn see(
    cluster: &mut Cluster,
    id: &str,
    views: &BTreeMap<String, View>,
    given: &Given,
    passed: &BTreeSet<Check>,
) {
    let Some(view) = views.get(id) else { return };
    let carries = |node: &SeenNode| {
        Some(Node {
            machine: node.address,
            pods: node.pods?,
        })
    };
    cluster.nodes = view.nodes.iter().filter_map(carries).collect();
    cluster.balancers = balanced(id, Some(view), given)
        .map(|(address, service)| Balancer {
            address,
            machines: serving(&view.nodes, |node| {
                passed.contains(&Check::of(service, address, node))
            }),
        })
        .collect();
}

/// The nodes that take traffic. One that is being emptied goes soon, and what is sent to it then is lost. If no node is
/// known to serve, rather try than refuse, since it may be that only the answer is missing; but always the same one:
/// whoever had an answer must not be sent next to a node that is not as far.
fn serving(nodes: &[SeenNode], serves: impl Fn(Ipv4Addr) -> bool) -> BTreeSet<Ipv4Addr> {
    let of = |wanted: &dyn Fn(&SeenNode) -> bool, most: usize| -> BTreeSet<_> {
        let ready = nodes.iter().filter(|node| node.ready && wanted(node));
        ready.map(|node| node.address).take(most).collect()
    };
    let by_preference = [
        of(&|node| serves(node.address) && !node.draining, usize::MAX),
        of(&|node| serves(node.address), usize::MAX),
        of(&|node| !node.draining, 1),
        of(&|_| true, 1),
    ];
    let mut some = by_preference.into_iter().filter(|it| !it.is_empty());
    some.next().unwrap_or_default()
}

/// The pods that act for a tenant.
fn endpoints(tenant: &Tenant, pods: &[SeenPod]) -> Vec<Endpoint> {
    let acts = |pod: &&SeenPod| {
        pod.namespace == tenant.namespace
            && Some(&pod.control_plane) == tenant.control_plane.as_ref()
    };
    let endpoint = |pod: &SeenPod| Endpoint {
        pod: pod.address,
        machine: pod.machine,
    };
    pods.iter().filter(acts).map(endpoint).collect()
}

#[cfg(test)]
mod tests {
    use butler_fabric::Layout;

    use super::*;

    fn settings() -> Settings {
        Settings {
            layout: Layout::new("10.40.0.0/24".parse().unwrap()).unwrap(),
            pods: "10.42.0.0/16".parse().unwrap(),
            services: "10.96.0.0/16".parse().unwrap(),
            kubernetes: "v1.35.4".to_owned(),
        }
    }

    fn book() -> Ledger {
        let mut book = Ledger::default();
        for (id, address) in [("blue", [10, 40, 0, 2]), ("red", [10, 40, 0, 3])] {
            let tenant = Tenant {
                name: format!("team/{id}"),
                namespace: "team".to_owned(),
                cluster: id.to_owned(),
                control_plane: Some(format!("{id}-plane")),
                pods: "10.244.0.0/16".parse().unwrap(),
                services: "10.96.0.0/16".parse().unwrap(),
            };
            book.open(id, tenant);
            book.attach(settings().layout, &[], id, id, address.into())
                .unwrap();
        }
        book
    }

    fn node(address: &str, ready: bool) -> SeenNode {
        SeenNode {
            address: address.parse().unwrap(),
            pods: Some("10.244.0.0/24".parse().unwrap()),
            ready,
            draining: false,
        }
    }

    #[test]
    fn nodes_that_serve_come_before_those_that_stay_and_somebody_is_always_tried() {
        let draining = |address| SeenNode {
            draining: true,
            ..node(address, true)
        };
        let of = |nodes: &[SeenNode], passed: &[&str]| {
            let serves = |node: Ipv4Addr| passed.contains(&node.to_string().as_str());
            let serving = serving(nodes, serves).into_iter();
            serving.map(|it| it.to_string()).collect::<Vec<_>>()
        };
        let (first, second) = ("10.40.0.2", "10.40.0.3");
        let leaving = [draining(first), node(second, true)];
        assert_eq!(of(&leaving, &[first, second]), [second]);
        assert_eq!(of(&leaving, &[first]), [first], "the other cannot yet");
        assert_eq!(of(&leaving, &[]), [second]);
        assert_eq!(of(&[draining(first), node(second, false)], &[]), [first]);
        let both = [node(first, true), node(second, true)];
        assert_eq!(
            of(&both, &[second]),
            [second],
            "not before it has its rules"
        );
        assert_eq!(of(&both, &[]), [first], "both may not be as far");
        assert_eq!(of(&[node(first, false)], &[first]), [""; 0]);
    }

    fn service(name: &str, health_port: Option<u16>) -> SeenService {
        SeenService {
            name: name.to_owned(),
            held: None,
            health_port,
            port: Some(80),
        }
    }

    fn web(address: &str) -> Given {
        let address = address.parse().unwrap();
        let own = BTreeMap::from([("default/web".to_owned(), address)]);
        Given::from([("blue".to_owned(), own)])
    }

    #[test]
    fn only_the_tenants_own_machines_are_asked_and_each_service_as_it_wants_to_be() {
        let view = |health_port| View {
            // Its own, its own that is not ready, and red's.
            nodes: vec![
                node("10.40.0.2", true),
                node("10.40.0.9", false),
                node("10.40.0.3", true),
            ],
            services: vec![service("default/web", health_port), service("x/none", None)],
        };
        let ask = |health_port| {
            let views = BTreeMap::from([("blue".to_owned(), view(health_port))]);
            let checks = checks(&settings(), &book(), &views, &web("10.40.0.130"));
            checks.into_iter().collect::<Vec<_>>()
        };
        let check = |health| Check {
            machine: "10.40.0.2".parse().unwrap(),
            health,
            through: Some("10.40.0.130:80".parse().unwrap()),
        };
        assert_eq!(ask(None), [check(10256)]);
        assert_eq!(ask(Some(31000)), [check(31000)]);
    }

    fn pod(namespace: &str, control_plane: &str, address: &str) -> SeenPod {
        SeenPod {
            namespace: namespace.to_owned(),
            control_plane: control_plane.to_owned(),
            address: address.parse().unwrap(),
            machine: settings().management(),
        }
    }

    #[test]
    fn tenants_with_equal_ranges_get_what_is_theirs_and_only_nodes_that_are_ready_serve() {
        let book = book();
        let views = BTreeMap::from([
            (
                "blue".to_owned(),
                View {
                    nodes: vec![node("10.40.0.2", true), node("10.40.0.9", false)],
                    services: vec![service("default/web", None)],
                },
            ),
            (
                "red".to_owned(),
                View {
                    nodes: vec![node("10.40.0.3", true)],
                    services: Vec::new(),
                },
            ),
        ]);
        let given = web("10.40.0.130");
        let pods = [
            pod("team", "blue-plane", "10.42.0.7"),
            pod("team", "red-plane", "10.42.0.8"),
            pod("other", "blue-plane", "10.42.0.9"),
        ];
        let records = records(&settings(), &book, &views, &given, &pods, &BTreeSet::new());
        let [_, blue, red] = records.clusters.as_slice() else {
            panic!("{records:#?}")
        };
        let ready = BTreeSet::from(["10.40.0.2".parse().unwrap()]);
        assert_eq!(blue.balancers.len(), 1);
        assert_eq!(blue.balancers[0].machines, ready);
        let acts: Vec<_> = blue.endpoints.iter().map(|it| it.pod.to_string()).collect();
        assert_eq!(acts, ["10.42.0.7"], "not those of another namespace");
        assert_eq!((red.balancers.len(), red.nodes.len()), (0, 1));
        assert_eq!(red.endpoints.len(), 1);
    }

    #[test]
    fn a_node_that_claims_to_be_anothers_machine_is_left_out_at_the_gate() {
        let book = book();
        let views = BTreeMap::from([(
            "blue".to_owned(),
            View {
                // Red's machine, and the management cluster's.
                nodes: vec![node("10.40.0.3", true), node("10.40.0.10", true)],
                services: Vec::new(),
            },
        )]);
        let records = records(
            &settings(),
            &book,
            &views,
            &Given::new(),
            &[],
            &BTreeSet::new(),
        );
        let refusals = records.admit().refusals;
        assert_eq!(refusals.len(), 2, "{refusals:?}");
    }
}
