//! Figures of the foundation: how long a warm start takes, and what idle controllers write.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use butler_testkit::{Options, Server};
use butler_toolchain::{Group, Selection, Toolchain, progress};
use tokio_util::sync::CancellationToken;

use super::Figure;
use crate::up;

/// How long the controllers are watched doing nothing.
const QUIET: Duration = Duration::from_mins(1);

pub(super) fn measure() -> Result<Vec<Figure>> {
    let started = Instant::now();
    Toolchain::locate()?.ensure(
        &Selection::Group(Group::Test),
        progress::for_stderr().as_ref(),
    )?;
    let toolchain = started.elapsed();

    let runtime = tokio::runtime::Runtime::new().context("could not start an async runtime")?;
    let started = Instant::now();
    let server = runtime.block_on(Server::start(Options::default()))?;
    let ready = started.elapsed();
    let idle_writes = runtime.block_on(idle_writes(&server))?;

    Ok(vec![
        Figure {
            name: "toolchain check, warm",
            value: toolchain.as_secs_f64(),
            goal: 1.0,
            unit: "s",
        },
        Figure {
            name: "test server ready, warm",
            value: ready.as_secs_f64(),
            goal: 5.0,
            unit: "s",
        },
        Figure {
            name: "set-up of make test beyond compiling, warm",
            value: (toolchain + ready).as_secs_f64(),
            goal: 15.0,
            unit: "s",
        },
        Figure {
            name: "writes of idle controllers in a minute",
            value: idle_writes,
            goal: 0.0,
            unit: "",
        },
        Figure {
            name: "largest definition (kubectl apply takes 256)",
            value: largest_definition()?,
            goal: 200.0,
            unit: "KiB",
        },
    ])
}

/// Writes seen by the server from controllers that have settled, with the examples in place.
#[expect(clippy::cast_precision_loss, reason = "a count of a handful")]
async fn idle_writes(server: &Server) -> Result<f64> {
    let stop = CancellationToken::new();
    let platform = up::start(server, &stop).await?;
    println!("watching idle controllers for {QUIET:?}");
    // The first pass after the examples may still be under way.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mark = server.mark().await;
    tokio::time::sleep(QUIET).await;
    let writes = server
        .writes(mark)
        .await
        .by_user(up::controller_user().name())
        .count();
    stop.cancel();
    platform.controllers.join().await;
    Ok(writes as f64)
}

#[expect(clippy::cast_precision_loss, reason = "kilobytes")]
fn largest_definition() -> Result<f64> {
    let mut largest = 0;
    for crd in butler_api::crd::all() {
        largest = largest.max(serde_json::to_vec(&crd)?.len());
    }
    Ok(largest as f64 / 1024.0)
}
