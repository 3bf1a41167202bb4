use super::*;

fn net(text: &str) -> Ipv4Net {
    text.parse().unwrap()
}

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn cluster(name: &str, table: Table, pods: &str, machine: &str) -> Cluster {
    Cluster {
        name: name.to_owned(),
        table,
        pods: net(pods),
        services: net("10.96.0.0/16"),
        machines: vec![Machine {
            id: format!("{name}-1"),
            address: ip(machine),
        }],
        nodes: Vec::new(),
        balancers: Vec::new(),
        endpoints: Vec::new(),
    }
}

fn records() -> Records {
    Records {
        layout: Layout::new(net("10.40.0.0/24")).unwrap(),
        clusters: vec![
            cluster("management", Table::Main, "10.42.0.0/16", "10.40.0.10"),
            cluster("a", Table::Own(1001), "10.244.0.0/16", "10.40.0.21"),
            cluster("b", Table::Own(1002), "10.244.0.0/16", "10.40.0.31"),
        ],
    }
}

fn refusals(change: impl FnOnce(&mut Records)) -> Vec<String> {
    let mut records = records();
    change(&mut records);
    let admitted = records.admit();
    admitted.refusals.iter().map(ToString::to_string).collect()
}

#[test]
fn equal_pod_ranges_of_tenants_are_admitted() {
    assert_eq!(refusals(|_| ()), Vec::<String>::new());
}

#[test]
fn a_node_cannot_take_pods_outside_its_cluster_or_of_its_neighbour_or_for_a_strange_machine() {
    let node = |machine: &str, pods: &str| Node {
        machine: ip(machine),
        pods: net(pods),
    };
    let said = refusals(|records| {
        records.clusters[1].nodes = vec![
            node("10.40.0.21", "10.244.1.0/24"),
            node("10.40.0.21", "10.42.0.0/24"),
            node("10.40.0.21", "10.244.1.128/25"),
            node("10.40.0.31", "10.244.2.0/24"),
        ];
    });
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("not a part of the cluster's pods"));
    assert!(said[1].contains("another node has them"));
    assert!(said[2].contains("no machine of this cluster"));
}

#[test]
fn a_load_balancer_outside_the_range_or_of_another_cluster_is_refused() {
    let balancer = |address: &str, machine: &str| Balancer {
        address: ip(address),
        machines: BTreeSet::from([ip(machine)]),
    };
    let said = refusals(|records| {
        records.clusters[1].balancers = vec![
            balancer("10.40.0.130", "10.40.0.21"),
            balancer("10.40.0.1", "10.40.0.21"),
        ];
        records.clusters[2].balancers = vec![
            balancer("10.40.0.130", "10.40.0.31"),
            balancer("10.40.0.131", "10.40.0.21"),
        ];
    });
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("not one of load balancers"));
    assert!(said[1].contains("it is taken"));
    assert!(said[2].contains("by 10.40.0.21: that is no machine of this cluster"));
}

#[test]
fn a_cluster_whose_pods_overlap_what_everybody_needs_is_refused_whole() {
    for pods in ["10.40.0.0/16", "10.42.0.0/24", "10.96.0.0/24"] {
        let said = refusals(|records| records.clusters[1].pods = net(pods));
        assert_eq!(said.len(), 1, "{pods}: {said:?}");
        assert!(said[0].starts_with("cluster a: its pods"), "{said:?}");
    }
}

#[test]
fn a_machine_cannot_take_an_address_or_name_that_is_not_its_own() {
    let said = refusals(|records| {
        let machine = |id: &str, address: &str| Machine {
            id: id.to_owned(),
            address: ip(address),
        };
        records.clusters[2].machines = vec![
            machine("x", "10.40.0.126"),
            machine("y", "10.40.0.21"),
            machine("a-1", "10.40.0.32"),
            machine("../etc", "10.40.0.33"),
            machine("z", "10.40.0.200"),
        ];
    });
    assert_eq!(said.len(), 5, "{said:?}");
}

#[test]
fn only_pods_of_the_management_cluster_can_act_for_a_cluster_and_for_one_alone() {
    let endpoint = |pod: &str, machine: &str| Endpoint {
        pod: ip(pod),
        machine: ip(machine),
    };
    let said = refusals(|records| {
        records.clusters[1].endpoints = vec![
            endpoint("10.42.0.7", "10.40.0.10"),
            endpoint("10.244.0.7", "10.40.0.10"),
            endpoint("10.42.0.8", "10.40.0.21"),
        ];
        records.clusters[2].endpoints = vec![endpoint("10.42.0.7", "10.40.0.10")];
    });
    assert_eq!(said.len(), 3, "{said:?}");
}
