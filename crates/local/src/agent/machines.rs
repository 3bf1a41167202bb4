//! The infrastructure provider of this platform: machines of this host on the platform's network.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    sync::Arc,
};

use async_trait::async_trait;
use butler_images::catalog;
use butler_machine::{
    provider::{
        self, Attachment, ClusterNetwork, LocalHost, Network, Settings as MachineSettings,
        Surroundings, Trouble,
    },
    runtime::{MachineId, Mirror},
};
use butler_runtime::{
    clock::SystemClock,
    endpoints::Readiness,
    metrics::{Metrics, ReconcileMetrics},
};
use butler_toolchain::Toolchain;
use ipnet::Ipv4Net;
use tokio_util::sync::CancellationToken;

use super::{book::Book, cluster::client_when_it_answers};
use crate::{
    ledger::Tenant,
    machines::{PLUGINS, machines},
    pools::MACHINES,
    settings::{Paths, Settings},
};

/// Ranges of clusters that name none: those of kubeadm and of hosted control planes.
const PODS: &str = "10.244.0.0/16";
const SERVICES: &str = "10.96.0.0/16";

/// Runs until it is stopped; machines go on without it.
pub(super) async fn run(
    paths: Paths,
    settings: Settings,
    toolchain: Toolchain,
    book: Book,
    stop: CancellationToken,
) {
    let surroundings = match surroundings(&paths, &settings, &toolchain, book) {
        Ok(surroundings) => surroundings,
        Err(error) => {
            tracing::error!(%error, "machines are not looked after");
            return;
        }
    };
    let client = client_when_it_answers(&paths.provider_kubeconfig()).await;
    tracing::info!("machines are looked after");
    provider::run(client, surroundings, stop).await;
}

fn surroundings(
    paths: &Paths,
    settings: &Settings,
    toolchain: &Toolchain,
    book: Book,
) -> io::Result<Surroundings> {
    let host = machines(paths).map_err(io::Error::other)?;
    Ok(Surroundings {
        clock: SystemClock::shared(),
        reconciles: ReconcileMetrics::new(&Metrics::default()),
        readiness: Readiness::default(),
        settings: common(settings, toolchain)?,
        host: LocalHost::new(host)?,
        network: Arc::new(book),
    })
}

/// What all machines have in common.
fn common(settings: &Settings, toolchain: &Toolchain) -> io::Result<MachineSettings> {
    let folder = |path: PathBuf| path.parent().map(PathBuf::from).unwrap_or_default();
    let known = toolchain.status();
    let kubelets = known.iter().filter(|it| it.name == "kubelet");
    let mut images = BTreeMap::new();
    for kubelet in kubelets {
        // A version that is not installed is one that machines cannot have.
        if let Ok(path) = toolchain.binary("kubelet", Some(kubelet.version)) {
            let version = kubelet.version.to_string();
            let version = version.parse().map_err(io::Error::other)?;
            images.insert(version, folder(path));
        }
    }
    let containerd = toolchain.binary("containerd", None);
    Ok(MachineSettings {
        images,
        containerd: folder(containerd.map_err(io::Error::other)?),
        cni: PLUGINS.into(),
        extra: Vec::new(),
        sandbox_image: catalog::PAUSE.to_owned(),
        mirrors: vec![Mirror {
            registry: "_default".to_owned(),
            url: settings.registry(),
            authority: None,
        }],
        image_store: None,
        pool: Some(MACHINES.to_owned()),
    })
}

#[async_trait]
impl Network for Book {
    async fn open(&self, cluster: &ClusterNetwork) -> Result<(), Trouble> {
        let ClusterNetwork {
            id,
            name,
            namespace,
            cluster,
            control_plane,
            pods,
            services,
        } = cluster.clone();
        let tenant = Tenant {
            name,
            namespace,
            cluster,
            control_plane,
            pods: range("pods", &pods, PODS)?,
            services: range("services", &services, SERVICES)?,
        };
        Ok(self.open_cluster(&id, tenant).await?)
    }

    async fn close(&self, cluster: &str) -> Result<(), Trouble> {
        Ok(self.close_cluster(cluster).await?)
    }

    async fn attach(
        &self,
        machine: &MachineId,
        cluster: &str,
        address: Option<IpAddr>,
    ) -> Result<Attachment, Trouble> {
        let Some(IpAddr::V4(address)) = address else {
            return Err(format!("pool {MACHINES} gave no IPv4 address, but {address:?}").into());
        };
        let attached = self
            .attach_machine(machine.as_str(), cluster, address)
            .await?;
        Ok(Attachment {
            namespace: attached.namespace,
            address: attached.address.into(),
            nameservers: vec![attached.resolver.into()],
        })
    }

    async fn detach(&self, machine: &MachineId) -> Result<(), Trouble> {
        Ok(self.detach_machine(machine.as_str()).await?)
    }
}

/// The one range that a cluster has for something.
fn range(what: &str, asked: &[String], otherwise: &str) -> Result<Ipv4Net, Trouble> {
    let text = match asked {
        [] => otherwise,
        [one] => one,
        [..] => {
            let asked = asked.join(", ");
            return Err(format!("clusterNetwork.{what} is {asked}: name one IPv4 range").into());
        }
    };
    let read = text.parse::<Ipv4Net>();
    let range =
        read.map_err(|error| format!("clusterNetwork.{what} is {text:?}, no IPv4 range: {error}"))?;
    // The host has an unreachable route for it, which must not hide a place that others want to reach.
    let shared: Ipv4Net = "100.64.0.0/10".parse()?;
    let private = |address: Ipv4Addr| address.is_private() || shared.contains(&address);
    if !(private(range.network()) && private(range.broadcast())) {
        return Err(format!("clusterNetwork.{what} is {range}: take a private range").into());
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_one_range_of_ipv4_addresses_for_each_purpose() {
        let ask = |asked: &[&str]| {
            let asked: Vec<_> = asked.iter().map(|it| (*it).to_owned()).collect();
            range("pods", &asked, PODS).map_err(|error| error.to_string())
        };
        assert_eq!(ask(&[]).unwrap().to_string(), PODS);
        assert_eq!(ask(&["10.9.0.0/16"]).unwrap().to_string(), "10.9.0.0/16");
        for wrong in [
            &["fd00::/64"][..],
            &["x"],
            &["10.9.0.0/16", "fd00::/64"],
            &["8.8.8.0/24"],
        ] {
            assert!(
                ask(wrong)
                    .unwrap_err()
                    .starts_with("clusterNetwork.pods is")
            );
        }
    }
}
