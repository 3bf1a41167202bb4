//! Schedules of people: cron with a time zone. The moment is always an argument.

use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

/// A moment that comes again and again, such as `0 2 * * 6` in Berlin.
#[derive(Clone, Debug)]
pub struct Cron {
    text: String,
    schedule: cronexpr::Crontab,
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Cron {}

/// Text that is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CronError {
    /// Not five fields with their values.
    #[error("{text:?} is not a schedule in time zone {zone}: {reason}")]
    Malformed {
        /// What was written.
        text: String,
        /// The time zone.
        zone: String,
        /// What the parser found.
        reason: String,
    },
    /// A moment such as the 31st of February.
    #[error("{0:?} is a moment that never comes")]
    Never(String),
}

impl Cron {
    /// Reads five fields of cron; without a time zone they are in UTC.
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Self, CronError> {
        let zone = zone.unwrap_or("UTC");
        let whole = format!("{text} {zone}");
        let schedule = cronexpr::parse_crontab(&whole).map_err(|error| {
            // The parser draws the text with a mark under the fault; the last line says what it is.
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default();
            CronError::Malformed {
                text: text.to_owned(),
                zone: zone.to_owned(),
                reason: reason.trim_start_matches([' ', '^']).to_owned(),
            }
        })?;
        let cron = Self {
            text: whole,
            schedule,
        };
        match cron.after(Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(cron),
            None => Err(CronError::Never(cron.text)),
        }
    }

    /// The first time after `moment`.
    pub fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        let next = self.schedule.find_next(cronexpr::MakeTimestamp(moment));
        next.ok().map(|zoned| zoned.timestamp())
    }
}

/// A time in which a cluster may be disturbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// When it opens.
    pub opens: Cron,
    /// How long it stays open.
    pub length: SignedDuration,
}

/// Until when a window is open now; `None` when none is. No windows at all means always, and for ever.
pub fn open_until(windows: &[Window], now: Timestamp) -> Option<Timestamp> {
    if windows.is_empty() {
        return Some(Timestamp::MAX);
    }
    let ends = windows.iter().filter_map(|window| {
        let earliest = now.checked_sub(window.length).ok()?;
        let opened = window.opens.after(earliest)?;
        (opened <= now).then(|| opened.checked_add(window.length).ok())?
    });
    ends.max()
}

/// When the next window opens.
pub fn next_opening(windows: &[Window], now: Timestamp) -> Option<Timestamp> {
    windows
        .iter()
        .filter_map(|window| window.opens.after(now))
        .min()
}

/// When a cluster falls asleep, and when it wakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// Falls asleep.
    pub start: Cron,
    /// Wakes.
    pub end: Cron,
}

/// When a cluster sleeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hibernation {
    /// Whether it sleeps whatever the schedules say.
    pub now: bool,
    /// When it sleeps by itself.
    pub schedules: Vec<Sleep>,
}

impl Hibernation {
    /// Whether the cluster should sleep: the last thing that was to happen is falling asleep exactly when waking
    /// comes next.
    pub fn wants_sleep(&self, now: Timestamp) -> bool {
        if self.now {
            return true;
        }
        match (self.next_start(now), self.next_end(now)) {
            (Some(start), Some(end)) => end < start,
            _ => false,
        }
    }

    /// When that changes by itself.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        if self.now {
            return None;
        }
        self.next_start(now)
            .into_iter()
            .chain(self.next_end(now))
            .min()
    }

    fn next_start(&self, now: Timestamp) -> Option<Timestamp> {
        let starts = self.schedules.iter();
        starts.filter_map(|sleep| sleep.start.after(now)).min()
    }

    fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = self.schedules.iter();
        ends.filter_map(|sleep| sleep.end.after(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn saturday_night() -> Vec<Window> {
        vec![Window {
            opens: Cron::parse("0 2 * * 6", Some("Europe/Berlin")).unwrap(),
            length: SignedDuration::from_hours(4),
        }]
    }

    #[test]
    fn a_window_opens_in_its_own_time_zone() {
        let windows = saturday_night();
        // 2026-11-14 is a Saturday; Berlin is an hour ahead of UTC in November.
        assert_eq!(open_until(&windows, at("2026-11-14T00:59:59Z")), None);
        let until = Some(at("2026-11-14T05:00:00Z"));
        assert_eq!(open_until(&windows, at("2026-11-14T01:00:00Z")), until);
        assert_eq!(open_until(&windows, at("2026-11-14T04:59:59Z")), until);
        assert_eq!(open_until(&windows, at("2026-11-14T05:00:00Z")), None);
    }

    #[test]
    fn a_window_follows_summer_time() {
        let windows = saturday_night();
        assert!(open_until(&windows, at("2026-07-11T00:00:00Z")).is_some());
        assert!(open_until(&windows, at("2026-07-10T23:59:00Z")).is_none());
        let next = next_opening(&windows, at("2026-07-11T12:00:00Z"));
        assert_eq!(next, Some(at("2026-07-18T00:00:00Z")));
    }

    #[test]
    fn without_windows_it_is_always_the_time() {
        assert_eq!(
            open_until(&[], at("2026-07-11T00:00:00Z")),
            Some(Timestamp::MAX)
        );
    }

    fn weekdays() -> Hibernation {
        Hibernation {
            now: false,
            schedules: vec![Sleep {
                start: Cron::parse("0 20 * * 1-5", None).unwrap(),
                end: Cron::parse("0 6 * * 1-5", None).unwrap(),
            }],
        }
    }

    #[test]
    fn a_cluster_that_sleeps_at_night_also_sleeps_over_the_weekend() {
        let hibernation = weekdays();
        for (moment, asleep) in [
            ("2026-11-12T19:59:59Z", false),
            ("2026-11-12T20:00:00Z", true),
            ("2026-11-13T05:59:59Z", true),
            ("2026-11-13T06:00:00Z", false),
            ("2026-11-13T20:00:00Z", true),
            ("2026-11-15T12:00:00Z", true),
            ("2026-11-16T06:00:00Z", false),
        ] {
            assert_eq!(hibernation.wants_sleep(at(moment)), asleep, "{moment}");
        }
        let change = hibernation.next_change(at("2026-11-15T12:00:00Z"));
        assert_eq!(change, Some(at("2026-11-16T06:00:00Z")));
    }

    #[test]
    fn being_told_to_sleep_wins_over_the_schedule() {
        let mut hibernation = weekdays();
        hibernation.now = true;
        assert!(hibernation.wants_sleep(at("2026-11-12T12:00:00Z")));
        assert_eq!(hibernation.next_change(at("2026-11-12T12:00:00Z")), None);
        assert!(!Hibernation::default().wants_sleep(at("2026-11-12T12:00:00Z")));
    }

    #[test]
    fn a_bad_schedule_is_refused_with_the_reason() {
        for (text, zone) in [
            ("61 2 * * 6", None),
            ("0 2 * *", None),
            ("0 2 * * 6", Some("Europe/Atlantis")),
            ("0 0 31 2 *", None),
        ] {
            let error = Cron::parse(text, zone).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
