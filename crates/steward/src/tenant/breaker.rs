//! Leaving a tenant that does not answer alone for a while. Pure: time and chance are arguments.
//!
//! Closed, every call goes. After some failures in a row it opens, and no call goes until a moment that moves further away
//! with each failure. Then one call probes; what becomes of it closes the breaker or opens it again.

use std::time::Duration;

use butler_runtime::backoff::Backoff;
use jiff::Timestamp;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct BreakerSettings {
    /// How many failures in a row open it.
    pub threshold: u32,
    /// How long it stays open.
    pub wait: Backoff,
    /// How long a probe may take before another may go: one whose task ended never reports.
    pub probe: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            threshold: 3,
            wait: Backoff {
                first: Duration::from_secs(10),
                longest: Duration::from_mins(5),
            },
            probe: Duration::from_mins(1),
        }
    }
}

/// Whether a tenant may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Yes.
    Open,
    /// Yes, once, to see whether it answers again.
    Probe,
    /// No, not before this moment.
    ShutUntil(Timestamp),
}

/// The breaker of one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    failures: u32,
    shut_until: Option<Timestamp>,
}

impl Breaker {
    /// Asks whether to call. A probe that is granted shuts the gate for everybody else.
    pub fn ask(&mut self, settings: &BreakerSettings, now: Timestamp) -> Gate {
        match self.shut_until {
            None => Gate::Open,
            Some(until) if now < until => Gate::ShutUntil(until),
            Some(_) => {
                self.shut_until = Some(later(now, settings.probe));
                Gate::Probe
            }
        }
    }

    /// The tenant answered.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// The tenant did not answer; `chance` lies in `0.0..1.0`.
    pub fn failed(&mut self, settings: &BreakerSettings, now: Timestamp, chance: f64) {
        self.failures = self.failures.saturating_add(1);
        let beyond = self
            .failures
            .saturating_sub(settings.threshold.saturating_sub(1));
        if beyond > 0 {
            self.shut_until = Some(later(now, settings.wait.delay(beyond, chance)));
        }
    }

    /// Whether the tenant is being left alone.
    pub fn is_shut(&self) -> bool {
        self.shut_until.is_some()
    }

    /// How often in a row it did not answer.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

fn later(now: Timestamp, wait: Duration) -> Timestamp {
    now.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn settings() -> BreakerSettings {
        BreakerSettings::default()
    }

    #[test]
    fn it_shuts_after_three_failures_in_a_row_and_not_before() {
        let mut breaker = Breaker::default();
        breaker.failed(&settings(), at(0), 0.5);
        breaker.failed(&settings(), at(0), 0.5);
        breaker.succeeded();
        breaker.failed(&settings(), at(0), 0.5);
        breaker.failed(&settings(), at(0), 0.5);
        assert_eq!(breaker.ask(&settings(), at(0)), Gate::Open);
        breaker.failed(&settings(), at(0), 0.5);
        assert_eq!(breaker.ask(&settings(), at(9)), Gate::ShutUntil(at(10)));
    }

    #[test]
    fn one_probe_goes_at_a_time_and_a_lost_one_is_not_awaited_for_ever() {
        let mut breaker = Breaker::default();
        (0..3).for_each(|_| breaker.failed(&settings(), at(0), 0.5));
        assert_eq!(breaker.ask(&settings(), at(10)), Gate::Probe);
        assert_eq!(breaker.ask(&settings(), at(11)), Gate::ShutUntil(at(70)));
        assert_eq!(breaker.ask(&settings(), at(70)), Gate::Probe);
    }

    #[test]
    fn a_probe_that_fails_shuts_it_for_longer_and_one_that_succeeds_opens_it() {
        let mut breaker = Breaker::default();
        (0..3).for_each(|_| breaker.failed(&settings(), at(0), 0.5));
        assert_eq!(breaker.ask(&settings(), at(10)), Gate::Probe);
        breaker.failed(&settings(), at(10), 0.5);
        assert_eq!(breaker.ask(&settings(), at(29)), Gate::ShutUntil(at(30)));
        assert_eq!(breaker.ask(&settings(), at(30)), Gate::Probe);
        breaker.succeeded();
        assert_eq!(breaker.ask(&settings(), at(30)), Gate::Open);
    }

    proptest! {
        #[test]
        fn it_never_shuts_for_longer_than_the_longest_wait(failures in 1_u32..10_000, chance in 0.0..1.0) {
            let mut breaker = Breaker { failures, shut_until: None };
            breaker.failed(&settings(), at(0), chance);
            if let Gate::ShutUntil(until) = breaker.ask(&settings(), at(0)) {
                prop_assert!(until <= at(360));
            }
        }
    }
}
