//! The endpoints of a long-running process: alive, ready, metrics.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::net::TcpListener;

use crate::{
    metrics::Metrics,
    task::{self, Task},
};

/// Whether the process can do its work; shared between the work and `/readyz`.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Says whether the process is ready.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    /// Whether it is.
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Endpoints that are being served; they end when this is dropped.
#[derive(Debug)]
pub struct Endpoints {
    /// Where they listen, with the real port.
    pub address: SocketAddr,
    _server: Task,
}

/// Serves `/healthz`, `/readyz` and `/metrics`; port 0 picks a free one.
pub async fn serve(
    address: SocketAddr,
    metrics: Metrics,
    readiness: Readiness,
) -> std::io::Result<Endpoints> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let server = task::spawn("endpoints", async move {
        if let Err(error) = axum::serve(listener, router(metrics, readiness)).await {
            tracing::error!(%error, "the endpoints ended");
        }
    });
    Ok(Endpoints {
        address,
        _server: server,
    })
}

fn router(metrics: Metrics, readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready).with_state(readiness))
        .route("/metrics", get(scrape).with_state(metrics))
}

async fn ready(State(readiness): State<Readiness>) -> (StatusCode, &'static str) {
    if readiness.is_ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the first lists are not complete\n",
        )
    }
}

async fn scrape(State(metrics): State<Metrics>) -> Result<String, StatusCode> {
    metrics
        .encode()
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}
