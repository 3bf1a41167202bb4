//! One pod from its binding to its end: volumes, namespaces, init containers, containers, termination.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Host, Running,
    container::{Body, Unit, restart_policy},
    network::{Network, dial_host, forward, listen_host},
    sandbox::Sandbox,
    sources::{Refusal, Sources},
    status::{self, Facts, Kind, kind_of_init},
    volumes,
};

/// How often a pod that lacks something is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How long the last status may take to be written.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// What somebody wants of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// It shall run.
    Run,
    /// It shall be gone by then.
    End(Instant),
    /// Its object is gone, so it must not exist.
    Vanish,
}

/// Runs the pod until its object is gone.
pub(super) async fn live(host: Arc<Host>, pod: Pod, mut wish: watch::Receiver<Wish>) {
    let uid = pod.uid().unwrap_or_default();
    let folder = host.folder.join("pods").join(&uid);
    let facts = Facts::of(&pod, host.addresses.node, Timestamp::now());
    let (facts, seen) = watch::channel(facts);
    let reporter = tokio::spawn(report(Arc::clone(&host), pod.clone(), seen));
    let mut reporter = AbortOnDropHandle::new(reporter);
    let mut vanish = wish.clone();
    tokio::select! {
        () = run(&host, &pod, &folder, facts, wish.clone()) => {}
        _ = vanish.wait_for(|wish| *wish == Wish::Vanish) => {}
    }
    if let Some(running) = host.forget(&uid) {
        tokio::task::block_in_place(|| running.sandbox.end());
    }
    let _ = fs::remove_dir_all(&folder);
    let _ = timeout(LAST_WRITE, &mut reporter).await;
    // A pod that ended by itself stays until somebody deletes it.
    let wish = wish.wait_for(|wish| *wish != Wish::Run).await;
    if wish.is_ok_and(|wish| *wish != Wish::Vanish) {
        delete(&host, &pod).await;
    }
}

/// Removes the object, as the last thing a kubelet does for a pod.
pub(super) async fn delete(host: &Host, pod: &Pod) {
    let preconditions = Preconditions {
        uid: pod.uid(),
        resource_version: None,
    };
    let params = DeleteParams::default()
        .grace_period(0)
        .preconditions(preconditions);
    let api: Api<Pod> = host.api(pod);
    match api.delete(&pod.name_any(), &params).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(error) => host.note(&format!("could not delete pod {}: {error}", pod.name_any())),
    }
}

/// Writes the status whenever what is known changes what it says.
async fn report(host: Arc<Host>, pod: Pod, mut facts: watch::Receiver<Facts>) {
    let api: Api<Pod> = host.api(&pod);
    let mut before = PodStatus::default();
    loop {
        let status = facts.borrow_and_update().status(&before, Timestamp::now());
        if status != before {
            let patch = status::patch(&pod, &status);
            let params = PatchParams::default();
            let written = api
                .patch_status(&pod.name_any(), &params, &Patch::Strategic(patch))
                .await;
            match written {
                Ok(_) => before = status,
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
                Err(error) => {
                    host.note(&format!("could not report {}: {error}", pod.name_any()));
                    sleep(RETRY).await;
                    continue;
                }
            }
        }
        if facts.changed().await.is_err() {
            return;
        }
    }
}

/// Runs the containers until they ended or somebody wants the pod gone.
async fn run(
    host: &Arc<Host>,
    pod: &Pod,
    folder: &Path,
    facts: watch::Sender<Facts>,
    mut wish: watch::Receiver<Wish>,
) {
    let mut stop = wish.clone();
    let started = tokio::select! {
        started = start(host, pod, folder, &facts) => started,
        _ = stop.wait_for(|wish| *wish != Wish::Run) => return,
    };
    let (sandbox, network, volumes) = started;
    let body = Arc::new(Body {
        host: Arc::clone(host),
        pod: pod.clone(),
        folder: folder.to_owned(),
        sandbox,
        network,
        volumes,
        facts,
    });
    let _relays = relays(&body).await;
    let address = Some(body.network.address);
    body.facts.send_modify(|facts| facts.address = address);
    let mut crew = Crew::new(body);
    let deadline = tokio::select! {
        () = crew.work() => Instant::now() + crew.body.grace(),
        wish = wish.wait_for(|wish| *wish != Wish::Run) => match wish.map(|wish| *wish) {
            Ok(Wish::End(deadline)) => deadline,
            _ => return,
        },
    };
    crew.end(deadline).await;
}

/// Volumes and namespaces; what is missing is waited for.
async fn start(
    host: &Arc<Host>,
    pod: &Pod,
    folder: &Path,
    facts: &watch::Sender<Facts>,
) -> (Arc<Sandbox>, Arc<Network>, volumes::Volumes) {
    let address = host.addresses.next_pod();
    loop {
        match try_start(host, pod, folder, address).await {
            Ok(started) => return started,
            Err(refusal) => {
                facts.send_modify(|facts| {
                    for seen in &mut facts.containers {
                        seen.waits(refusal.reason, &refusal.message);
                    }
                });
                sleep(RETRY).await;
            }
        }
    }
}

async fn try_start(
    host: &Arc<Host>,
    pod: &Pod,
    folder: &Path,
    address: Ipv4Addr,
) -> Result<(Arc<Sandbox>, Arc<Network>, volumes::Volumes), Refusal> {
    let sources = Sources {
        client: host.client.clone(),
        pod,
        address,
        host_address: host.addresses.node,
    };
    let volumes = volumes::materialise(&sources, &folder.join("volumes")).await?;
    fs::create_dir_all(folder).map_err(Refusal::run("make the pod's folder"))?;
    // The kernel takes no longer host name.
    let hostname: String = pod.name_any().chars().take(63).collect();
    let started = Sandbox::start(folder, &hostname).await;
    let (sandbox, namespace) = started.map_err(Refusal::run("make the pod's namespaces"))?;
    let sandbox = Arc::new(sandbox);
    let network = Network::new(address, namespace, host.doorman.clone());
    let network = Arc::new(network);
    host.remember(Running {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        sandbox: Arc::clone(&sandbox),
        network: Arc::clone(&network),
        pids: std::sync::Mutex::default(),
    });
    Ok((sandbox, network, volumes))
}

/// Carries connections to the pod's address in, and those to the ports it may reach out.
async fn relays(body: &Body) -> Vec<AbortOnDropHandle<()>> {
    let mut relays = Vec::new();
    let mut keep = |relay: Result<AbortOnDropHandle<()>, io::Error>, what: &str| match relay {
        Ok(relay) => relays.push(relay),
        Err(error) => body.host.note(&format!(
            "pod {}: could not carry {what}: {error}",
            body.pod.name_any()
        )),
    };
    let own = ports(body.pod.spec.as_ref());
    for &port in &own {
        let listener = listen_host(SocketAddr::from((body.network.address, port)));
        let network = Arc::clone(&body.network);
        let relay = listener.map(|listener| {
            let dial = move || {
                let network = Arc::clone(&network);
                async move { network.dial(port).await }
            };
            AbortOnDropHandle::new(tokio::spawn(forward(listener, dial)))
        });
        keep(relay, &format!("port {port} in"));
    }
    for &port in body
        .host
        .options
        .reach
        .iter()
        .filter(|port| !own.contains(port))
    {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let relay = body.network.listen(address).await.map(|listener| {
            let dial = move || dial_host(port);
            AbortOnDropHandle::new(tokio::spawn(forward(listener, dial)))
        });
        keep(relay, &format!("port {port} out"));
    }
    relays
}

/// The TCP ports that the containers say they serve.
fn ports(spec: Option<&PodSpec>) -> Vec<u16> {
    let containers = spec.into_iter().flat_map(|spec| {
        let inits = spec.init_containers.iter().flatten();
        inits.chain(&spec.containers)
    });
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let mut ports: Vec<u16> = ports
        .filter(|port| port.protocol.as_deref().unwrap_or("TCP") == "TCP")
        .filter_map(|port| u16::try_from(port.container_port).ok())
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// A container's task, and how to end it.
struct Member {
    stop: watch::Sender<Option<Instant>>,
    task: AbortOnDropHandle<i32>,
}

impl Member {
    async fn end(mut self, deadline: Instant) {
        self.stop.send_replace(Some(deadline));
        if !self.task.is_finished() {
            let _ = (&mut self.task).await;
        }
    }
}

/// The containers of a pod that run.
struct Crew {
    body: Arc<Body>,
    sidecars: Vec<Member>,
    mains: Vec<Member>,
}

impl Crew {
    fn new(body: Arc<Body>) -> Self {
        Self {
            body,
            sidecars: Vec::new(),
            mains: Vec::new(),
        }
    }

    fn start(&self, container: &Container, kind: Kind) -> Member {
        let (stop, stopped) = watch::channel(None);
        let unit = Unit {
            body: Arc::clone(&self.body),
            spec: container.clone(),
            restart: restart_policy(&self.body.pod, kind),
            stop: stopped,
        };
        Member {
            stop,
            task: AbortOnDropHandle::new(tokio::spawn(unit.keep())),
        }
    }

    /// Starts everything in order; returns when the pod has ended by itself.
    async fn work(&mut self) {
        let spec = self.body.pod.spec.clone().unwrap_or_default();
        for container in spec.init_containers.iter().flatten() {
            let kind = kind_of_init(container);
            let mut member = self.start(container, kind);
            if kind == Kind::Sidecar {
                self.sidecars.push(member);
                self.until_started(&container.name).await;
            } else if (&mut member.task).await.unwrap_or(1) != 0 {
                self.finish(false);
                return;
            }
        }
        self.body
            .facts
            .send_modify(|facts| facts.initialized = true);
        let mains = spec.containers.iter();
        self.mains = mains
            .map(|container| self.start(container, Kind::Main))
            .collect();
        let mut succeeded = true;
        for main in &mut self.mains {
            succeeded &= (&mut main.task).await.unwrap_or(1) == 0;
        }
        self.finish(succeeded);
    }

    async fn until_started(&self, name: &str) {
        let mut facts = self.body.facts.subscribe();
        let started = |facts: &Facts| {
            let mut containers = facts.containers.iter();
            containers.any(|seen| seen.name == name && seen.started)
        };
        let _ = facts.wait_for(started).await;
    }

    fn finish(&self, succeeded: bool) {
        self.body
            .facts
            .send_modify(|facts| facts.succeeded = Some(succeeded));
    }

    /// Ends the containers at once and then the sidecars, the last one first.
    async fn end(mut self, deadline: Instant) {
        futures::future::join_all(self.mains.drain(..).map(|main| main.end(deadline))).await;
        for sidecar in self.sidecars.drain(..).rev() {
            sidecar.end(deadline).await;
        }
    }
}
