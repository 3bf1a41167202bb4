//! The endpoints that probes and scrapers ask.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

use std::time::Duration;

use butler_runtime::{
    endpoints::{self, Readiness},
    metrics::{Metrics, ReconcileMetrics},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_process_is_alive_before_it_is_ready_and_counts_its_passes() {
    let (metrics, readiness) = (Metrics::default(), Readiness::default());
    let served = endpoints::serve(
        ([127, 0, 0, 1], 0).into(),
        metrics.clone(),
        readiness.clone(),
    );
    let served = served.await.unwrap();
    assert!(
        get(served.address, "/healthz")
            .await
            .starts_with("HTTP/1.1 200")
    );
    assert!(
        get(served.address, "/readyz")
            .await
            .starts_with("HTTP/1.1 503")
    );
    readiness.set(true);
    assert!(
        get(served.address, "/readyz")
            .await
            .starts_with("HTTP/1.1 200")
    );
    ReconcileMetrics::new(&metrics).count("team", "Ok", Duration::from_millis(5));
    let text = get(served.address, "/metrics").await;
    assert!(
        text.contains(r#"butler_reconciles_total{controller="team",result="Ok"} 1"#),
        "{text}"
    );
}
