//! The watch on Pods: binds those without a node to ours, as a scheduler would, and runs those of our node, as a
//! kubelet would.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ObjectMeta, PostParams},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event},
    },
};
use tokio::{sync::watch, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Host, NODE,
    life::{self, Wish},
};

/// What others need to know of a pod to send it connections.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) namespace: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) ready: bool,
    pub(super) terminating: bool,
    /// It has an address and has not ended.
    pub(super) reachable: bool,
    pub(super) ports: BTreeMap<String, u16>,
}

impl View {
    fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let mut conditions = status.iter().flat_map(|it| it.conditions.iter().flatten());
        let phase = status.and_then(|status| status.phase.as_deref());
        let address = status.and_then(|status| status.pod_ip.as_ref());
        let spec = pod.spec.as_ref();
        let containers = spec.into_iter().flat_map(|spec| {
            let inits = spec.init_containers.iter().flatten();
            inits.chain(&spec.containers)
        });
        let ports = containers.flat_map(|container| container.ports.iter().flatten());
        Self {
            namespace: pod.namespace().unwrap_or_default(),
            labels: pod.labels().clone(),
            ready: conditions.any(|it| it.type_ == "Ready" && it.status == "True"),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            reachable: address.is_some() && !matches!(phase, Some("Succeeded" | "Failed")),
            ports: ports
                .filter_map(|port| {
                    let number = u16::try_from(port.container_port).ok()?;
                    Some((port.name.clone()?, number))
                })
                .collect(),
        }
    }
}

/// A pod that is being run.
struct Held {
    wish: watch::Sender<Wish>,
    task: AbortOnDropHandle<()>,
}

/// Runs pods for ever; dropped, it ends them.
pub(super) async fn run(host: Arc<Host>) {
    let pods: Api<Pod> = Api::all(host.client.clone());
    let changes = watcher::watcher(pods, watcher::Config::default()).default_backoff();
    let mut changes = pin!(changes);
    let mut held: HashMap<String, Held> = HashMap::new();
    let mut listed = HashSet::new();
    while let Some(change) = changes.next().await {
        match change {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => {
                listed.insert(pod.uid().unwrap_or_default());
                apply(&host, &mut held, pod).await;
            }
            Ok(Event::InitDone) => {
                let missing = |uid: &&String| !listed.contains(*uid);
                let gone: Vec<String> = held.keys().filter(missing).cloned().collect();
                for uid in &gone {
                    vanish(&host, &mut held, uid);
                }
            }
            Ok(Event::Apply(pod)) => apply(&host, &mut held, pod).await,
            Ok(Event::Delete(pod)) => {
                vanish(&host, &mut held, &pod.uid().unwrap_or_default());
            }
            Err(error) => host.note(&format!("the watch on Pods failed: {error}")),
        }
    }
}

async fn apply(host: &Arc<Host>, held: &mut HashMap<String, Held>, pod: Pod) {
    let uid = pod.uid().unwrap_or_default();
    host.views().insert(uid.clone(), View::of(&pod));
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let ended = matches!(phase, Some("Succeeded" | "Failed"));
    let terminating = pod.metadata.deletion_timestamp.is_some();
    match (node, held.get(&uid)) {
        (Some(NODE), Some(known)) if terminating => end(known, &pod),
        (Some(NODE), None) if terminating => life::delete(host, &pod).await,
        (Some(NODE), None) if !ended => {
            let (wish, wished) = watch::channel(Wish::Run);
            let task = tokio::spawn(life::live(Arc::clone(host), pod, wished));
            let task = AbortOnDropHandle::new(task);
            held.insert(uid, Held { wish, task });
        }
        (None, _) if !terminating => bind(host, &pod).await,
        _ => {}
    }
}

/// Passes on that a pod shall end; the first deadline stands, unless a later one is earlier.
fn end(held: &Held, pod: &Pod) {
    let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
    let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let deadline = Instant::now() + grace;
    held.wish.send_if_modified(|wish| match *wish {
        Wish::End(earlier) if earlier <= deadline => false,
        Wish::Vanish => false,
        Wish::Run | Wish::End(_) => {
            *wish = Wish::End(deadline);
            true
        }
    });
}

fn vanish(host: &Host, held: &mut HashMap<String, Held>, uid: &str) {
    host.views().remove(uid);
    if let Some(Held { wish, task }) = held.remove(uid) {
        wish.send_replace(Wish::Vanish);
        // It cleans up after itself and ends.
        task.detach();
    }
}

async fn bind(host: &Host, pod: &Pod) {
    let binding = Binding {
        metadata: ObjectMeta {
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(NODE.to_owned()),
            ..ObjectReference::default()
        },
    };
    let api: Api<Pod> = host.api(pod);
    let params = PostParams::default();
    let bound: Result<serde_json::Value, _> = api
        .create_subresource("binding", &pod.name_any(), &params, &binding)
        .await;
    match bound {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(error) => host.note(&format!("could not bind pod {}: {error}", pod.name_any())),
    }
}
