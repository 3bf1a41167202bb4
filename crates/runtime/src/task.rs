//! Tasks that have a name and end with their owner.

use std::{future::Future, sync::Arc};

use tokio::task::JoinHandle;
use tracing::Instrument;

/// A running task; dropping it ends it.
#[derive(Debug)]
#[must_use = "dropping a task ends it"]
pub struct Task<T = ()> {
    handle: JoinHandle<T>,
    name: Arc<str>,
}

impl<T> Task<T> {
    /// Waits for the end of the task; `None` when it panicked.
    pub async fn join(mut self) -> Option<T> {
        match (&mut self.handle).await {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::error!(task = %self.name, %error, "a task ended badly");
                None
            }
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// Starts a task that ends when the returned value is dropped.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the wrapper that owns every task"
)]
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl Future<Output = T> + Send + 'static,
) -> Task<T> {
    let span = tracing::info_span!("task", name);
    Task {
        handle: tokio::spawn(work.instrument(span)),
        name: name.into(),
    }
}
