//! What every long-running part has: endpoints, a lease, an orderly end.

use std::{future::Future, net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use butler_runtime::{
    clock::{SharedClock, SystemClock},
    endpoints::{self, Readiness},
    lease,
    metrics::Metrics,
    shutdown,
};
use kube::Client;
use tokio_util::sync::CancellationToken;

/// Settings that all parts share.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, env = "BUTLER_ADDRESS", default_value = "0.0.0.0:8080")]
    address: SocketAddr,
    /// Namespace of the lease that one replica at a time holds; default: the part's own
    #[arg(long, env = "POD_NAMESPACE")]
    namespace: Option<String>,
    /// Who this replica is, different for each
    #[arg(long, env = "HOSTNAME", default_value = "butler")]
    identity: String,
}

/// What the work of a part is given.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) client: Client,
    pub(crate) clock: SharedClock,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    pub(crate) shutdown: CancellationToken,
}

/// A lease, by its namespace and name.
pub(crate) struct Lease {
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
}

/// Runs `work` while the lease is ours, until the process is asked to end. `prepare` is called once: metrics are
/// registered there, since work starts again after a lost lease. The client comes from KUBECONFIG or the service
/// account.
pub(crate) async fn run<P: Clone, W: Future<Output = ()>>(
    args: Args,
    lease: Lease,
    prepare: impl FnOnce(&Surroundings) -> P,
    work: impl Fn(Surroundings, P) -> W,
) -> Result<()> {
    let (shutdown, _signals) = shutdown::on_signal().context("could not listen for signals")?;
    let client = Client::try_default().await.context(
        "could not find a cluster: set KUBECONFIG, or run in a pod with a service account",
    )?;
    let (metrics, readiness) = (Metrics::default(), Readiness::default());
    let _endpoints = endpoints::serve(args.address, metrics.clone(), readiness.clone())
        .await
        .with_context(|| format!("could not listen on {}", args.address))?;
    let clock = SystemClock::shared();
    let surroundings = Surroundings {
        client,
        clock,
        metrics,
        readiness,
        shutdown,
    };
    let prepared = prepare(&surroundings);
    let namespace = args.namespace.as_deref().unwrap_or(lease.namespace);
    let settings = lease::Settings::new(namespace, lease.name, &args.identity);
    lease::guard(
        surroundings.client.clone(),
        &settings,
        Arc::clone(&surroundings.clock),
        &surroundings.shutdown,
        || work(surroundings.clone(), prepared.clone()),
    )
    .await;
    tracing::info!("ended");
    Ok(())
}
