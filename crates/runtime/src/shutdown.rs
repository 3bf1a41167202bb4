//! Graceful shutdown on SIGTERM and Ctrl-C.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::task::{self, Task};

/// A token that is cancelled when the process is asked to end.
///
/// Keep the task: dropping it stops listening.
pub fn on_signal() -> std::io::Result<(CancellationToken, Task)> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    let listener = task::spawn("signals", async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("asked to end by SIGTERM"),
            _ = interrupt.recv() => tracing::info!("asked to end by SIGINT"),
        }
        cancelled.cancel();
    });
    Ok((token, listener))
}
