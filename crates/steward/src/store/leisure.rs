//! Work that nobody waits for, done so slowly that nobody notices it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How much longer than the work the rest after it is. A store that is busy answers later, and so is asked less.
const REST: u32 = 4;
/// No rest is longer, so that one slow answer does not stop a round.
const LONGEST: Duration = Duration::from_secs(2);

/// Does one piece of work, and rests: of the time of one connection a fifth at most is used.
pub(crate) async fn at_leisure<T>(work: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let result = work.await;
    sleep((begun.elapsed() * REST).min(LONGEST)).await;
    result
}
