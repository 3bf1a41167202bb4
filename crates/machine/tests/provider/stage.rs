//! A management API server with Cluster API's kinds, the provider, a host and a network that are played, and somebody
//! who does what Cluster API's own controllers do.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use butler_api::infrastructure::{LocalCluster, LocalMachine};
use butler_machine::{
    bootstrap::Plan,
    provider::{self, Attachment, ClusterNetwork, Host, Network, Settings, Surroundings, Trouble},
    runtime::{MachineId, MachineSpec, Observed, protocol::Outcome},
};
use butler_runtime::{
    clock::SystemClock,
    endpoints::Readiness,
    metrics::{Metrics, ReconcileMetrics},
    task::{self, Task},
};
use butler_testkit::{Namespace, PATIENCE, Server, wait_for};
use futures::{StreamExt as _, stream, stream::BoxStream};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

pub(crate) const AGENT: &str = "local-provider-test";

/// What the host and the network hold, across restarts of the provider.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) machines: BTreeMap<MachineId, (MachineSpec, Plan, Observed)>,
    pub(crate) attached: BTreeMap<MachineId, (String, IpAddr)>,
    pub(crate) networks: BTreeMap<String, ClusterNetwork>,
    /// What was not in order, such as a network that is closed under a machine.
    pub(crate) faults: BTreeSet<String>,
    /// Addresses are never given twice.
    given: u8,
}

/// A host and a network that are played.
#[derive(Clone)]
pub(crate) struct Play {
    held: Arc<Mutex<Held>>,
    news: broadcast::Sender<MachineId>,
}

impl Play {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            held: Arc::default(),
            news: broadcast::Sender::new(64),
        })
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap()
    }

    /// Changes what is there of the machine of this host name, and says so.
    pub(crate) fn change(&self, hostname: &str, change: impl FnOnce(&mut Observed)) {
        let mut held = self.held();
        let mut found = held
            .machines
            .iter_mut()
            .filter(|(_, (spec, ..))| spec.hostname == hostname);
        let (id, (_, _, observed)) = found.next().expect("the machine was started");
        change(observed);
        let _ = self.news.send(id.clone());
    }

    pub(crate) fn spec(&self, hostname: &str) -> Option<MachineSpec> {
        let held = self.held();
        let mut specs = held.machines.values().map(|(spec, ..)| spec);
        specs.find(|spec| spec.hostname == hostname).cloned()
    }
}

#[async_trait]
impl Host for Play {
    async fn start(&self, spec: MachineSpec, plan: Plan) -> Result<(), Trouble> {
        let mut held = self.held();
        if !held.attached.contains_key(&spec.id) {
            held.faults
                .insert("a machine was started without a network".to_owned());
        }
        let id = spec.id.clone();
        let entry = held.machines.entry(id).or_insert_with(|| {
            let observed = Observed {
                pid: None,
                held: None,
                outcome: None,
            };
            (spec.clone(), plan, observed)
        });
        entry.2.pid.get_or_insert(1000);
        Ok(())
    }

    async fn observe(&self, id: &MachineId) -> Result<Observed, Trouble> {
        let held = self.held();
        let found = held
            .machines
            .get(id)
            .map(|(_, _, observed)| observed.clone());
        Ok(found.unwrap_or(Observed {
            pid: None,
            held: None,
            outcome: None,
        }))
    }

    async fn remove(&self, id: &MachineId) -> Result<(), Trouble> {
        self.held().machines.remove(id);
        Ok(())
    }

    fn changes(&self) -> BoxStream<'static, MachineId> {
        let news = self.news.subscribe();
        stream::unfold(news, |mut news| async move {
            let id = news.recv().await.ok()?;
            Some((id, news))
        })
        .boxed()
    }
}

#[async_trait]
impl Network for Play {
    async fn open(&self, cluster: &ClusterNetwork) -> Result<(), Trouble> {
        self.held()
            .networks
            .insert(cluster.id.clone(), cluster.clone());
        Ok(())
    }

    async fn close(&self, cluster: &str) -> Result<(), Trouble> {
        let mut held = self.held();
        if held
            .attached
            .values()
            .any(|(attached, _)| attached == cluster)
        {
            held.faults
                .insert("a network was closed under its machines".to_owned());
        }
        held.networks.remove(cluster);
        Ok(())
    }

    async fn attach(
        &self,
        machine: &MachineId,
        cluster: &str,
        address: Option<IpAddr>,
    ) -> Result<Attachment, Trouble> {
        let mut held = self.held();
        if !held.networks.contains_key(cluster) {
            held.faults
                .insert("a machine was attached to no network".to_owned());
        }
        held.given += 1;
        let next = Ipv4Addr::new(10, 40, 0, held.given).into();
        let next = address.unwrap_or(next);
        let attached = held.attached.entry(machine.clone());
        let address = attached.or_insert_with(|| (cluster.to_owned(), next)).1;
        Ok(Attachment {
            namespace: "/run/netns/x".into(),
            address,
            nameservers: Vec::new(),
        })
    }

    async fn detach(&self, machine: &MachineId) -> Result<(), Trouble> {
        let mut held = self.held();
        if held.machines.contains_key(machine) {
            held.faults
                .insert("a machine lost its network before its end".to_owned());
        }
        held.attached.remove(machine);
        Ok(())
    }
}

/// The provider as a future.
pub(crate) async fn work(client: Client, play: Arc<Play>) {
    work_with(client, play, None).await;
}

/// The provider with a pool that addresses come from.
pub(crate) async fn work_with(client: Client, play: Arc<Play>, pool: Option<String>) {
    let metrics = Metrics::default();
    let images = [("v1.34.4", "/images/34"), ("v1.35.4", "/images/35")];
    let surroundings = Surroundings {
        clock: SystemClock::shared(),
        reconciles: ReconcileMetrics::new(&metrics),
        readiness: Readiness::default(),
        settings: Settings {
            images: images
                .map(|(version, folder)| (version.parse().unwrap(), folder.into()))
                .into(),
            containerd: "/containerd".into(),
            cni: "/cni".into(),
            extra: Vec::new(),
            sandbox_image: "registry.k8s.io/pause:3.10.1".to_owned(),
            mirrors: Vec::new(),
            image_store: None,
            pool,
        },
        host: Arc::<Play>::clone(&play),
        network: play,
    };
    provider::run(client, surroundings, CancellationToken::new()).await;
}

/// The provider until dropped.
pub(crate) fn provider(client: Client, play: &Arc<Play>) -> Task {
    task::spawn("local provider", work(client, Arc::clone(play)))
}

/// Objects of a kind of Cluster API.
pub(crate) fn core(home: &Namespace, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", kind);
    let resource = ApiResource::from_gvk(&kind);
    Api::namespaced_with(home.server().client(), home.name(), &resource)
}

fn owner(object: &DynamicObject, kind: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": object.metadata.name,
        "uid": object.metadata.uid, "controller": true, "blockOwnerDeletion": true,
    })
}

/// A Cluster and its `LocalCluster`, with the owner that Cluster API would have set.
pub(crate) async fn cluster(home: &Namespace, name: &str) {
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {
            "clusterNetwork": {
                "services": {"cidrBlocks": ["10.96.0.0/12"]},
                "pods": {"cidrBlocks": ["10.244.0.0/16"]},
            },
            "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "LocalCluster", "name": name,
            },
        },
    });
    home.apply_yaml(&cluster.to_string()).await;
    let made = core(home, "Cluster").get(name).await.unwrap();
    let local = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "LocalCluster",
        "metadata": {
            "name": name,
            "labels": {"cluster.x-k8s.io/cluster-name": name},
            "ownerReferences": [owner(&made, "Cluster")],
        },
        "spec": {},
    });
    home.apply_yaml(&local.to_string()).await;
}

/// Waits for the `LocalCluster` and says in the Cluster that it is provisioned.
pub(crate) async fn provisioned_cluster(home: &Namespace, name: &str) -> LocalCluster {
    let locals = home.api::<LocalCluster>();
    let local = wait_for(&locals, name, "a network", PATIENCE, |local| {
        let status = local.status.as_ref();
        let held = status.and_then(|status| status.initialization.as_ref());
        held.and_then(|held| held.provisioned) == Some(true)
    })
    .await;
    let status = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
    let params = PatchParams::default();
    core(home, "Cluster")
        .patch_status(name, &params, &Patch::Merge(&status))
        .await
        .unwrap();
    local
}

/// A Machine of a Cluster and its `LocalMachine`, without bootstrap data.
pub(crate) async fn machine(home: &Namespace, cluster: &str, name: &str, shape: &Value) {
    let machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {"name": name, "labels": {"cluster.x-k8s.io/cluster-name": cluster}},
        "spec": {
            "clusterName": cluster,
            "version": "v1.35.4",
            "bootstrap": {"configRef": {
                "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name,
            }},
            "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "LocalMachine", "name": name,
            },
        },
    });
    home.apply_yaml(&machine.to_string()).await;
    let made = core(home, "Machine").get(name).await.unwrap();
    let local = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
        "kind": "LocalMachine",
        "metadata": {
            "name": name,
            "labels": {"cluster.x-k8s.io/cluster-name": cluster},
            "ownerReferences": [owner(&made, "Machine")],
        },
        "spec": shape,
    });
    home.apply_yaml(&local.to_string()).await;
}

/// What the bootstrap provider leaves behind: a Secret, and its name in the Machine.
pub(crate) async fn bootstrap(home: &Namespace, machine: &str, data: &str) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": machine},
        "stringData": {"value": data, "format": "cloud-config"},
    });
    home.apply_yaml(&secret.to_string()).await;
    let named = json!({"spec": {"bootstrap": {"dataSecretName": machine}}});
    let params = PatchParams::default();
    core(home, "Machine")
        .patch(machine, &params, &Patch::Merge(&named))
        .await
        .unwrap();
}

/// Waits until the `LocalMachine` has a condition with a reason.
pub(crate) async fn reason(
    home: &Namespace,
    name: &str,
    type_: &str,
    reason: &str,
) -> LocalMachine {
    let what = format!("{type_} to be {reason}");
    wait_for(
        &home.api::<LocalMachine>(),
        name,
        &what,
        PATIENCE,
        |machine| {
            let status = machine.status.as_ref();
            let mut held = status.iter().flat_map(|status| &status.conditions);
            held.any(|held| held.type_ == type_ && held.reason == reason)
        },
    )
    .await
}

/// Says that the bootstrap data of a machine was carried out.
pub(crate) fn succeed(play: &Play, hostname: &str) {
    play.change(hostname, |observed| {
        observed.outcome = Some(Outcome::Succeeded);
    });
}

pub(crate) async fn server() -> Server {
    Server::start(butler_testkit::Options::default())
        .await
        .expect("an API server starts")
}
