//! Follows one cluster: what is seen of it goes to whoever makes the network, and addresses that were given to its
//! Services are written into their status.

use std::{collections::BTreeMap, net::Ipv4Addr, pin::pin, time::Duration};

use butler_runtime::watch::{Feed, Watchable};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::watcher,
};
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use super::{
    addresses::Given,
    world::{SeenNode, SeenService, View},
};

/// The field manager of Services' addresses.
const MANAGER: &str = "butler-local";
/// One request may take this long: an API server that hangs must not hold the others' addresses.
const PATIENCE: Duration = Duration::from_secs(10);
/// Before an address that could not be written is written again.
const PAUSE: Duration = Duration::from_secs(2);

/// What is seen of a cluster, by its id.
pub(super) type Sight = (String, View);

/// Never ends.
pub(super) async fn cluster(
    id: String,
    client: Client,
    sights: mpsc::Sender<Sight>,
    mut given: watch::Receiver<Given>,
) {
    let nodes: Feed<Node> = feed(&client);
    let services: Feed<Service> = feed(&client);
    let news = stream::select(
        nodes.subscribe().map(|_| ()),
        services.subscribe().map(|_| ()),
    );
    let mut news = pin!(news.ready_chunks(256));
    nodes.ready().await;
    services.ready().await;
    let mut told = None;
    loop {
        let view = view(&nodes, &services);
        let own = given.borrow_and_update().get(&id).cloned();
        let written = write(&client, &view, &own.unwrap_or_default()).await;
        if told.as_ref() != Some(&view) {
            // Whoever reads ends with us.
            let _ = sights.send((id.clone(), view.clone())).await;
            told = Some(view);
        }
        tokio::select! {
            _ = news.next() => {}
            changed = given.changed() => if changed.is_err() { return },
            () = sleep(PAUSE), if !written => {}
        }
    }
}

fn feed<K: Watchable<Scope: kube::core::ResourceScope>>(client: &Client) -> Feed<K> {
    Feed::start(Api::all(client.clone()), watcher::Config::default())
}

fn view(nodes: &Feed<Node>, services: &Feed<Service>) -> View {
    let nodes = nodes.store().state();
    let services = services.store().state();
    let mut view = View {
        nodes: nodes.iter().filter_map(|it| node(it)).collect(),
        services: services.iter().filter_map(|it| service(it)).collect(),
    };
    // Stores have no order, and a view is compared.
    view.nodes.sort_by_key(|node| node.address);
    view.services
        .sort_by(|one, other| one.name.cmp(&other.name));
    view
}

/// Writes every address that a Service does not have yet; false where one could not be written.
async fn write(client: &Client, view: &View, own: &BTreeMap<String, Ipv4Addr>) -> bool {
    let mut all = true;
    for service in &view.services {
        let address = own.get(&service.name).copied();
        if address == service.held {
            continue;
        }
        let error = match timeout(PATIENCE, report(client, &service.name, address)).await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(late) => late.to_string(),
        };
        tracing::warn!(
            error,
            service = service.name,
            "an address could not be reported"
        );
        all = false;
    }
    all
}

/// What is known of a node; nothing without an address.
fn node(node: &Node) -> Option<SeenNode> {
    let status = node.status.as_ref()?;
    let addresses = status.addresses.iter().flatten();
    let internal = addresses.into_iter().find(|it| it.type_ == "InternalIP")?;
    let spec = node.spec.as_ref();
    let pods = spec.and_then(|spec| spec.pod_cidr.as_ref());
    let conditions = status.conditions.iter().flatten();
    let mut ready = conditions.filter(|it| it.type_ == "Ready");
    Some(SeenNode {
        address: internal.address.parse().ok()?,
        pods: pods.and_then(|it| it.parse().ok()),
        ready: ready.any(|it| it.status == "True"),
        draining: spec.is_some_and(|spec| spec.unschedulable == Some(true)),
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
    let port = |number: i32| u16::try_from(number).ok().filter(|it| *it != 0);
    let ports = spec.ports.iter().flatten();
    let is_tcp = |name: &Option<String>| name.as_deref().is_none_or(|name| name == "TCP");
    let mut connected = ports.filter(|it| is_tcp(&it.protocol));
    Some(SeenService {
        name: format!("{}/{}", service.namespace()?, service.name_any()),
        held,
        health_port: spec.health_check_node_port.and_then(port),
        port: connected.find_map(|it| port(it.port)),
    })
}

async fn report(client: &Client, name: &str, address: Option<Ipv4Addr>) -> Result<(), kube::Error> {
    let (namespace, name) = name.split_once('/').unwrap_or_default();
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
