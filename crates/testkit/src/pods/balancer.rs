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
    let was_ours = balanced.address.is_some();
    balanced.address = ours.then(|| {
        let wanted = spec.load_balancer_ip.as_ref();
        let wanted = wanted.and_then(|ip| ip.parse().ok());
        let wanted = wanted.filter(Ipv4Addr::is_loopback);
        let held = balanced.address.or(wanted);
        held.unwrap_or_else(|| host.addresses.next_balancer())
    });
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
    if all_open && (ours || was_ours) {
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

/// Makes the Service's status say the address, or none, unless it does.
async fn publish(host: &Host, service: &Service, address: Option<Ipv4Addr>) {
    let ingress = match (address, &host.options.load_balancer_domain) {
        (None, _) => Value::Null,
        (Some(address), None) => json!([{ "ip": address.to_string(), "ipMode": "VIP" }]),
        (Some(address), Some(domain)) => json!([{ "hostname": hostname(address, domain) }]),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn views(pods: &[(&str, bool, bool)]) -> BTreeMap<String, View> {
        let view = |ready, terminating| View {
            namespace: "ns".to_owned(),
            labels: BTreeMap::from([("app".to_owned(), "it".to_owned())]),
            ready,
            terminating,
            reachable: true,
            ports: BTreeMap::from([("web".to_owned(), 80)]),
        };
        let pods = pods.iter();
        pods.map(|(uid, ready, terminating)| ((*uid).to_owned(), view(*ready, *terminating)))
            .collect()
    }

    fn route(publish_not_ready: bool) -> Route {
        Route {
            namespace: "ns".to_owned(),
            selector: BTreeMap::from([("app".to_owned(), "it".to_owned())]),
            target: IntOrString::String("web".to_owned()),
            publish_not_ready,
        }
    }

    fn chosen(pods: &[(&str, bool, bool)], route: &Route) -> Vec<String> {
        let views = views(pods);
        let turns = (0..4).filter_map(|turn| choose(&views, route, turn));
        turns.map(|(uid, _)| uid).collect()
    }

    #[test]
    fn ready_pods_take_turns_and_those_that_end_are_left_out() {
        let pods = [
            ("a", true, false),
            ("b", true, true),
            ("c", false, false),
            ("d", true, false),
        ];
        assert_eq!(chosen(&pods, &route(false)), ["a", "d", "a", "d"]);
    }

    #[test]
    fn pods_that_end_serve_when_there_are_no_others() {
        let pods = [("a", true, true), ("b", false, false)];
        assert_eq!(chosen(&pods, &route(false)), ["a"; 4]);
        assert_eq!(chosen(&[("b", false, false)], &route(false)), [""; 0]);
    }

    #[test]
    fn a_service_that_wants_pods_before_they_are_ready_gets_them() {
        let pods = [("a", true, false), ("b", false, false)];
        assert_eq!(chosen(&pods, &route(true)), ["a", "b", "a", "b"]);
    }

    #[test]
    fn other_labels_namespaces_and_port_names_match_nothing() {
        let pods = [("a", true, false)];
        let mut elsewhere = route(false);
        elsewhere.namespace = "other".to_owned();
        let mut unlabelled = route(false);
        unlabelled
            .selector
            .insert("tier".to_owned(), "x".to_owned());
        let mut unnamed = route(false);
        unnamed.target = IntOrString::String("ssh".to_owned());
        for route in [elsewhere, unlabelled, unnamed] {
            assert_eq!(chosen(&pods, &route), [""; 0], "{route:?}");
        }
    }

    #[test]
    fn a_published_name_leads_back_to_its_address() {
        let address = Ipv4Addr::new(127, 33, 128, 1);
        let name = hostname(address, "lb.test");
        assert_eq!(resolve(&name, "lb.test"), Some(address));
        assert_eq!(resolve("lb-127-33-128-1.other", "lb.test"), None);
    }
}
