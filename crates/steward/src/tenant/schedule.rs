//! When to look at a tenant next. Pure: time and chance are arguments.
//!
//! After a change we look soon, since whoever undoes our work does so at once; then ever more rarely, also when it is undone
//! each time, so that a quarrel costs little. Looks are spread, so that a thousand tenants that were found in one moment are
//! not looked at in one.

use std::time::Duration;

use butler_runtime::backoff::Backoff;
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

/// How often one tenant is looked at: the last looks of the same sort, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    last: Option<Look>,
    streak: u32,
}

/// The longest wait between two looks.
const CALM: Duration = Duration::from_mins(5);
/// The waits after quiet looks.
const QUIET: Backoff = Backoff {
    first: Duration::from_mins(1),
    longest: CALM,
};
/// The waits after looks that changed something.
const CHANGED: Backoff = Backoff {
    first: Duration::from_secs(10),
    longest: CALM,
};
/// The waits after looks that failed.
const FAILED: Backoff = Backoff {
    first: Duration::from_secs(2),
    longest: CALM,
};

impl Schedule {
    /// Records a look and says when to look again; `chance` lies in `0.0..1.0`.
    pub fn after(&mut self, look: Look, now: Timestamp, chance: f64) -> Timestamp {
        let before = if self.last == Some(look) {
            self.streak
        } else {
            0
        };
        *self = Self {
            last: Some(look),
            streak: before.saturating_add(1),
        };
        let backoff = match look {
            Look::Quiet => QUIET,
            Look::Changed => CHANGED,
            Look::Failed => FAILED,
        };
        now.checked_add(backoff.delay(self.streak, chance))
            .unwrap_or(Timestamp::MAX)
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
        let quiet = [
            next(Look::Changed),
            next(Look::Quiet),
            next(Look::Quiet),
            next(Look::Quiet),
            next(Look::Quiet),
        ];
        assert_eq!(quiet, [10, 60, 120, 240, 300]);
        assert_eq!(next(Look::Changed), 10);
    }

    #[test]
    fn a_quarrel_with_somebody_in_the_tenant_becomes_rare_too() {
        let mut schedule = Schedule::default();
        let mut next = || seconds(&mut schedule, Look::Changed, 0.5);
        assert_eq!(
            [next(), next(), next(), next(), next(), next()],
            [10, 20, 40, 80, 160, 300]
        );
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
            let mut schedule = Schedule { last: Some(Look::Quiet), streak: looks };
            prop_assert!(seconds(&mut schedule, Look::Quiet, chance) <= 360);
            prop_assert!(seconds(&mut schedule, Look::Failed, chance) <= 360);
        }
    }
}
