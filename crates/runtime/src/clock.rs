//! Time as a parameter: the only place of the workspace that reads the system's clock.

use std::sync::Arc;

use jiff::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

/// A clock that can be handed to many tasks.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where time enters")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

impl SystemClock {
    /// The machine's clock, ready to be shared.
    pub fn shared() -> SharedClock {
        Arc::new(Self)
    }
}
