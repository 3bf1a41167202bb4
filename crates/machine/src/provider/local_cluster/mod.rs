//! `LocalCluster`: the network of one Cluster.

mod report;

use std::sync::Arc;

use butler_api::infrastructure::LocalCluster;
use butler_runtime::{
    apply::{Applier, full_name},
    clock::SharedClock,
    controller::{Reconciler, Wake},
    error::{Classify, chain},
    finalizers,
    own_writes::OwnWrites,
    status,
    watch::Change,
};
use futures::{Stream, StreamExt, future, stream};
use kube::{Client, ResourceExt, runtime::reflector::ObjectRef};

use super::{
    ClusterNetwork, Error, FIELD_MANAGER, FINALIZER, Feeds, Network, Trouble,
    capi::{self, Cluster},
};

/// Networks to look at because their Cluster changed, or because a machine is gone that kept them.
pub(super) fn triggers(
    feeds: &Feeds,
) -> impl Stream<Item = ObjectRef<LocalCluster>> + Send + use<> {
    let of_clusters = feeds.clusters.subscribe().filter_map(|change| {
        let cluster = change.object();
        let reference = cluster.spec.infrastructure_ref.as_ref();
        let ours = reference.filter(|reference| reference.kind == "LocalCluster");
        let namespace = cluster.namespace().unwrap_or_default();
        future::ready(ours.map(|ours| ObjectRef::new(&ours.name).within(&namespace)))
    });
    let store = feeds.local_clusters.store();
    let of_machines = feeds.local_machines.subscribe().flat_map(move |change| {
        let ending = match change {
            Change::Present(_) => Vec::new(),
            Change::Gone(machine) => store.state_filter(|cluster: &LocalCluster| {
                cluster.namespace() == machine.namespace()
                    && cluster.metadata.deletion_timestamp.is_some()
            }),
        };
        stream::iter(
            ending
                .into_iter()
                .map(|cluster| ObjectRef::from_obj(&*cluster)),
        )
    });
    stream::select(of_clusters, of_machines)
}

/// Reconciles networks.
pub(super) struct Controller {
    applier: Applier,
    clock: SharedClock,
    feeds: Arc<Feeds>,
    network: Arc<dyn Network>,
}

impl Controller {
    pub(super) fn new(
        client: &Client,
        clock: SharedClock,
        feeds: Arc<Feeds>,
        network: Arc<dyn Network>,
    ) -> Self {
        Self {
            applier: Applier::new(client.clone(), FIELD_MANAGER),
            clock,
            feeds,
            network,
        }
    }

    /// One pass over a network that is wanted: a word and a sentence where it has to wait.
    async fn advance(
        &self,
        raw: &LocalCluster,
        cluster: Option<&Cluster>,
    ) -> Result<Option<(&'static str, String)>, Error> {
        let Some(cluster) = cluster else {
            let message = "no Cluster owns it; name it in the spec.infrastructureRef of a Cluster";
            return Ok(Some(("WaitingForCluster", message.to_owned())));
        };
        if !finalizers::has(raw, FINALIZER) {
            // The change brings us back with what was written.
            finalizers::add(&self.applier.beside(raw), raw, FINALIZER).await?;
            let message = "the network is about to be made";
            return Ok(Some(("Starting", message.to_owned())));
        }
        let ranges = &cluster.spec.cluster_network;
        let control_plane = cluster.spec.control_plane_ref.as_ref();
        let network = ClusterNetwork {
            id: raw.uid().unwrap_or_default(),
            name: full_name(raw),
            namespace: raw.namespace().unwrap_or_default(),
            cluster: cluster.name_any(),
            control_plane: control_plane.map(|reference| reference.name.clone()),
            pods: ranges.pods.cidr_blocks.clone(),
            services: ranges.services.cidr_blocks.clone(),
        };
        let opened = self.network.open(&network).await;
        opened.map_err(on_network("make", raw))?;
        // From when it is provisioned Cluster API connects to the API server, and waits half a minute where it fails.
        if cluster.waits_for_hosted_control_plane() {
            let message = "the network is there; waits for the hosted control plane to serve";
            return Ok(Some(("WaitingForControlPlane", message.to_owned())));
        }
        Ok(None)
    }

    /// The end, once no machine is left.
    async fn end(&self, raw: &LocalCluster, cluster: Option<&Cluster>) -> Result<Wake, Error> {
        if !finalizers::has(raw, FINALIZER) {
            return Ok(Wake::OnChange);
        }
        let left = self.machines(raw, cluster);
        if !left.is_empty() {
            let message = format!("waits for the machines {} to be gone", left.join(", "));
            let next = report::status(raw, Some(("Deleting", message)), self.clock.now());
            status::report(&self.applier, raw, raw.status.as_ref(), &next).await?;
            return Ok(Wake::OnChange);
        }
        let closed = self.network.close(&raw.uid().unwrap_or_default()).await;
        if let Err(error) = closed.map_err(on_network("remove", raw)) {
            let next = report::status(raw, Some(("Deleting", chain(&error))), self.clock.now());
            status::report(&self.applier, raw, raw.status.as_ref(), &next).await?;
            return Err(error);
        }
        finalizers::remove(&self.applier.beside(raw), raw, FINALIZER).await?;
        Ok(Wake::OnChange)
    }

    /// Names of the machines that are in this network.
    fn machines(&self, raw: &LocalCluster, cluster: Option<&Cluster>) -> Vec<String> {
        let label = raw.labels().get(capi::CLUSTER_NAME).cloned();
        let Some(name) = cluster.map(ResourceExt::name_any).or(label) else {
            return Vec::new();
        };
        let machines = self.feeds.local_machines.store().state();
        let mut names: Vec<_> = machines
            .iter()
            .filter(|machine| {
                machine.namespace() == raw.namespace()
                    && machine.labels().get(capi::CLUSTER_NAME) == Some(&name)
                    && finalizers::has(&***machine, FINALIZER)
            })
            .map(|machine| machine.name_any())
            .collect();
        names.sort();
        names
    }
}

impl Reconciler for Controller {
    type Object = LocalCluster;
    type Error = Error;
    const NAME: &'static str = "localcluster";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, raw: Arc<LocalCluster>) -> Result<Wake, Error> {
        let namespace = raw.namespace();
        let cluster = capi::owner(&*raw, "Cluster")
            .and_then(|name| self.feeds.clusters.get(namespace.as_deref(), name));
        if let Some(reason) = capi::pause(&*raw, cluster.as_deref()) {
            let next = report::paused(&raw, reason, self.clock.now());
            status::report(&self.applier, &*raw, raw.status.as_ref(), &next).await?;
            return Ok(Wake::OnChange);
        }
        // Whoever manages it reports its status, too.
        if raw.annotations().contains_key(capi::MANAGED_BY) {
            return Ok(Wake::OnChange);
        }
        if raw.metadata.deletion_timestamp.is_some() {
            return self.end(&raw, cluster.as_deref()).await;
        }
        let result = self.advance(&raw, cluster.as_deref()).await;
        let waits = match &result {
            Ok(waits) => waits.clone(),
            Err(error) => Some((error.category().as_str(), chain(error))),
        };
        let next = report::status(&raw, waits, self.clock.now());
        status::report(&self.applier, &*raw, raw.status.as_ref(), &next).await?;
        result.map(|_| Wake::OnChange)
    }
}

fn on_network(action: &'static str, raw: &LocalCluster) -> impl FnOnce(Trouble) -> Error {
    let name = full_name(raw);
    move |source| Error::Network {
        action,
        name,
        source,
    }
}
