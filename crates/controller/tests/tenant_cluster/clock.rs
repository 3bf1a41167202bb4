//! Time that the test sets.

use std::sync::{Arc, Mutex, PoisonError};

use butler_runtime::{
    clock::{Clock, SystemClock},
    metrics::Metrics,
    task::{self, Task},
};
use butler_testkit::Server;
use jiff::{SignedDuration, Timestamp};

use crate::stage;

/// The machine's clock, put forward by the test.
#[derive(Default)]
pub(crate) struct Ahead(Mutex<SignedDuration>);

impl Ahead {
    /// Puts it forward to a moment.
    pub(crate) fn reach(&self, moment: Timestamp) {
        self.put(moment.duration_since(SystemClock.now()));
    }

    /// Puts it ahead of the machine's.
    pub(crate) fn put(&self, ahead: SignedDuration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ahead;
    }
}

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        let ahead = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        SystemClock.now().saturating_add(ahead).unwrap()
    }
}

/// The controllers by a clock that the test sets, until dropped. Timers go by the machine's: whoever puts the clock forward
/// lets the cluster be looked at.
pub(crate) fn run(server: &Server) -> (Arc<Ahead>, Task) {
    let clock = Arc::<Ahead>::default();
    let shared = Arc::<Ahead>::clone(&clock);
    let client = server.client_for(&stage::controller_user());
    let work = stage::work_at(client, Metrics::default(), shared);
    (clock, task::spawn("controllers", work))
}
