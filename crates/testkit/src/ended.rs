//! Noticing that a server is no longer there, for whoever keeps one for a long time.

use std::time::Duration;

use tokio::time::interval;

use crate::{Server, server::Error};

impl Server {
    /// Resolves when a component of a server that this process started has ended by itself, with its name and log.
    pub async fn ended(&self) -> Error {
        let mut look = interval(Duration::from_secs(1));
        loop {
            look.tick().await;
            if let Some(error) = self.failure() {
                return error;
            }
        }
    }
}
