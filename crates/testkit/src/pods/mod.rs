//! Pods that run: the scheduler, the kubelet and the load balancer of a test server.
//!
//! [`Pods`] makes a Node, binds every Pod to it and runs its containers as processes of this machine, with
//! exactly the arguments, files and environment of the Pod: each pod in its own network, mount and process
//! namespaces, each container in its own root. `any.registry/path/<name>:<version>` is the program of that name and
//! version in the toolchain. Services of type `LoadBalancer` get an address that works from this machine.
//! With [`Options::with_controller_manager`](crate::Options::with_controller_manager), Deployments roll out for real.
//!
//! Addresses of pods and load balancers are of 127.0.0.0/8, and a pod can reach nothing but itself and the ports
//! of this machine that [`PodOptions::reach`] names. The API server accepts no such address in an
//! `EndpointSlice`, so these stay empty; the load balancer looks at the Pods themselves.
//!
//! Everything is gone when the value is dropped, or the process ends in whatever way.

mod addresses;
mod agent;
mod balancer;
mod checks;
mod container;
mod environment;
mod image;
mod life;
mod network;
mod options;
mod probe;
mod sandbox;
mod sources;
mod status;
mod volumes;

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, OpenOptions},
    io::{self, Write as _},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use butler_toolchain::Toolchain;
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Node, Pod},
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::{net::TcpStream, runtime::Runtime};

pub use self::options::PodOptions;
use self::{
    addresses::Addresses,
    agent::View,
    network::{Doorman, Network},
    sandbox::Sandbox,
};
use crate::{FIELD_MANAGER, Server, guardian::Guardian, server};

/// The node that every pod is bound to.
pub const NODE: &str = "butler-testkit";

/// By which its requests are found in the audit log.
pub const USER_AGENT: &str = "butler-testkit-pods";

/// How long the tasks may take to end.
const LAST_STEPS: Duration = Duration::from_secs(10);

/// Why pods cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This process may not make namespaces.
    #[error(
        "could not make the namespaces of a pod: {reason}; that takes root, or `unshare --user --map-root-user` before \
         the command where unprivileged user namespaces are allowed"
    )]
    Namespaces {
        /// What was said.
        reason: String,
    },
    /// The folder or the toolchain could not be used.
    #[error("could not prepare to run pods")]
    Prepare(#[source] Box<server::Error>),
    /// A thread or socket of this machine could not be made.
    #[error("could not make a thread or socket to run pods with")]
    Machine(#[source] io::Error),
    /// The server refused the node.
    #[error("could not write the node {NODE}")]
    Node(#[source] Box<kube::Error>),
}

/// A pod whose namespaces are there.
struct Running {
    namespace: String,
    name: String,
    uid: String,
    sandbox: Arc<Sandbox>,
    network: Arc<Network>,
    /// The processes of its containers, as the pod counts them.
    pids: Mutex<HashMap<String, u32>>,
}

/// What all parts share.
struct Host {
    client: Client,
    toolchain: Toolchain,
    folder: PathBuf,
    options: PodOptions,
    doorman: Doorman,
    addresses: Addresses,
    running: Mutex<HashMap<String, Arc<Running>>>,
    views: Mutex<BTreeMap<String, View>>,
    numbers: AtomicU64,
}

impl Host {
    /// The objects of this kind in the namespace of this one.
    fn api<K>(&self, object: &K) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        let namespace = object.namespace().unwrap_or_default();
        Api::namespaced(self.client.clone(), &namespace)
    }

    /// Writes down what went wrong outside of any pod, for whoever wonders.
    fn note(&self, text: &str) {
        let file = self.folder.join("pods.log");
        let file = OpenOptions::new().create(true).append(true).open(file);
        let _ = file.and_then(|mut file| writeln!(file, "{text}"));
    }

    fn log(&self, pod: &Pod, container: &str) -> PathBuf {
        let namespace = pod.namespace().unwrap_or_default();
        log_file(&self.folder, &namespace, &pod.name_any(), container)
    }

    fn views(&self) -> MutexGuard<'_, BTreeMap<String, View>> {
        lock(&self.views)
    }

    fn remember(&self, running: Running) {
        lock(&self.running).insert(running.uid.clone(), Arc::new(running));
    }

    fn forget(&self, uid: &str) -> Option<Arc<Running>> {
        lock(&self.running).remove(uid)
    }

    fn started(&self, pod: &Pod, container: &str, pid: u32) {
        let uid = pod.uid().unwrap_or_default();
        if let Some(running) = lock(&self.running).get(&uid) {
            lock(&running.pids).insert(container.to_owned(), pid);
        }
    }

    fn network(&self, uid: &str) -> Option<Arc<Network>> {
        let running = lock(&self.running);
        Some(Arc::clone(&running.get(uid)?.network))
    }

    fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

/// Runs the Pods of a server; dropped, it ends every process of them.
pub struct Pods {
    host: Arc<Host>,
    /// Its own, so that a test that blocks does not stop the connections of its pods.
    runtime: Option<Runtime>,
    /// Declared after what uses the folder: it is removed last.
    _guardian: Guardian,
    _server: Server,
}

impl Pods {
    /// Starts to run every Pod of the server, and to balance the load of its Services.
    pub async fn start(server: &Server, options: PodOptions) -> Result<Self, Error> {
        let prepare = |error| Error::Prepare(Box::new(error));
        let guardian = Guardian::new().map_err(prepare)?;
        let folder = guardian.folder().to_owned();
        fs::create_dir_all(folder.join("logs")).map_err(Error::Machine)?;
        let toolchain = Toolchain::locate().map_err(server::Error::toolchain);
        let toolchain = toolchain.map_err(prepare)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("pods")
            .enable_all()
            .build()
            .map_err(Error::Machine)?;
        // A client works on the runtime on which it was made.
        let client = {
            let _inside = runtime.enter();
            server.client_called(USER_AGENT)
        };
        let host = Arc::new(Host {
            client,
            toolchain,
            folder,
            options,
            doorman: Doorman::start().map_err(Error::Machine)?,
            addresses: Addresses::claim().map_err(Error::Machine)?,
            running: Mutex::default(),
            views: Mutex::default(),
            numbers: AtomicU64::new(0),
        });
        let pods = Self {
            host: Arc::clone(&host),
            runtime: Some(runtime),
            _guardian: guardian,
            _server: server.clone(),
        };
        pods.on_runtime(prepare_node(Arc::clone(&host))).await?;
        let runtime = pods.runtime.as_ref().expect("it is taken on drop");
        runtime.spawn(agent::run(Arc::clone(&host)));
        runtime.spawn(balancer::run(host));
        Ok(pods)
    }

    /// The folder with the logs, and with the files of every pod while it runs.
    pub fn folder(&self) -> &Path {
        &self.host.folder
    }

    /// What a container wrote, over all its restarts; it stays after the pod is gone.
    pub fn logs(&self, namespace: &str, pod: &str, container: &str) -> String {
        let file = log_file(&self.host.folder, namespace, pod, container);
        fs::read_to_string(file).unwrap_or_default()
    }

    /// Connects to a port of a pod, declared or not; nothing when no such pod runs.
    pub async fn dial(&self, namespace: &str, pod: &str, port: u16) -> Option<TcpStream> {
        let network = Arc::clone(&self.find(namespace, pod)?.network);
        network.dial(port).await.ok()
    }

    /// Kills the process of a container, as a crash would; says whether there was one.
    pub fn kill(&self, namespace: &str, pod: &str, container: &str) -> bool {
        let Some(running) = self.find(namespace, pod) else {
            return false;
        };
        let pid = lock(&running.pids).get(container).copied();
        pid.is_some_and(|pid| running.sandbox.signal(pid, "KILL").is_ok())
    }

    /// The address of the node; node ports answer there.
    pub fn node_address(&self) -> Ipv4Addr {
        self.host.addresses.node
    }

    /// The address behind the published name of a load balancer.
    pub fn resolve(&self, hostname: &str) -> Option<Ipv4Addr> {
        let domain = self.host.options.load_balancer_domain.as_deref()?;
        balancer::resolve(hostname, domain)
    }

    fn find(&self, namespace: &str, pod: &str) -> Option<Arc<Running>> {
        let running = lock(&self.host.running);
        let mut all = running.values();
        let found = all.find(|it| it.namespace == namespace && it.name == pod);
        found.map(Arc::clone)
    }

    async fn on_runtime<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let runtime = self.runtime.as_ref().expect("it is taken on drop");
        let done = runtime.spawn(work).await;
        done.map_err(|error| Error::Machine(io::Error::other(error)))?
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        // All at once: each takes a few milliseconds to die.
        for running in lock(&self.host.running).values() {
            running.sandbox.close();
        }
        if let Some(runtime) = self.runtime.take() {
            // Waiting is not allowed on the thread of another runtime, which a test's is.
            let ending = std::thread::spawn(move || runtime.shutdown_timeout(LAST_STEPS));
            let _ = ending.join();
        }
        let left: Vec<_> = lock(&self.host.running).drain().collect();
        for (_, running) in &left {
            running.sandbox.end();
        }
    }
}

/// Makes sure that namespaces can be made, and writes the node.
async fn prepare_node(host: Arc<Host>) -> Result<(), Error> {
    let trial = host.folder.join("trial");
    fs::create_dir_all(&trial).map_err(Error::Machine)?;
    let tried = Sandbox::start(&trial, NODE).await;
    let tried = tried.map_err(|error| Error::Namespaces {
        reason: error.to_string(),
    })?;
    drop(tried);
    let api: Api<Node> = Api::all(host.client.clone());
    let resources = json!({ "cpu": "64", "memory": "256Gi", "pods": "10000" });
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } });
    let status = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": host.addresses.node.to_string() }],
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady",
                "message": "the test kit runs pods",
                "lastHeartbeatTime": jiff::Timestamp::now(),
                "lastTransitionTime": jiff::Timestamp::now(),
            }],
        },
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let refused = |error| Error::Node(Box::new(error));
    let patch = Patch::Apply(&node);
    api.patch(NODE, &params, &patch).await.map_err(refused)?;
    let patch = Patch::Apply(&status);
    api.patch_status(NODE, &params, &patch)
        .await
        .map_err(refused)?;
    Ok(())
}

fn log_file(folder: &Path, namespace: &str, pod: &str, container: &str) -> PathBuf {
    let name = format!("{namespace}_{pod}_{container}.log");
    folder.join("logs").join(name)
}

/// Whether every user id exists here: as a mapped root this process can be nobody else.
fn is_real_root() -> bool {
    static REAL: OnceLock<bool> = OnceLock::new();
    *REAL.get_or_init(|| {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let words: Vec<&str> = map.split_whitespace().collect();
        matches!(words.as_slice(), ["0", "0", "4294967295"]) && rustix::process::geteuid().is_root()
    })
}

/// A panic elsewhere leaves what these locks guard whole: each holds it for one statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
