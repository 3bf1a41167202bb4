//! How long to wait before trying again. Pure: chance is an argument.

use std::time::Duration;

/// Exponential waiting with a cap, spread so that many objects do not return at once.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(200),
            longest: Duration::from_mins(5),
        }
    }
}

impl Backoff {
    /// The wait after this many failures in a row; `chance` lies in `0.0..1.0`.
    pub fn delay(self, failures: u32, chance: f64) -> Duration {
        let doubled = self
            .first
            .saturating_mul(1 << failures.saturating_sub(1).min(20));
        spread(doubled.min(self.longest), chance)
    }
}

/// A wait between 80 % and 120 % of `delay`; `chance` lies in `0.0..1.0`.
pub fn spread(delay: Duration, chance: f64) -> Duration {
    delay.mul_f64(chance.clamp(0.0, 1.0).mul_add(0.4, 0.8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_until_the_longest() {
        let backoff = Backoff {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(10),
        };
        let middle = |failures| backoff.delay(failures, 0.5).as_secs();
        assert_eq!(
            [middle(1), middle(2), middle(3), middle(4), middle(5)],
            [1, 2, 4, 8, 10]
        );
        assert_eq!(middle(u32::MAX), 10);
    }

    #[test]
    fn a_wait_stays_within_a_fifth_of_its_middle() {
        let second = Duration::from_secs(1);
        assert_eq!(spread(second, 0.0), Duration::from_millis(800));
        assert_eq!(spread(second, 1.0), Duration::from_millis(1200));
    }
}
