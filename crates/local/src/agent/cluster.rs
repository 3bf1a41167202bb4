//! Follows the management cluster: its nodes and Services become routes, and Services get addresses.

use std::{collections::BTreeMap, net::Ipv4Addr, path::Path, time::Duration};

use butler_fabric::Records;
use butler_runtime::watch::{Feed, Watchable};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{Patch, PatchParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::watcher,
};
use serde_json::json;
use tokio::{sync::watch, time::sleep};

use super::{
    book::Book,
    world::{self, SeenNode, SeenService},
};
use crate::settings::{Paths, Settings};

/// The field manager of Services' addresses.
const MANAGER: &str = "butler-local";
/// The cluster is being made: nothing can tell when its kubeconfig will be there.
const LOOK: Duration = Duration::from_millis(200);

/// Never ends.
pub(super) async fn follow(
    paths: Paths,
    settings: Settings,
    book: Book,
    records: watch::Sender<Records>,
) {
    let client = loop {
        match client(&paths.kubeconfig()).await {
            Ok(client) => break client,
            Err(error) => tracing::debug!(%error, "no management cluster yet"),
        }
        sleep(LOOK).await;
    };
    let nodes: Feed<Node> = feed(&client);
    let services: Feed<Service> = feed(&client);
    let mut last = None;
    let of_cluster = stream::select(
        nodes.subscribe().map(|_| ()),
        services.subscribe().map(|_| ()),
    );
    let of_book = stream::unfold(book.watch(), |mut book| async move {
        book.changed().await.ok().map(|()| ((), book))
    });
    let news = stream::select(of_cluster, of_book);
    let mut news = std::pin::pin!(news.ready_chunks(256));
    nodes.ready().await;
    services.ready().await;
    while news.next().await.is_some() {
        let seen_nodes: Vec<_> = nodes
            .store()
            .state()
            .iter()
            .filter_map(|it| node(it))
            .collect();
        let all = services.store().state();
        let wanting: Vec<_> = all.iter().filter_map(|it| service(it)).collect();
        let given = world::assign(settings.layout, &wanting, &mut last);
        let next = world::records(&settings, &book.ledger(), &seen_nodes, &given);
        records.send_if_modified(|held| {
            let changed = *held != next;
            held.clone_from(&next);
            changed
        });
        for service in &wanting {
            let address = given.get(&service.name).copied();
            if address != service.held
                && let Err(error) = report(&client, &service.name, address).await
            {
                tracing::warn!(%error, service = ?service.name, "an address could not be reported");
            }
        }
    }
}

/// A client with the administrator's kubeconfig.
pub(crate) async fn client(
    kubeconfig: &Path,
) -> Result<Client, Box<dyn std::error::Error + Send + Sync>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

fn feed<K: Watchable<Scope: kube::core::ResourceScope>>(client: &Client) -> Feed<K> {
    Feed::start(Api::all(client.clone()), watcher::Config::default())
}

/// What is known of a node; nothing without an address.
fn node(node: &Node) -> Option<SeenNode> {
    let status = node.status.as_ref()?;
    let addresses = status.addresses.iter().flatten();
    let internal = addresses.into_iter().find(|it| it.type_ == "InternalIP")?;
    let pods = node.spec.as_ref().and_then(|spec| spec.pod_cidr.as_ref());
    let conditions = status.conditions.iter().flatten();
    let mut ready = conditions.filter(|it| it.type_ == "Ready");
    Some(SeenNode {
        address: internal.address.parse().ok()?,
        pods: pods.and_then(|it| it.parse().ok()),
        ready: ready.any(|it| it.status == "True"),
    })
}

/// A Service that wants an address from us.
fn service(service: &Service) -> Option<SeenService> {
    let spec = service.spec.as_ref()?;
    let wants = spec.type_.as_deref() == Some("LoadBalancer") && spec.load_balancer_class.is_none();
    if !wants || service.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = service
        .status
        .as_ref()
        .and_then(|it| it.load_balancer.as_ref());
    let held = status.and_then(|it| it.ingress.as_ref()?.first()?.ip.as_deref()?.parse().ok());
    let asked = spec
        .load_balancer_ip
        .as_ref()
        .and_then(|it| it.parse().ok());
    Some(SeenService {
        name: (service.namespace()?, service.name_any()),
        held,
        asked,
    })
}

async fn report(
    client: &Client,
    (namespace, name): &(String, String),
    address: Option<Ipv4Addr>,
) -> Result<(), kube::Error> {
    let ingress: Vec<_> = address
        .iter()
        .map(|ip| BTreeMap::from([("ip", ip)]))
        .collect();
    let status = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name },
        "status": { "loadBalancer": { "ingress": ingress } },
    });
    let api: Api<Service> = Api::namespaced(client.clone(), namespace);
    let parameters = PatchParams::apply(MANAGER).force();
    api.patch_status(name, &parameters, &Patch::Apply(&status))
        .await
        .map(drop)
}
