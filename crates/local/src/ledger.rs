//! The platform's own book of clusters and machines: who has which route table and which address.
//!
//! The network is made from this and not from what clusters say about themselves. Addresses come from a pool of the
//! platform and are only checked here. Numbers of tables that were given back rest: the search for the next one goes on
//! behind the last that was given. Pure.

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
    /// Somebody else has the address: no pool of the platform gives it.
    #[error("machine {machine} cannot have {address}: {reason}")]
    Refused {
        /// The machine.
        machine: String,
        /// The address.
        address: Ipv4Addr,
        /// Why.
        reason: &'static str,
    },
}

/// The book.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    clusters: BTreeMap<String, Entry>,
    last_table: Option<u16>,
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

    /// Takes in a machine with the address that it was given. Doing it again changes nothing.
    pub fn attach(
        &mut self,
        layout: Layout,
        reserved: &[Ipv4Addr],
        machine: &str,
        cluster: &str,
        address: Ipv4Addr,
    ) -> Result<(), LedgerError> {
        let refuse = |reason| LedgerError::Refused {
            machine: machine.to_owned(),
            address,
            reason,
        };
        if let Some((owner, held)) = self.find(machine) {
            return match (owner == cluster, held == address) {
                (true, true) => Ok(()),
                (true, false) => Err(refuse("it has another one")),
                (false, _) => Err(LedgerError::Elsewhere {
                    machine: machine.to_owned(),
                    cluster: owner.to_owned(),
                }),
            };
        }
        let mut held = self.clusters.values().flat_map(|it| it.machines.values());
        if held.any(|it| *it == address) || reserved.contains(&address) {
            return Err(refuse("it is taken"));
        }
        if !layout.machine_addresses().any(|it| it == address) {
            return Err(refuse("it is none of machines"));
        }
        let Some(entry) = self.clusters.get_mut(cluster) else {
            return Err(LedgerError::Unknown(cluster.to_owned()));
        };
        entry.machines.insert(machine.to_owned(), address);
        Ok(())
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

    fn ip(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
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
        book.attach(layout(), &[], "m", "a", ip("10.40.0.3"))
            .unwrap();
        let before = book.clone();
        book.open("a", tenant("a"));
        let again = book.attach(layout(), &[], "m", "a", ip("10.40.0.3"));
        assert_eq!(again, Ok(()));
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
    fn an_address_that_somebody_has_or_that_is_none_of_machines_is_refused() {
        let mut book = book();
        let reserved = [ip("10.40.0.10")];
        let mut said = |machine: &str, address: &str| {
            let attached = book.attach(layout(), &reserved, machine, "a", ip(address));
            attached.map_err(|error| error.to_string())
        };
        assert_eq!(said("m", "10.40.0.3"), Ok(()));
        for (machine, address, why) in [
            ("n", "10.40.0.3", "it is taken"),
            ("n", "10.40.0.10", "it is taken"),
            ("m", "10.40.0.4", "it has another one"),
            ("n", "10.40.0.1", "it is none of machines"),
            ("n", "10.40.0.40", "it is none of machines"),
        ] {
            let refused = said(machine, address).unwrap_err();
            assert!(refused.ends_with(why), "{refused}");
        }
    }

    #[test]
    fn a_machine_of_another_cluster_and_a_cluster_in_use_are_left_alone() {
        let mut book = book();
        let address = ip("10.40.0.3");
        book.attach(layout(), &[], "m", "a", address).unwrap();
        let error = book.attach(layout(), &[], "m", "b", address).unwrap_err();
        assert_eq!(error.to_string(), "machine m belongs to cluster a");
        assert!(book.close("a").is_err());
        let unknown = book.attach(layout(), &[], "m2", "z", ip("10.40.0.4"));
        assert!(unknown.is_err());
    }
}
