//! Waiting for something that cannot be watched because whoever would tell is not there yet.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::Error;

const INTERVAL: Duration = Duration::from_millis(100);

/// Asks until the answer is good; a failure says what was waited for and how it was at the end.
pub(crate) async fn until<T>(
    what: &str,
    patience: Duration,
    mut ask: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T, Error> {
    let deadline = Instant::now() + patience;
    loop {
        let last = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(last) => last,
        };
        if Instant::now() > deadline {
            return Err(Error::Late {
                what: what.to_owned(),
                patience,
                last,
            });
        }
        sleep(INTERVAL).await;
    }
}
