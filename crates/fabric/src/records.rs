//! What the platform knows about clusters, and the gate in front of the plan.
//!
//! Some of it was once said by a tenant (which pods its nodes carry). Nobody else's traffic may ever depend on that,
//! so everything is checked here against what the platform itself gave out, and what does not fit is refused.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv4Addr,
};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::layout::Layout;

/// Everything the network is made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    /// Which addresses are for what.
    pub layout: Layout,
    /// The management cluster and all others.
    pub clusters: Vec<Cluster>,
}

/// One cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Unlike any other; only for messages.
    pub name: String,
    /// Where its routes are.
    pub table: Table,
    /// The range of its pods.
    pub pods: Ipv4Net,
    /// The range of its Services.
    pub services: Ipv4Net,
    /// Its machines.
    pub machines: Vec<Machine>,
    /// Which machine carries which pods.
    pub nodes: Vec<Node>,
    /// Addresses that lead to its machines.
    pub balancers: Vec<Balancer>,
    /// Pods of the management cluster that may reach this cluster's pods: its API servers.
    pub endpoints: Vec<Endpoint>,
}

/// Where the routes of a cluster are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Table {
    /// The main one: the management cluster.
    Main,
    /// One of its own, by a number that is given once and kept.
    Own(u16),
}

/// A machine, or at least its place in the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Unlike any other; the name of its namespace's file.
    pub id: String,
    /// Its address.
    pub address: Ipv4Addr,
}

/// The pods a machine carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The machine's address.
    pub machine: Ipv4Addr,
    /// The pods on it.
    pub pods: Ipv4Net,
}

/// An address that leads to machines of its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balancer {
    /// The address.
    pub address: Ipv4Addr,
    /// The machines that serve it now.
    pub machines: BTreeSet<Ipv4Addr>,
}

/// A pod of the management cluster that acts for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The pod's address.
    pub pod: Ipv4Addr,
    /// The address of the management machine it runs on.
    pub machine: Ipv4Addr,
}

/// Something in the records that is not acted on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The cluster it is about.
    pub cluster: String,
    /// What is left out, and why.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cluster {}: {}", self.cluster, self.reason)
    }
}

/// Records in which everything fits together, and what had to be left out for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    pub(crate) layout: Layout,
    pub(crate) clusters: Vec<Cluster>,
    /// What was left out.
    pub refusals: Vec<Refusal>,
}

impl Records {
    /// Leaves out what does not fit. Earlier clusters win over later ones.
    pub fn admit(self) -> Admitted {
        let mut gate = Gate::new(self.layout, &self.clusters);
        let mut clusters = Vec::new();
        // The management cluster first: others are measured against it.
        let (management, tenants): (Vec<_>, Vec<_>) = self
            .clusters
            .into_iter()
            .partition(|cluster| cluster.table == Table::Main);
        for cluster in management.into_iter().chain(tenants) {
            clusters.extend(gate.cluster(cluster));
        }
        Admitted {
            layout: self.layout,
            clusters,
            refusals: gate.refusals,
        }
    }
}

/// What has been admitted so far.
struct Gate {
    layout: Layout,
    management_pods: Option<Ipv4Net>,
    management_machines: BTreeSet<Ipv4Addr>,
    tables: BTreeSet<Table>,
    ids: BTreeSet<String>,
    addresses: BTreeSet<Ipv4Addr>,
    endpoints: BTreeSet<Ipv4Addr>,
    refusals: Vec<Refusal>,
}

impl Gate {
    fn new(layout: Layout, clusters: &[Cluster]) -> Self {
        let management = clusters.iter().find(|it| it.table == Table::Main);
        let machines = management.into_iter().flat_map(|it| &it.machines);
        Self {
            layout,
            management_pods: management.map(|it| it.pods),
            management_machines: machines.map(|machine| machine.address).collect(),
            tables: BTreeSet::new(),
            ids: BTreeSet::new(),
            addresses: BTreeSet::from([layout.host(), layout.gateway(), layout.services()]),
            endpoints: BTreeSet::new(),
            refusals: Vec::new(),
        }
    }

    fn cluster(&mut self, cluster: Cluster) -> Option<Cluster> {
        if let Some(reason) = self.misfit(&cluster) {
            self.refuse(&cluster.name, reason);
            return None;
        }
        self.tables.insert(cluster.table);
        // No `..`: whatever a cluster gets must pass here.
        let Cluster {
            name,
            table,
            pods,
            services,
            machines,
            nodes,
            balancers,
            endpoints,
        } = cluster;
        let machines: Vec<_> = machines
            .into_iter()
            .filter(|machine| self.machine(&name, machine))
            .collect();
        let own: BTreeSet<_> = machines.iter().map(|machine| machine.address).collect();
        let nodes = self.nodes(&name, pods, &own, nodes);
        let balancers = balancers
            .into_iter()
            .filter_map(|balancer| self.balancer(&name, &own, balancer))
            .collect();
        let endpoints = endpoints
            .into_iter()
            .filter(|endpoint| self.endpoint(&name, table, endpoint))
            .collect();
        Some(Cluster {
            name,
            table,
            pods,
            services,
            machines,
            nodes,
            balancers,
            endpoints,
        })
    }

    /// Why a cluster as a whole cannot be.
    fn misfit(&self, cluster: &Cluster) -> Option<String> {
        let range = self.layout.range();
        let (pods, services) = (cluster.pods, cluster.services);
        if self.tables.contains(&cluster.table) {
            return Some(format!(
                "its table {:?} is another cluster's",
                cluster.table
            ));
        }
        // 0 and 253 to 255 are the kernel's own.
        if let Table::Own(number) = cluster.table
            && !(1000..=60000).contains(&number)
        {
            return Some(format!("table {number} is not between 1000 and 60000"));
        }
        if overlap(pods, range) || overlap(services, range) {
            return Some(format!(
                "its pods {pods} or Services {services} overlap the platform's own range {range}"
            ));
        }
        if overlap(pods, services) {
            return Some(format!("its pods {pods} overlap its Services {services}"));
        }
        match self.management_pods {
            Some(theirs) if cluster.table != Table::Main && overlap(pods, theirs) => Some(format!(
                "its pods {pods} overlap those of the management cluster {theirs}"
            )),
            Some(_) | None => None,
        }
    }

    fn machine(&mut self, cluster: &str, machine: &Machine) -> bool {
        let Machine { id, address } = machine;
        let plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
        let reason = if id.is_empty() || id.starts_with('.') || !id.chars().all(plain) {
            "its id must be letters, digits, '-', '_' and '.', and not begin with '.'"
        } else if !self.layout.machines().contains(address) {
            "its address is not one of machines"
        } else if self.ids.contains(id) {
            "another machine has this id"
        } else if !self.addresses.insert(*address) {
            "its address is taken"
        } else {
            self.ids.insert(id.clone());
            return true;
        };
        self.refuse(cluster, format!("machine {id:?} at {address}: {reason}"));
        false
    }

    fn nodes(
        &mut self,
        cluster: &str,
        pods: Ipv4Net,
        own: &BTreeSet<Ipv4Addr>,
        nodes: Vec<Node>,
    ) -> Vec<Node> {
        let mut admitted: BTreeMap<Ipv4Net, Ipv4Addr> = BTreeMap::new();
        for node in nodes {
            let reason = if !own.contains(&node.machine) {
                "that is no machine of this cluster"
            } else if !pods.contains(&node.pods) || node.pods == pods && own.len() > 1 {
                "they are not a part of the cluster's pods"
            } else if admitted.keys().any(|other| overlap(*other, node.pods)) {
                "another node has them"
            } else {
                admitted.insert(node.pods, node.machine);
                continue;
            };
            self.refuse(
                cluster,
                format!("pods {} on {}: {reason}", node.pods, node.machine),
            );
        }
        admitted
            .into_iter()
            .map(|(pods, machine)| Node { machine, pods })
            .collect()
    }

    fn balancer(
        &mut self,
        cluster: &str,
        own: &BTreeSet<Ipv4Addr>,
        mut balancer: Balancer,
    ) -> Option<Balancer> {
        let address = balancer.address;
        let reason = if !self.layout.balancers().contains(&address) {
            Some("it is not one of load balancers")
        } else if !self.addresses.insert(address) {
            Some("it is taken")
        } else {
            None
        };
        if let Some(reason) = reason {
            self.refuse(cluster, format!("load balancer {address}: {reason}"));
            return None;
        }
        let strangers: Vec<_> = balancer.machines.difference(own).copied().collect();
        for stranger in strangers {
            balancer.machines.remove(&stranger);
            let reason = "that is no machine of this cluster";
            self.refuse(
                cluster,
                format!("load balancer {address} by {stranger}: {reason}"),
            );
        }
        Some(balancer)
    }

    fn endpoint(&mut self, cluster: &str, table: Table, endpoint: &Endpoint) -> bool {
        let Endpoint { pod, machine } = endpoint;
        let reason = if table == Table::Main {
            "the management cluster reaches its own pods anyway"
        } else if !self.management_pods.is_some_and(|pods| pods.contains(pod)) {
            "it is no pod of the management cluster"
        } else if !self.management_machines.contains(machine) {
            "its machine is none of the management cluster"
        } else if !self.endpoints.insert(*pod) {
            "it acts for another cluster"
        } else {
            return true;
        };
        self.refuse(cluster, format!("endpoint {pod} on {machine}: {reason}"));
        false
    }

    fn refuse(&mut self, cluster: &str, reason: String) {
        self.refusals.push(Refusal {
            cluster: cluster.to_owned(),
            reason,
        });
    }
}

fn overlap(one: Ipv4Net, other: Ipv4Net) -> bool {
    one.contains(&other) || other.contains(&one)
}

#[cfg(test)]
mod tests;
