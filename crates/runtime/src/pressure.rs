//! Work before words: while many objects wait, a pass that wrote something leaves its report to the next pass, which its
//! own writes ask for anyway. A report costs the API server as much as several creates, and whoever waits for an act
//! waits for more than whoever waits to be told of it.

use std::{cell::Cell, future::Future};

tokio::task_local! {
    static PASS: Pass;
}

/// What one pass knows of those that wait, and has done itself.
struct Pass {
    is_crowded: bool,
    has_written: Cell<bool>,
    has_put_off: Cell<bool>,
}

/// Runs a pass; says as well whether it put its report off.
pub(crate) async fn run<F: Future>(is_crowded: bool, pass: F) -> (F::Output, bool) {
    let told = Pass {
        is_crowded,
        has_written: Cell::new(false),
        has_put_off: Cell::new(false),
    };
    let pass = async {
        let result = pass.await;
        (result, PASS.with(|told| told.has_put_off.get()))
    };
    PASS.scope(told, pass).await
}

/// The pass wrote an object. Outside of a pass that is nothing to remember.
pub(crate) fn wrote() {
    let _ = PASS.try_with(|told| told.has_written.set(true));
}

/// Whether a report is left to the next pass, which then has to come. Never so outside of a pass.
pub(crate) fn put_off() -> bool {
    let ask = |told: &Pass| {
        let is_left = told.is_crowded && told.has_written.get();
        if is_left {
            told.has_put_off.set(true);
        }
        is_left
    };
    PASS.try_with(ask).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_pass_that_wrote_in_a_crowd_puts_its_report_off_and_says_so() {
        let writing = async || {
            wrote();
            put_off()
        };
        assert!(!writing().await, "outside of a pass");
        assert_eq!(run(false, writing()).await, (false, false));
        assert_eq!(run(true, writing()).await, (true, true));
        assert_eq!(run(true, async { put_off() }).await, (false, false));
        assert_eq!(run(true, async { wrote() }).await, ((), false));
    }
}
