//! The watch on Services: those of type `LoadBalancer` get an address of this machine on which connections are
//! carried to their pods, as a cloud's load balancer and kube-proxy would; node ports are served likewise.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::StreamExt as _;
use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use super::{
    Host,
    agent::View,
    lock,
    network::{forward, listen_host},
};

/// Where the connections to one address and port go.
#[derive(Clone, Debug, PartialEq)]
struct Route {
    namespace: String,
    selector: BTreeMap<String, String>,
    target: IntOrString,
    publish_not_ready: bool,
}

/// A listening address.
struct Entrance {
    route: Arc<Mutex<Route>>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Balanced {
    address: Option<Ipv4Addr>,
    entrances: HashMap<SocketAddr, Entrance>,
}

/// Serves Services for ever; dropped, it ends their connections.
pub(super) async fn run(host: Arc<Host>) {
    let services: Api<Service> = Api::all(host.client.clone());
    let changes = watcher::watcher(services, watcher::Config::default()).default_backoff();
    let mut changes = pin!(changes);
    let mut held: HashMap<String, Balanced> = HashMap::new();
    let mut listed = HashSet::new();
    while let Some(change) = changes.next().await {
        match change {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(service)) => {
                listed.insert(service.uid().unwrap_or_default());
                apply(&host, &mut held, &service).await;
            }
            Ok(Event::InitDone) => held.retain(|uid, _| listed.contains(uid)),
            Ok(Event::Apply(service)) => apply(&host, &mut held, &service).await,
            Ok(Event::Delete(service)) => {
                held.remove(&service.uid().unwrap_or_default());
            }
            Err(error) => host.note(&format!("the watch on Services failed: {error}")),
        }
    }
}

async fn apply(host: &Arc<Host>, held: &mut HashMap<String, Balanced>, service: &Service) {
    let spec = service.spec.clone().unwrap_or_default();
    let uid = service.uid().unwrap_or_default();
    let balanced = held.entry(uid).or_default();
    let ours = is_ours(host, &spec);
    if ours && balanced.address.is_none() {
        let wanted = spec
            .load_balancer_ip
            .as_ref()
            .and_then(|ip| ip.parse().ok());
        let wanted = wanted.filter(Ipv4Addr::is_loopback);
        balanced.address = Some(wanted.unwrap_or_else(|| host.addresses.next_balancer()));
    }
    if !ours {
        balanced.address = None;
    }
    let wanted = entrances(host, service, &spec, balanced.address);
    balanced
        .entrances
        .retain(|address, _| wanted.contains_key(address));
    let mut all_open = true;
    for (address, route) in wanted {
        if let Some(entrance) = balanced.entrances.get(&address) {
            *lock(&entrance.route) = route;
            continue;
        }
        match open(host, address, route) {
            Ok(entrance) => {
                balanced.entrances.insert(address, entrance);
            }
            Err(error) => {
                all_open = false;
                host.note(&format!(
                    "service {}: could not listen on {address}: {error}",
                    service.name_any()
                ));
            }
        }
    }
    if all_open && ours {
        publish(host, service, balanced.address).await;
    }
}

/// Whether this load balancer is the one that is meant.
fn is_ours(host: &Host, spec: &ServiceSpec) -> bool {
    let class = spec.load_balancer_class.as_deref();
    let ours = host.options.load_balancer_class.as_deref();
    spec.type_.as_deref() == Some("LoadBalancer") && (ours.is_none() || ours == class)
}

/// Everything a Service listens on.
fn entrances(
    host: &Host,
    service: &Service,
    spec: &ServiceSpec,
    address: Option<Ipv4Addr>,
) -> HashMap<SocketAddr, Route> {
    let mut entrances = HashMap::new();
    let ports = spec.ports.iter().flatten();
    let ports = ports.filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP");
    for port in ports {
        let route = route(service, spec, port);
        let number = u16::try_from(port.port).ok();
        if let (Some(address), Some(number)) = (address, number) {
            entrances.insert(SocketAddr::from((address, number)), route.clone());
        }
        let node_port = port.node_port.and_then(|port| u16::try_from(port).ok());
        if let Some(number) = node_port.filter(|number| *number != 0) {
            entrances.insert(SocketAddr::from((host.addresses.node, number)), route);
        }
    }
    entrances
}

fn route(service: &Service, spec: &ServiceSpec, port: &ServicePort) -> Route {
    let same = || IntOrString::Int(port.port);
    Route {
        namespace: service.namespace().unwrap_or_default(),
        selector: spec.selector.clone().unwrap_or_default(),
        target: port.target_port.clone().unwrap_or_else(same),
        publish_not_ready: spec.publish_not_ready_addresses == Some(true),
    }
}

fn open(host: &Arc<Host>, address: SocketAddr, route: Route) -> io::Result<Entrance> {
    let listener = listen_host(address)?;
    let route = Arc::new(Mutex::new(route));
    let turn = Arc::new(AtomicUsize::new(0));
    let dial = {
        let (host, route) = (Arc::clone(host), Arc::clone(&route));
        move || {
            let route = lock(&route).clone();
            let turn = turn.fetch_add(1, Ordering::Relaxed);
            connect(Arc::clone(&host), route, turn)
        }
    };
    let task = AbortOnDropHandle::new(tokio::spawn(forward(listener, dial)));
    Ok(Entrance { route, _task: task })
}

/// Connects to the pod whose turn it is. One that does not answer is not skipped: nobody else would, either.
async fn connect(host: Arc<Host>, route: Route, turn: usize) -> io::Result<TcpStream> {
    let chosen = choose(&host.views(), &route, turn);
    let nobody = || io::Error::other("no pod takes connections");
    let (uid, port) = chosen.ok_or_else(nobody)?;
    let network = host.network(&uid).ok_or_else(nobody)?;
    network.dial(port).await
}

/// The pod whose turn it is, and its port.
fn choose(views: &BTreeMap<String, View>, route: &Route, turn: usize) -> Option<(String, u16)> {
    if route.selector.is_empty() {
        return None;
    }
    let selected: Vec<_> = views
        .iter()
        .filter(|(_, view)| view.reachable && view.namespace == route.namespace)
        .filter(|(_, view)| {
            let mut wanted = route.selector.iter();
            wanted.all(|(key, value)| view.labels.get(key) == Some(value))
        })
        .collect();
    let those = |keep: &dyn Fn(&View) -> bool| -> Vec<_> {
        let kept = selected.iter().copied();
        kept.filter(|(_, view)| keep(view)).collect()
    };
    let mut ready = if route.publish_not_ready {
        selected.clone()
    } else {
        those(&|view| view.ready && !view.terminating)
    };
    if ready.is_empty() {
        // As kube-proxy does: rather one that is about to go than nobody.
        ready = those(&|view| view.ready);
    }
    let (uid, view) = ready.get(turn.checked_rem(ready.len())?)?;
    let port = match &route.target {
        IntOrString::Int(port) => u16::try_from(*port).ok()?,
        IntOrString::String(name) => *view.ports.get(name)?,
    };
    Some(((*uid).clone(), port))
}

/// Writes the address into the Service's status, unless it is there.
async fn publish(host: &Host, service: &Service, address: Option<Ipv4Addr>) {
    let Some(address) = address else { return };
    let ingress = match &host.options.load_balancer_domain {
        None => json!([{ "ip": address.to_string(), "ipMode": "VIP" }]),
        Some(domain) => json!([{ "hostname": hostname(address, domain) }]),
    };
    let status = service.status.as_ref();
    let held = status.and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    let held = held.and_then(|held| serde_json::to_value(held).ok());
    if held.unwrap_or(Value::Null) == ingress {
        return;
    }
    let api: Api<Service> = host.api(service);
    let patch = json!({
        "metadata": { "uid": service.uid() },
        "status": { "loadBalancer": { "ingress": ingress } },
    });
    let params = PatchParams::default();
    let name = service.name_any();
    if let Err(error) = api.patch_status(&name, &params, &Patch::Merge(patch)).await {
        host.note(&format!(
            "service {name}: could not write its address: {error}"
        ));
    }
}

/// The name under which a load balancer is published.
fn hostname(address: Ipv4Addr, domain: &str) -> String {
    format!("lb-{}.{domain}", address.to_string().replace('.', "-"))
}

/// The address behind a name that was published.
pub(super) fn resolve(hostname: &str, domain: &str) -> Option<Ipv4Addr> {
    let label = hostname.strip_suffix(domain)?.strip_suffix('.')?;
    label.strip_prefix("lb-")?.replace('-', ".").parse().ok()
}
