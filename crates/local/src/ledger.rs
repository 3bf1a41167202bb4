//! The platform's own book of clusters and machines: who has which route table and which address.
//!
//! The network is made from this and not from what clusters say about themselves. Numbers and addresses that were
//! given back rest: the search for the next one goes on behind the last that was given. Pure.

use std::{collections::BTreeMap, net::Ipv4Addr};

use butler_fabric::{Cluster, Layout, Machine, Table};
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The numbers that route tables of clusters can have.
const TABLES: std::ops::RangeInclusive<u16> = 1000..=60000;

/// Why the book does not take something in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LedgerError {
    /// There is no such cluster.
    #[error("cluster {0} has no network yet")]
    Unknown(String),
    /// A cluster with machines cannot be closed.
    #[error("cluster {cluster} still has {machines} machines")]
    InUse {
        /// The cluster.
        cluster: String,
        /// How many.
        machines: usize,
    },
    /// Another cluster has the machine.
    #[error("machine {machine} belongs to cluster {cluster}")]
    Elsewhere {
        /// The machine.
        machine: String,
        /// Whose it is.
        cluster: String,
    },
    /// Every address is taken.
    #[error(
        "all addresses of {0} are taken: remove machines, or make a platform with a larger --range"
    )]
    Full(Ipv4Net),
}

/// The book.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    clusters: BTreeMap<String, Entry>,
    last_table: Option<u16>,
    last_address: Option<Ipv4Addr>,
}

/// What a cluster is, as its objects in the management cluster say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// For messages.
    pub name: String,
    /// Namespace of its objects.
    pub namespace: String,
    /// Name of its Cluster.
    pub cluster: String,
    /// Name of its hosted control plane, if it has one.
    pub control_plane: Option<String>,
    /// The range of its pods.
    pub pods: Ipv4Net,
    /// The range of its Services.
    pub services: Ipv4Net,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    tenant: Tenant,
    table: u16,
    machines: BTreeMap<String, Ipv4Addr>,
}

impl Ledger {
    /// Takes in a cluster by its UID, or what changed of it. Doing it again changes nothing.
    pub fn open(&mut self, id: &str, tenant: Tenant) {
        if let Some(held) = self.clusters.get_mut(id) {
            held.tenant = tenant;
            return;
        }
        let table = self.next_table();
        self.last_table = self.last_table.max(Some(table));
        let entry = Entry {
            tenant,
            table,
            machines: BTreeMap::new(),
        };
        self.clusters.insert(id.to_owned(), entry);
    }

    /// Every cluster, by UID.
    pub fn tenants(&self) -> impl Iterator<Item = (&str, &Tenant)> {
        let all = self.clusters.iter();
        all.map(|(id, entry)| (id.as_str(), &entry.tenant))
    }

    /// Takes out a cluster without machines. Doing it again changes nothing.
    pub fn close(&mut self, id: &str) -> Result<(), LedgerError> {
        let machines = self.clusters.get(id).map_or(0, |it| it.machines.len());
        if machines > 0 {
            let cluster = id.to_owned();
            return Err(LedgerError::InUse { cluster, machines });
        }
        self.clusters.remove(id);
        Ok(())
    }

    /// The address of a machine; the same one for as long as it is there.
    pub fn attach(
        &mut self,
        layout: Layout,
        reserved: &[Ipv4Addr],
        machine: &str,
        cluster: &str,
    ) -> Result<Ipv4Addr, LedgerError> {
        if let Some((owner, address)) = self.find(machine) {
            return if owner == cluster {
                Ok(address)
            } else {
                Err(LedgerError::Elsewhere {
                    machine: machine.to_owned(),
                    cluster: owner.to_owned(),
                })
            };
        }
        if !self.clusters.contains_key(cluster) {
            return Err(LedgerError::Unknown(cluster.to_owned()));
        }
        let free = |address: &Ipv4Addr| {
            let mut held = self.clusters.values().flat_map(|it| it.machines.values());
            !reserved.contains(address) && !held.any(|it| it == address)
        };
        let behind = layout
            .machine_addresses()
            .filter(|it| Some(*it) > self.last_address);
        let mut candidates = behind.chain(layout.machine_addresses());
        let address = candidates.find(free);
        let address = address.ok_or_else(|| LedgerError::Full(layout.machines()))?;
        if let Some(entry) = self.clusters.get_mut(cluster) {
            entry.machines.insert(machine.to_owned(), address);
        }
        self.last_address = Some(address);
        Ok(address)
    }

    /// Takes a machine out. Doing it again changes nothing.
    pub fn detach(&mut self, machine: &str) {
        for entry in self.clusters.values_mut() {
            entry.machines.remove(machine);
        }
    }

    /// Every cluster with its machines, as the network wants to know them, by UID.
    pub fn clusters(&self) -> impl Iterator<Item = (&str, Cluster)> {
        self.clusters.iter().map(|(id, entry)| {
            let machines = entry.machines.iter();
            let cluster = Cluster {
                name: entry.tenant.name.clone(),
                table: Table::Own(entry.table),
                pods: entry.tenant.pods,
                services: entry.tenant.services,
                machines: machines
                    .map(|(id, address)| Machine {
                        id: id.clone(),
                        address: *address,
                    })
                    .collect(),
                nodes: Vec::new(),
                balancers: Vec::new(),
                endpoints: Vec::new(),
            };
            (id.as_str(), cluster)
        })
    }

    fn find(&self, machine: &str) -> Option<(&str, Ipv4Addr)> {
        self.clusters.iter().find_map(|(id, entry)| {
            let address = entry.machines.get(machine)?;
            Some((id.as_str(), *address))
        })
    }

    fn next_table(&self) -> u16 {
        let taken = |number: &u16| self.clusters.values().any(|it| it.table == *number);
        let behind = TABLES.filter(|number| Some(*number) > self.last_table);
        let mut candidates = behind.chain(TABLES);
        candidates
            .find(|number| !taken(number))
            .expect("there are more tables than addresses of machines, and clusters without machines are few")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::new("10.40.0.0/26".parse().unwrap()).unwrap()
    }

    fn tenant(name: &str) -> Tenant {
        Tenant {
            name: name.to_owned(),
            namespace: "team".to_owned(),
            cluster: name.to_owned(),
            control_plane: Some(name.to_owned()),
            pods: "10.244.0.0/16".parse().unwrap(),
            services: "10.96.0.0/16".parse().unwrap(),
        }
    }

    fn book() -> Ledger {
        let mut book = Ledger::default();
        for id in ["a", "b"] {
            book.open(id, tenant(id));
        }
        book
    }

    #[test]
    fn everything_can_be_asked_twice() {
        let mut book = book();
        let first = book.attach(layout(), &[], "m", "a").unwrap();
        let before = book.clone();
        book.open("a", tenant("a"));
        assert_eq!(book.attach(layout(), &[], "m", "a"), Ok(first));
        assert_eq!(book, before);
        book.detach("m");
        book.detach("m");
        assert_eq!(book.close("a"), Ok(()));
        assert_eq!(book.close("a"), Ok(()));
    }

    #[test]
    fn clusters_have_tables_of_their_own_and_a_freed_one_rests() {
        let mut book = book();
        let tables: Vec<_> = book.clusters().map(|(_, it)| it.table).collect();
        assert_eq!(tables, [Table::Own(1000), Table::Own(1001)]);
        book.close("b").unwrap();
        book.open("c", tenant("c"));
        let table = book.clusters().find(|(id, _)| *id == "c").unwrap().1.table;
        assert_eq!(table, Table::Own(1002));
    }

    #[test]
    fn addresses_are_given_once_and_rest_after_they_were_given_back() {
        let mut book = book();
        let reserved = ["10.40.0.3".parse().unwrap()];
        let mut given = Vec::new();
        while let Ok(address) = book.attach(layout(), &reserved, &format!("m{}", given.len()), "a")
        {
            given.push(address);
        }
        // Thirty hosts of the half, without the host itself, the gateway and the reserved one.
        assert_eq!(given.len(), 27);
        book.detach("m5");
        book.detach("m20");
        assert_eq!(book.attach(layout(), &reserved, "x", "b"), Ok(given[5]));
        book.detach("m4");
        assert_eq!(
            book.attach(layout(), &reserved, "y", "b"),
            Ok(given[20]),
            "behind the last one"
        );
    }

    #[test]
    fn a_machine_of_another_cluster_and_a_cluster_in_use_are_left_alone() {
        let mut book = book();
        book.attach(layout(), &[], "m", "a").unwrap();
        let error = book.attach(layout(), &[], "m", "b").unwrap_err();
        assert_eq!(error.to_string(), "machine m belongs to cluster a");
        assert!(book.close("a").is_err());
        assert!(book.attach(layout(), &[], "m2", "z").is_err());
    }
}
