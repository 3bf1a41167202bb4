//! `cargo xtask up`: a real API server with Butler's resources and controllers, until Ctrl-C.

mod hosting;

use std::{fmt::Debug, fs, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use butler_api::butler::Team;
use butler_controller::Surroundings;
use butler_runtime::{
    clock::SystemClock,
    conditions,
    endpoints::{self, Endpoints, Readiness},
    logging::{self, Format},
    metrics::Metrics,
    shutdown,
    task::{self, Task},
};
use butler_testkit::{Options, Server, User};
use butler_toolchain::Toolchain;
use kube::{Api, Resource, runtime::wait};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::workspace::root;

/// How long the example team may take to become ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to try with the hosted control plane.
const HOSTED: &str = "
A Kubernetes control plane runs as pods, with its own API:

  kubectl get tcp,deployments,pods -n team-a
  kubectl get secret hosted-admin-kubeconfig -n team-a -o jsonpath='{.data.admin\\.conf}' | base64 -d > hosted.conf
  kubectl --kubeconfig hosted.conf get namespaces
  kubectl scale tcp/hosted -n team-a --replicas 0        # it sleeps, and keeps its data
";

pub(crate) fn run() -> Result<()> {
    // While the server starts every probe of it fails; that is no news.
    logging::init(Format::Text, "warn,kube_client=off");
    let runtime = tokio::runtime::Runtime::new().context("could not start an async runtime")?;
    runtime.block_on(serve())
}

async fn serve() -> Result<()> {
    let (stop, _signals) = shutdown::on_signal().context("could not listen for signals")?;
    println!("==> API server: etcd, kube-apiserver, kube-controller-manager");
    let server = Server::start(Options::default().with_controller_manager())
        .await
        .context("could not start an API server")?;
    let platform = start(&server, &stop).await?;
    let hosting = hosting::start(&server, &stop, &platform.metrics).await?;
    explain(&server, platform.endpoints.address, hosting.is_some())?;
    tokio::select! {
        () = stop.cancelled() => println!("==> stopping"),
        error = server.ended() => return Err(error.into()),
    }
    platform.controllers.join().await;
    if let Some(hosting) = hosting {
        hosting.end().await;
    }
    Ok(())
}

/// Controllers that run, and where they can be asked how they are.
pub(crate) struct Platform {
    pub(crate) controllers: Task,
    endpoints: Endpoints,
    metrics: Metrics,
}

/// The service account that the controllers act as, with no more than `rbac/` grants.
pub(crate) fn controller_user() -> User {
    User::service_account(
        butler_api::names::SYSTEM_NAMESPACE,
        butler_controller::MANAGER,
    )
}

/// Starts the controllers and applies the examples, the cluster last: it needs its team's namespace.
pub(crate) async fn start(server: &Server, stop: &CancellationToken) -> Result<Platform> {
    println!("==> controllers, with the permissions of rbac/");
    apply(server, "rbac").await?;
    let (metrics, readiness) = (Metrics::default(), Readiness::default());
    let endpoints = endpoints::serve(
        ([127, 0, 0, 1], 0).into(),
        metrics.clone(),
        readiness.clone(),
    )
    .await?;
    let surroundings = Surroundings::new(SystemClock::shared(), metrics.clone(), readiness);
    let client = server.client_for(&controller_user());
    let controllers = task::spawn(
        "controllers",
        butler_controller::run(client, surroundings, stop.clone()),
    );

    println!("==> examples: a configuration, two teams, a provider, a cluster, an addon");
    apply(server, "examples/platform").await?;
    team_ready(server, stop, "team-a").await?;
    apply(server, "examples/team-a").await?;
    Ok(Platform {
        controllers,
        endpoints,
        metrics,
    })
}

/// Applies every file of a folder, in the order of their names.
pub(crate) async fn apply(server: &Server, folder: &str) -> Result<()> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join(folder))
        .with_context(|| format!("could not list {folder}"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file)
            .with_context(|| format!("could not read {}", file.display()))?;
        server
            .try_apply_yaml(&text)
            .await
            .with_context(|| format!("could not apply {}", file.display()))?;
    }
    Ok(())
}

/// Waits until an object is as it should be.
async fn until<K>(
    api: Api<K>,
    name: &str,
    stop: &CancellationToken,
    patience: Duration,
    done: impl Fn(Option<&K>) -> bool,
) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let kind = K::kind(&());
    let done = wait::await_condition(api, name, done);
    tokio::select! {
        () = stop.cancelled() => anyhow::bail!("stopped while waiting for {kind} {name}"),
        result = tokio::time::timeout(patience, done) => {
            result.with_context(|| format!("{kind} {name} was not Ready after {patience:?}"))??;
        }
    }
    Ok(())
}

async fn team_ready(server: &Server, stop: &CancellationToken, name: &str) -> Result<()> {
    let is_ready = |team: Option<&Team>| {
        let status = team.and_then(|team| team.status.as_ref());
        status.is_some_and(|status| conditions::is_true(&status.conditions, "Ready"))
    };
    until(Api::all(server.client()), name, stop, PATIENCE, is_ready).await
}

fn explain(server: &Server, endpoints: SocketAddr, hosting: bool) -> Result<()> {
    let kubectl = Toolchain::locate()?.binary("kubectl", None)?;
    println!(
        "
Butler is up. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get butlerconfig,teams,tenantclusters -A
  kubectl explain tenantcluster.spec.addons --recursive
  kubectl describe team team-a
  kubectl get rolebindings -n team-a
  kubectl scale tenantcluster/my-cluster -n team-a --replicas 5
  kubectl delete team team-a            # waits, and says for what
  curl http://{endpoints}/metrics
{hosted}
No kubectl? Ours is {kubectl}
Clusters stay Pending: their controller is not part of this yet. Ctrl-C stops everything and leaves nothing behind.",
        kubeconfig = server.kubeconfig().display(),
        kubectl = kubectl.display(),
        hosted = if hosting { HOSTED } else { "" },
    );
    Ok(())
}
