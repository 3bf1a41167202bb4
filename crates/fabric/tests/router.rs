//! The network on a real kernel, in a world of its own: the test's host is a private namespace too.
#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod world;

use std::{collections::BTreeSet, net::Ipv4Addr};

use butler_fabric::{
    Balancer, Cluster, Endpoint, Fabric, Keeper, Layout, Machine, Node, Records, Space, Table, plan,
};
use tokio::time::timeout;
use world::{PATIENCE, World, in_world, listen_on_the_default_route, say, try_to_send, until};

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn machine(id: &str, address: &str) -> Machine {
    Machine {
        id: id.to_owned(),
        address: ip(address),
    }
}

fn node(machine: &str, pods: &str) -> Node {
    Node {
        machine: ip(machine),
        pods: pods.parse().unwrap(),
    }
}

fn cluster(name: &str, table: Table, pods: &str) -> Cluster {
    Cluster {
        name: name.to_owned(),
        table,
        pods: pods.parse().unwrap(),
        services: "10.96.0.0/16".parse().unwrap(),
        machines: Vec::new(),
        nodes: Vec::new(),
        balancers: Vec::new(),
        endpoints: Vec::new(),
    }
}

/// A management cluster of one machine, and two tenants of two machines with the same pod range.
fn records() -> Records {
    let mut management = cluster("management", Table::Main, "10.42.0.0/16");
    management.machines = vec![machine("mgmt", "10.40.0.10")];
    management.nodes = vec![node("10.40.0.10", "10.42.0.0/24")];
    let tenant = |name: &str, table: u16, tens: u8, balancer: &str| {
        let (one, two) = (format!("10.40.0.{tens}1"), format!("10.40.0.{tens}2"));
        let mut tenant = cluster(name, Table::Own(table), "10.244.0.0/16");
        tenant.machines = vec![
            machine(&format!("{name}1"), &one),
            machine(&format!("{name}2"), &two),
        ];
        tenant.nodes = vec![node(&one, "10.244.1.0/24"), node(&two, "10.244.2.0/24")];
        tenant.balancers = vec![Balancer {
            address: ip(balancer),
            machines: BTreeSet::from([ip(&one), ip(&two)]),
        }];
        tenant
    };
    let mut a = tenant("a", 1001, 2, "10.40.0.130");
    a.endpoints = vec![Endpoint {
        pod: ip("10.42.0.7"),
        machine: ip("10.40.0.10"),
    }];
    Records {
        layout: Layout::new("10.40.0.0/24".parse().unwrap()).unwrap(),
        clusters: vec![management, a, tenant("b", 1002, 3, "10.40.0.131")],
    }
}

/// Puts an address on the loopback of a machine, as a pod or a load balancer's Service would.
fn carry(world: &World, machine: &str, address: &str) {
    let space = Space::Machine(machine.to_owned());
    world.run(&space, &format!("ip address add {address}/32 dev lo"));
}

fn up(world: &World, records: Records) -> Fabric {
    let fabric = world.fabric();
    let admitted = records.admit();
    assert_eq!(admitted.refusals, []);
    fabric.apply(&plan(&admitted)).unwrap();
    fabric
}

fn of(machine: &str) -> Space {
    Space::Machine(machine.to_owned())
}

#[test]
fn two_clusters_with_equal_pod_ranges_reach_their_own_and_never_each_other() {
    in_world(|world| {
        up(&world, records());
        for tenant in ["a", "b"] {
            carry(&world, &format!("{tenant}1"), "10.244.1.1");
            carry(&world, &format!("{tenant}2"), "10.244.2.1");
        }
        carry(&world, "b2", "10.244.2.99");
        carry(&world, "mgmt", "10.42.0.7");
        carry(&world, "mgmt", "10.42.0.8");
        for machine in ["a1", "a2", "b1", "b2", "mgmt"] {
            world.serve(&of(machine), machine);
        }
        // Inside a cluster, pods and machines.
        assert_eq!(world.ask(&of("a1"), "10.244.1.1", "10.244.2.1"), "a2");
        assert_eq!(world.ask(&of("b1"), "10.244.1.1", "10.244.2.1"), "b2");
        assert_eq!(world.ask(&of("a1"), "10.40.0.21", "10.40.0.22"), "a2");
        // The API server's pod of a cluster reaches its pods and no one else's; another pod reaches neither.
        assert_eq!(world.ask(&of("mgmt"), "10.42.0.7", "10.244.2.1"), "a2");
        world.refused(&of("mgmt"), "10.42.0.8", "10.244.2.1");
        world.refused(&of("mgmt"), "10.42.0.7", "10.244.2.99");
        // Across clusters: pods, machines, the management cluster.
        world.refused(&of("a1"), "10.244.1.1", "10.244.2.99");
        world.refused(&of("a1"), "10.40.0.21", "10.40.0.31");
        world.refused(&of("b1"), "10.40.0.31", "10.40.0.10");
        world.refused(&of("b1"), "10.40.0.31", "10.42.0.8");
        // The host reaches machines, and no machine opens a connection to the host.
        assert_eq!(world.ask(&Space::Host, "10.40.0.1", "10.40.0.31"), "b1");
        world.serve(&Space::Host, "host");
        world.refused(&of("a1"), "10.40.0.21", "10.40.0.1");
    });
}

#[test]
fn a_load_balancer_leads_to_its_machines_from_everywhere_and_follows_the_records() {
    in_world(|world| {
        let mut records = records();
        let fabric = up(&world, records.clone());
        for machine in ["b1", "b2"] {
            carry(&world, machine, "10.40.0.131");
            world.serve(&of(machine), machine);
        }
        for (from, own) in [(Space::Host, "10.40.0.1"), (of("a1"), "10.40.0.21")] {
            let answers: BTreeSet<_> = (0..40)
                .map(|_| world.ask(&from, own, "10.40.0.131"))
                .collect();
            assert_eq!(answers, ["b1", "b2"].map(String::from).into());
        }
        // A machine that is not Ready leaves the set.
        records.clusters[2].balancers[0].machines = BTreeSet::from([ip("10.40.0.32")]);
        fabric.apply(&plan(&records.clone().admit())).unwrap();
        let answers: BTreeSet<_> = (0..20)
            .map(|_| world.ask(&Space::Host, "10.40.0.1", "10.40.0.131"))
            .collect();
        assert_eq!(answers, [String::from("b2")].into());
        // Nobody may use the address as a source to reach somebody else's machine.
        carry(&world, "b1", "10.40.0.150");
        world.serve(&of("a1"), "a1");
        world.refused(&of("b1"), "10.40.0.150", "10.40.0.21");
        // No machine, no route, and the caller is told.
        records.clusters[2].balancers.clear();
        fabric.apply(&plan(&records.admit())).unwrap();
        world.refused(&Space::Host, "10.40.0.1", "10.40.0.131");
    });
}

#[test]
fn a_load_balancer_can_be_asked_by_way_of_a_machine_that_nobody_is_sent_to_yet() {
    in_world(|world| {
        let mut records = records();
        records.clusters[2].balancers.clear();
        let fabric = up(&world, records);
        for machine in ["b1", "b2"] {
            world.serve(&of(machine), machine);
        }
        // Only this one has what kube-proxy's rules would do.
        carry(&world, "b2", "10.40.0.131");
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let reaches = |machine: &str| {
            runtime.block_on(async {
                let socket = fabric.socket_by(ip(machine)).unwrap();
                let balancer = "10.40.0.131:8080".parse().unwrap();
                let connected = timeout(PATIENCE, socket.connect(balancer)).await;
                connected.expect("somebody answers").map(drop)
            })
        };
        reaches("10.40.0.32").unwrap();
        reaches("10.40.0.31").unwrap_err();
        world.refused(&Space::Host, "10.40.0.1", "10.40.0.131");
    });
}

#[test]
fn an_open_connection_stays_with_its_machine_while_new_ones_go_elsewhere() {
    in_world(|world| {
        let mut records = records();
        let fabric = up(&world, records.clone());
        for (machine, letter) in [("b1", b'1'), ("b2", b'2')] {
            carry(&world, machine, "10.40.0.131");
            world.converse(&of(machine), letter);
        }
        let open = |from: &Space| {
            let mut stream = world.open(from, "10.40.0.131");
            let letter = say(&mut stream).unwrap();
            (stream, letter)
        };
        let mut streams: Vec<_> = (0..20)
            .flat_map(|_| [Space::Host, of("a1"), of("mgmt")])
            .map(|from| open(&from))
            .collect();
        let letters: BTreeSet<_> = streams.iter().map(|(_, letter)| *letter).collect();
        assert_eq!(letters, BTreeSet::from(['1', '2']));

        let (first, second) = (ip("10.40.0.31"), ip("10.40.0.32"));
        for machines in [vec![second], vec![first], vec![first, second]] {
            let set: BTreeSet<_> = machines.into_iter().collect();
            records.clusters[2].balancers[0].machines = set.clone();
            fabric.apply(&plan(&records.clone().admit())).unwrap();
            for (stream, letter) in &mut streams {
                assert_eq!(say(stream).unwrap(), *letter, "with {set:?}");
            }
            let new: BTreeSet<_> = (0..20).map(|_| open(&Space::Host).1).collect();
            assert_eq!(new.len(), set.len(), "{new:?} of {set:?}");
        }

        // Whoever loses its machine is told by another one that it knows nothing of the connection.
        records.clusters[2].machines.remove(0);
        records.clusters[2].nodes.remove(0);
        records.clusters[2].balancers[0].machines = BTreeSet::from([second]);
        fabric.apply(&plan(&records.admit())).unwrap();
        for (stream, letter) in &mut streams {
            match letter {
                '2' => assert_eq!(say(stream).unwrap(), '2'),
                _ => assert_eq!(
                    say(stream).unwrap_err().kind(),
                    std::io::ErrorKind::ConnectionReset
                ),
            }
        }
    });
}

#[test]
fn the_host_reaches_services_of_the_management_cluster_and_tenants_do_not() {
    in_world(|world| {
        up(&world, records());
        carry(&world, "mgmt", "10.96.0.50");
        world.serve(&of("mgmt"), "service");
        assert_eq!(
            world.ask(&Space::Host, "10.40.0.1", "10.96.0.50"),
            "service"
        );
        world.refused(&of("a1"), "10.40.0.21", "10.96.0.50");
        // One that nobody has does not go round in circles.
        world.refused(&Space::Host, "10.40.0.1", "10.96.0.51");
        let received =
            r#"ip -s -j link show eth0 | sed 's/.*"rx":{[^}]*"packets":\([0-9]*\).*/\1/'"#;
        world.run(&of("mgmt"), &format!("test $({received}) -lt 25"));
    });
}

#[test]
fn nothing_leaves_by_the_default_route() {
    in_world(|world| {
        up(&world, records());
        let caught = listen_on_the_default_route();
        for target in ["10.40.0.200", "10.244.1.1", "10.42.0.9", "10.96.0.1"] {
            world.refused(&Space::Host, "10.40.0.1", target);
        }
        for target in ["10.244.9.9", "192.0.2.9", "10.40.0.99", "198.51.100.1"] {
            world.refused(&of("a1"), "10.40.0.21", target);
            world.refused(&of("mgmt"), "10.40.0.10", target);
        }
        // Also not when somebody removes the link to the router.
        world.run(&Space::Host, "ip link delete butler0");
        world.refused(&Space::Host, "198.51.100.2", "10.40.0.31");
        assert_eq!(caught.packets(), 0);
        // The trap works: something that may leave is caught.
        try_to_send("192.0.2.77");
        assert_ne!(caught.packets(), 0);
    });
}

#[test]
fn applying_twice_does_nothing_the_second_time() {
    in_world(|world| {
        let fabric = up(&world, records());
        assert_eq!(fabric.apply(&plan(&records().admit())).unwrap(), []);
    });
}

#[test]
fn what_is_removed_by_hand_comes_back() {
    in_world(|world| {
        let fabric = world.fabric();
        let (sender, receiver) = tokio::sync::watch::channel(records());
        let wanted = plan(&records().admit());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let stop = tokio_util::sync::CancellationToken::new();
        let keeper = Keeper::new(fabric.clone(), receiver);
        let routers = keeper.routers();
        let keeper = runtime.spawn(keeper.run(stop.clone()));
        until("the network is there", || {
            fabric.observe(&wanted).unwrap() == wanted
        });
        for damage in [
            "ip link delete br-1001",
            "ip link delete host",
            "ip link delete m-0a28000a",
            "ip route flush table 1002",
            "ip rule delete pref 100",
            "ip link set br-main down",
            "nft delete table ip butler",
            "nft flush chain ip butler passing",
        ] {
            world.run(&Space::Router, damage);
            until(damage, || fabric.observe(&wanted).unwrap() == wanted);
        }
        world.run(&Space::Host, "ip route flush proto 157");
        until("the host's routes", || {
            fabric.observe(&wanted).unwrap() == wanted
        });
        assert_eq!(*routers.borrow(), 1);
        world.unmount(&Space::Router);
        until("another router", || {
            *routers.borrow() == 2 && fabric.observe(&wanted).unwrap() == wanted
        });
        drop(sender);
        stop.cancel();
        runtime.block_on(keeper).unwrap();
    });
}

#[test]
fn removal_leaves_nothing_behind_also_when_half_of_it_is_gone() {
    in_world(|world| {
        let before = world.count();
        let fabric = up(&world, records());
        assert_ne!(world.count(), before);
        fabric.remove().unwrap();
        assert_eq!(world.count(), before);
        fabric.remove().unwrap();

        let fabric = up(&world, records());
        world.run(&Space::Host, "ip link delete butler0");
        world.run(&Space::Router, "ip link delete br-1001");
        world.unmount(&of("b1"));
        fabric.remove().unwrap();
        assert_eq!(world.count(), before);
    });
}

#[test]
fn a_machine_that_leaves_takes_its_link_and_namespace_with_it() {
    in_world(|world| {
        let mut records = records();
        let fabric = up(&world, records.clone());
        records.clusters[1].machines.pop();
        records.clusters[1].nodes.pop();
        records.clusters[1].balancers.clear();
        let wanted = plan(&records.admit());
        fabric.apply(&wanted).unwrap();
        assert_eq!(fabric.observe(&wanted).unwrap(), wanted);
        assert!(!fabric.file(&of("a2")).exists());
    });
}
