//! Follows the management cluster and all tenants: what is seen becomes the network's records and Services' addresses.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use butler_fabric::{Fabric, Records};
use butler_runtime::{task, watch::Feed};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config, ResourceExt as _,
    config::{KubeConfigOptions, Kubeconfig},
    runtime::watcher,
};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use super::{
    addresses::{Given, MANAGEMENT_CLUSTER},
    book::Book,
    claims::{self, Wishes},
    follow,
    health::{self, Check},
    tenants::Tenants,
    world::{self, SeenPod, View},
};
use crate::{
    ledger::Ledger,
    settings::{Paths, Settings, write},
};

/// The label of a hosted control plane's pods: its name.
const CONTROL_PLANE: &str = "steward.butlerlabs.dev/name";
/// The cluster is being made or started: nothing can tell when it will answer.
const LOOK: Duration = Duration::from_millis(200);
/// One question may take this long.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was last seen of all clusters. It is on disk, so that an agent that starts again cuts nobody off while it has
/// not heard of everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    views: BTreeMap<String, View>,
    given: Given,
    /// What nodes were last known to serve.
    #[serde(default)]
    passed: BTreeSet<Check>,
}

impl Seen {
    fn path(paths: &Paths) -> PathBuf {
        paths.state.join("seen.json")
    }

    /// What an earlier agent saw; nothing can be wrong with having seen nothing.
    pub(super) fn load(paths: &Paths) -> Self {
        let read = std::fs::read(Self::path(paths));
        let read = read.and_then(|text| serde_json::from_slice(&text).map_err(io::Error::other));
        read.unwrap_or_else(|error| {
            tracing::info!(%error, "nothing is known of clusters yet");
            Self::default()
        })
    }

    pub(super) fn records(
        &self,
        settings: &Settings,
        ledger: &Ledger,
        pods: &[SeenPod],
    ) -> Records {
        world::records(
            settings,
            ledger,
            &self.views,
            &self.given,
            pods,
            &self.passed,
        )
    }

    fn checks(&self, settings: &Settings, ledger: &Ledger) -> BTreeSet<Check> {
        world::checks(settings, ledger, &self.views, &self.given)
    }

    /// Forgets clusters that are no longer in the book.
    fn settle(&mut self, known: &BTreeSet<String>) {
        self.views.retain(|id, _| known.contains(id));
    }
}

/// The clusters that there are.
fn known(ledger: &Ledger) -> BTreeSet<String> {
    let tenants = ledger.tenants().map(|(id, _)| id);
    let all = tenants.chain([MANAGEMENT_CLUSTER]);
    all.map(str::to_owned).collect()
}

/// Never ends.
pub(super) async fn follow(
    paths: Paths,
    settings: Settings,
    book: Book,
    mut seen: Seen,
    records: watch::Sender<Records>,
) {
    let client = client_when_it_answers(&paths.agent_kubeconfig()).await;
    let (sights, mut seeing) = mpsc::channel(64);
    let given = watch::Sender::new(seen.given.clone());
    let (wishes, asking) = watch::channel(None);
    let (saying, mut said) = watch::channel(None);
    let claiming = claims::keep(paths.provider_kubeconfig(), settings.layout, asking, saying);
    let _claiming = task::spawn("claim addresses", claiming);
    let (checks, wanted) = watch::channel(seen.checks(&settings, &book.ledger()));
    let (passing, mut passed) = watch::channel(seen.passed.clone());
    let fabric = Fabric::new(paths.network());
    let by = move |machine| fabric.socket_by(machine);
    let _checking = task::spawn("check nodes", health::keep(wanted, passing, by));
    let management = follow::cluster(
        MANAGEMENT_CLUSTER.to_owned(),
        client.clone(),
        sights.clone(),
        given.subscribe(),
    );
    let _management = task::spawn("follow management cluster", management);
    let mut tenants = Tenants::new(client.clone(), settings.layout, sights, given.subscribe());
    let ours = watcher::Config::default().labels(CONTROL_PLANE);
    let pods: Feed<Pod> = Feed::start(Api::all(client), ours);
    let mut of_pods = pin!(pods.subscribe().ready_chunks(256));
    pods.ready().await;
    let mut of_book = book.watch();
    let mut stored = Seen::default();
    loop {
        let ledger = of_book.borrow_and_update().clone();
        tenants.keep(&ledger);
        let known = known(&ledger);
        seen.settle(&known);
        if let Some(news) = said.borrow_and_update().clone() {
            seen.given = news;
        }
        seen.passed.clone_from(&passed.borrow_and_update());
        if stored != seen {
            // On disk before anybody acts on it: whoever starts again knows of every Service that has a claim.
            match write(&Seen::path(&paths), &serde_json::json!(seen).to_string()) {
                Ok(()) => stored.clone_from(&seen),
                Err(error) => tracing::error!(%error, "what is seen could not be written down"),
            }
        }
        let acting = pods.store().state();
        let mut acting: Vec<_> = acting.iter().filter_map(|it| pod(it)).collect();
        acting.sort_by_key(|pod| pod.address);
        let next = seen.records(&settings, &ledger, &acting);
        tell(&records, next);
        tell(&given, seen.given.clone());
        tell(&checks, seen.checks(&settings, &ledger));
        if stored == seen {
            let views = seen.views.clone();
            tell(&wishes, Some(Wishes { known, views }));
        }
        tokio::select! {
            _ = of_pods.next() => {}
            Some((id, view)) = seeing.recv() => {
                seen.views.insert(id, view);
            }
            changed = of_book.changed() => if changed.is_err() { return },
            changed = said.changed() => if changed.is_err() { return },
            changed = passed.changed() => if changed.is_err() { return },
        }
    }
}

/// Whoever listens is woken only by news.
fn tell<T: PartialEq>(listeners: &watch::Sender<T>, next: T) {
    listeners.send_if_modified(|held| {
        let changed = *held != next;
        *held = next;
        changed
    });
}

/// A client with a kubeconfig that may not be there yet, of a cluster that may not answer yet: whoever watches a
/// cluster that is down tries again more and more seldom.
pub(super) async fn client_when_it_answers(kubeconfig: &Path) -> Client {
    loop {
        match timeout(PATIENCE, client(kubeconfig)).await {
            Ok(Ok(client)) => return client,
            Ok(Err(error)) => tracing::debug!(%error, "no management cluster yet"),
            Err(late) => tracing::debug!(%late, "the management cluster does not answer"),
        }
        sleep(LOOK).await;
    }
}

async fn client(kubeconfig: &Path) -> Result<Client, Box<dyn std::error::Error + Send + Sync>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    client.apiserver_version().await?;
    Ok(client)
}

/// A pod that acts for its tenant: from when it has an address until it has ended.
fn pod(pod: &Pod) -> Option<SeenPod> {
    let status = pod.status.as_ref()?;
    let ended = ["Succeeded", "Failed"].map(Some);
    if ended.contains(&status.phase.as_deref()) {
        return None;
    }
    Some(SeenPod {
        namespace: pod.namespace()?,
        control_plane: pod.labels().get(CONTROL_PLANE)?.clone(),
        address: status.pod_ip.as_ref()?.parse().ok()?,
        machine: status.host_ip.as_ref()?.parse().ok()?,
    })
}
