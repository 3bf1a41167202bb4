//! `butler controller`.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use butler_controller::Surroundings;
use butler_runtime::{
    clock::SystemClock,
    endpoints::{self, Readiness},
    lease,
    metrics::Metrics,
    shutdown,
};
use kube::Client;

/// Settings of the controller process.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, env = "BUTLER_ADDRESS", default_value = "0.0.0.0:8080")]
    address: SocketAddr,
    /// Namespace of the lease that one replica at a time holds
    #[arg(long, env = "POD_NAMESPACE", default_value = butler_api::names::SYSTEM_NAMESPACE)]
    namespace: String,
    /// Who this replica is, different for each
    #[arg(long, env = "HOSTNAME", default_value = "butler-controller")]
    identity: String,
}

/// Runs until the process is asked to end. The client comes from KUBECONFIG or the service account.
pub(crate) async fn run(args: Args) -> Result<()> {
    let (shutdown, _signals) = shutdown::on_signal().context("could not listen for signals")?;
    let client = Client::try_default().await.context(
        "could not find a cluster: set KUBECONFIG, or run in a pod with a service account",
    )?;
    let (metrics, readiness) = (Metrics::default(), Readiness::default());
    let _endpoints = endpoints::serve(args.address, metrics.clone(), readiness.clone())
        .await
        .with_context(|| format!("could not listen on {}", args.address))?;
    let clock = SystemClock::shared();
    let surroundings = Surroundings::new(Arc::clone(&clock), metrics, readiness);
    let settings = lease::Settings::new(&args.namespace, butler_controller::LEASE, &args.identity);
    lease::guard(client.clone(), &settings, clock, &shutdown, || {
        butler_controller::run(client.clone(), surroundings.clone(), shutdown.clone())
    })
    .await;
    tracing::info!("ended");
    Ok(())
}
