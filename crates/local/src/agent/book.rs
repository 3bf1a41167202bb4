//! The [`Ledger`] on disk, and the wait until the network is what it says.

use std::{io, net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use butler_fabric::{Fabric, Records, Space};
use ipnet::Ipv4Net;
use thiserror::Error;
use tokio::{sync::watch, time::timeout};

use super::world;
use crate::{
    ledger::{Ledger, LedgerError, Tenant},
    settings::{Paths, Settings, write},
};

/// The network is put in order within milliseconds; a busy machine may take longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a cluster or a machine is not on the network.
#[derive(Debug, Error)]
pub enum BookError {
    /// The book does not take it in.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// It could not be written.
    #[error("could not write {path:?}")]
    Write {
        /// Where the book is.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The network cannot have such a cluster.
    #[error("the network has no place for cluster {cluster}: {reason}")]
    Refused {
        /// The cluster.
        cluster: String,
        /// Why.
        reason: String,
    },
    /// The network is not there yet.
    #[error("the network was not put in order within {} s; the agent's log says why", PATIENCE.as_secs())]
    Late,
}

/// How a machine is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Its network namespace.
    pub namespace: PathBuf,
    /// Its address there.
    pub address: Ipv4Addr,
    /// Who answers questions about names.
    pub resolver: Ipv4Addr,
}

/// The book, shared by whoever needs the network. Everything can be asked again and does the same then.
#[derive(Clone, Debug)]
pub struct Book {
    path: PathBuf,
    settings: Settings,
    fabric: Fabric,
    ledger: Arc<watch::Sender<Ledger>>,
    applied: watch::Receiver<Option<Records>>,
}

impl Book {
    /// The book with what it holds, and with the network that follows it.
    pub(super) fn new(
        paths: &Paths,
        settings: &Settings,
        ledger: Ledger,
        fabric: Fabric,
        applied: watch::Receiver<Option<Records>>,
    ) -> Self {
        Self {
            path: path(paths),
            settings: settings.clone(),
            fabric,
            ledger: Arc::new(watch::Sender::new(ledger)),
            applied,
        }
    }

    /// What is written down now.
    pub fn ledger(&self) -> Ledger {
        self.ledger.borrow().clone()
    }

    pub(super) fn watch(&self) -> watch::Receiver<Ledger> {
        self.ledger.subscribe()
    }

    /// Makes the network of a cluster, or brings it up to date.
    pub async fn open_cluster(&self, id: &str, tenant: Tenant) -> Result<(), BookError> {
        let mut tried = self.ledger();
        tried.open(id, tenant.clone());
        self.admits(&tried, &tenant.name)?;
        self.change(|ledger| {
            ledger.open(id, tenant);
            Ok(())
        })?;
        self.settled().await
    }

    /// Whether the network would leave a cluster out.
    fn admits(&self, ledger: &Ledger, name: &str) -> Result<(), BookError> {
        let mut records = world::initial(&self.settings);
        records.clusters.extend(ledger.clusters().map(|(_, it)| it));
        let mut refusals = records.admit().refusals.into_iter();
        match refusals.find(|refusal| refusal.cluster == name) {
            None => Ok(()),
            Some(refusal) => Err(BookError::Refused {
                cluster: refusal.cluster,
                reason: refusal.reason,
            }),
        }
    }

    /// Removes the network of a cluster without machines.
    pub async fn close_cluster(&self, id: &str) -> Result<(), BookError> {
        self.change(|ledger| ledger.close(id))?;
        self.settled().await
    }

    /// Connects a machine; its namespace is ready afterwards.
    pub async fn attach_machine(
        &self,
        machine: &str,
        cluster: &str,
        address: Ipv4Addr,
    ) -> Result<Attached, BookError> {
        let (layout, reserved) = (self.settings.layout, [self.settings.management()]);
        self.change(|ledger| ledger.attach(layout, &reserved, machine, cluster, address))?;
        self.settled().await?;
        Ok(Attached {
            namespace: self.fabric.file(&Space::Machine(machine.to_owned())),
            address,
            resolver: layout.services(),
        })
    }

    /// Takes a machine off the network.
    pub async fn detach_machine(&self, machine: &str) -> Result<(), BookError> {
        self.change(|ledger| {
            ledger.detach(machine);
            Ok(())
        })?;
        self.settled().await
    }

    /// On disk before anybody acts on it: after a crash nobody gets an address a second time.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Ledger) -> Result<T, LedgerError>,
    ) -> Result<T, BookError> {
        let mut result = None;
        self.ledger.send_if_modified(|held| {
            let mut next = held.clone();
            let changed = change(&mut next)
                .map_err(BookError::from)
                .and_then(|value| {
                    let text = serde_json::json!(next).to_string();
                    let written = write(&self.path, &text).map_err(|source| BookError::Write {
                        path: self.path.clone(),
                        source,
                    });
                    written.map(|()| value)
                });
            let news = changed.is_ok() && *held != next;
            if changed.is_ok() {
                *held = next;
            }
            result = Some(changed);
            news
        });
        result.unwrap_or(Err(BookError::Late))
    }

    /// Waits until the network holds every cluster and machine of the book, and no other.
    async fn settled(&self) -> Result<(), BookError> {
        let mut applied = self.applied.clone();
        let holds = |records: &Option<Records>| {
            records.as_ref().is_some_and(|records| {
                // As it is now: somebody else may have changed it meanwhile.
                let ledger = self.ledger();
                let tenants = records.clusters.iter().skip(1);
                tenants
                    .map(place)
                    .eq(ledger.clusters().map(|(_, it)| place(&it)))
            })
        };
        let waited = timeout(PATIENCE, applied.wait_for(holds)).await;
        match waited {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(BookError::Late),
        }
    }
}

fn path(paths: &Paths) -> PathBuf {
    paths.state.join("clusters.json")
}

/// What a book of an earlier time says; a new one is empty.
pub(super) fn read(paths: &Paths) -> io::Result<Ledger> {
    let path = path(paths);
    match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ledger::default()),
        text => serde_json::from_slice(&text?)
            .map_err(|error| io::Error::other(format!("{} is damaged: {error}", path.display()))),
    }
}

type Place = (butler_fabric::Table, Ipv4Net, Vec<butler_fabric::Machine>);

/// What of a cluster comes from the book; the rest follows what is seen.
fn place(cluster: &butler_fabric::Cluster) -> Place {
    (cluster.table, cluster.pods, cluster.machines.clone())
}

#[cfg(test)]
mod tests {
    use butler_fabric::Layout;

    use super::*;

    fn tenant(pods: &str) -> Tenant {
        Tenant {
            name: "team/demo".to_owned(),
            namespace: "team".to_owned(),
            cluster: "demo".to_owned(),
            control_plane: None,
            pods: pods.parse().unwrap(),
            services: "10.96.0.0/16".parse().unwrap(),
        }
    }

    #[tokio::test]
    async fn a_cluster_that_the_network_has_no_place_for_is_not_written_down() {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Paths::new(folder.path());
        folder.path().clone_into(&mut paths.state);
        let settings = Settings {
            layout: Layout::new("10.40.0.0/24".parse().unwrap()).unwrap(),
            pods: "10.42.0.0/16".parse().unwrap(),
            services: "10.96.0.0/16".parse().unwrap(),
            kubernetes: "v1.35.4".to_owned(),
        };
        let fabric = Fabric::new(folder.path());
        let (_applied, following) = watch::channel(None);
        let book = Book::new(&paths, &settings, Ledger::default(), fabric, following);
        for (pods, whose) in [("10.42.8.0/24", "management"), ("10.40.0.0/16", "platform")] {
            let refused = book.open_cluster("uid", tenant(pods)).await;
            let said = refused.unwrap_err().to_string();
            assert!(said.contains(whose), "{said}");
        }
        assert_eq!(book.ledger(), Ledger::default());
        assert_eq!(read(&paths).unwrap(), Ledger::default());
    }
}
