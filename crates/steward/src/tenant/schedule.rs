//! When to look at a tenant next. Pure: time and chance are arguments.
//!
//! After a change we look soon, since whoever undoes our work does so at once; then ever more rarely. Looks are spread, so
//! that a thousand tenants that were found in one moment are not looked at in one.

use std::time::Duration;

use butler_runtime::backoff::{Backoff, spread};
use jiff::Timestamp;

/// What a look at a tenant was like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Everything stood as planned.
    Quiet,
    /// Something had to be written.
    Changed,
    /// It did not work out, or not for every object.
    Failed,
}

/// How often one tenant is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    quiet: u32,
    failed: u32,
}

/// The wait after a change, and after the first quiet look.
const SOON: [Duration; 2] = [Duration::from_secs(10), Duration::from_mins(1)];
/// The wait between looks at a tenant in which nothing happens.
const CALM: Duration = Duration::from_mins(5);
/// The waits after looks that failed.
const FAILING: Backoff = Backoff {
    first: Duration::from_secs(2),
    longest: CALM,
};

impl Schedule {
    /// Records a look and says when to look again; `chance` lies in `0.0..1.0`.
    pub fn after(&mut self, look: Look, now: Timestamp, chance: f64) -> Timestamp {
        let wait = match look {
            Look::Quiet => {
                *self = Self {
                    quiet: self.quiet.saturating_add(1),
                    failed: 0,
                };
                spread(self.calmness(), chance)
            }
            Look::Changed => {
                *self = Self::default();
                spread(self.calmness(), chance)
            }
            Look::Failed => {
                *self = Self {
                    quiet: 0,
                    failed: self.failed.saturating_add(1),
                };
                FAILING.delay(self.failed, chance)
            }
        };
        now.checked_add(wait).unwrap_or(Timestamp::MAX)
    }

    fn calmness(self) -> Duration {
        let index = usize::try_from(self.quiet).unwrap_or(usize::MAX);
        SOON.get(index).copied().unwrap_or(CALM)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(schedule: &mut Schedule, look: Look, chance: f64) -> i64 {
        schedule
            .after(look, Timestamp::UNIX_EPOCH, chance)
            .as_second()
    }

    #[test]
    fn looks_follow_a_change_soon_and_then_become_rare() {
        let mut schedule = Schedule::default();
        let mut next = |look| seconds(&mut schedule, look, 0.5);
        assert_eq!(
            [
                next(Look::Changed),
                next(Look::Quiet),
                next(Look::Quiet),
                next(Look::Quiet)
            ],
            [10, 60, 300, 300]
        );
        assert_eq!(next(Look::Changed), 10);
    }

    #[test]
    fn looks_that_fail_wait_longer_each_time_up_to_the_usual_wait() {
        let mut schedule = Schedule::default();
        let mut next = || seconds(&mut schedule, Look::Failed, 0.5);
        assert_eq!([next(), next(), next()], [2, 4, 8]);
        (0..20).for_each(|_| {
            next();
        });
        assert_eq!(next(), 300);
    }

    proptest! {
        #[test]
        fn a_tenant_is_looked_at_at_least_every_six_minutes(looks in 0_u32..50, chance in 0.0..1.0) {
            let mut schedule = Schedule { quiet: looks, failed: looks };
            prop_assert!(seconds(&mut schedule, Look::Quiet, chance) <= 360);
            prop_assert!(seconds(&mut schedule, Look::Failed, chance) <= 360);
        }
    }
}
