//! The controllers of addons as a process of their own, so that the kernel tells what they cost.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::{Context, Result};
use butler_controller::{Surroundings, addon_engine::Settings};
use butler_runtime::{
    clock::SystemClock,
    endpoints::{self, Readiness},
    logging::{self, Format},
    metrics::Metrics,
    shutdown,
};
use kube::Client;

/// Where Helm is and where things are written.
#[derive(clap::Args)]
pub(crate) struct Alone {
    /// The program
    #[arg(long)]
    helm: PathBuf,
    /// A folder for charts
    #[arg(long)]
    folder: PathBuf,
    /// Where metrics are served
    #[arg(long)]
    address: SocketAddr,
    /// Which log lines are written
    #[arg(long, default_value = "error")]
    log: String,
    /// Not looked at: other processes that are measured have it
    #[arg(long)]
    namespace: Option<String>,
}

/// Runs until the process is asked to end.
pub(crate) fn run(alone: Alone) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("could not start an async runtime")?;
    runtime.block_on(async {
        logging::init(Format::Text, &alone.log);
        let (shutdown, _signals) = shutdown::on_signal().context("could not listen for signals")?;
        let client = Client::try_default().await.context("no KUBECONFIG")?;
        let (metrics, readiness) = (Metrics::default(), Readiness::default());
        let _endpoints = endpoints::serve(alone.address, metrics.clone(), readiness.clone())
            .await
            .context("could not serve metrics")?;
        let surroundings = Surroundings::new(SystemClock::shared(), metrics, readiness);
        let surroundings = surroundings.with_addons(Settings {
            helm: alone.helm,
            folder: alone.folder,
            mirrors: Vec::new(),
        });
        butler_controller::run_addons(client, surroundings, shutdown).await;
        Ok(())
    })
}
