//! Lengths of time and schedules of people.

use jiff::SignedDuration;

use super::{Faults, Raw};
use crate::day2::{Cron, Hibernation, Sleep, Window};

/// How long a maintenance window stays open where nothing is said.
const WINDOW: SignedDuration = SignedDuration::from_hours(4);

pub(super) fn hibernation(raw: &Raw<'_>, faults: &mut Faults) -> Option<Hibernation> {
    let Some(raw) = &raw.cluster.spec.hibernation else {
        return Some(Hibernation::default());
    };
    let mut schedules = Vec::new();
    for (index, schedule) in raw.schedules.iter().enumerate() {
        let field = format!("spec.hibernation.schedules[{index}]");
        let zone = schedule.time_zone.as_deref();
        let start = faults.parse(format!("{field}.start"), Cron::parse(&schedule.start, zone));
        let end = faults.parse(format!("{field}.end"), Cron::parse(&schedule.end, zone));
        schedules.push(Sleep {
            start: start?,
            end: end?,
        });
    }
    Some(Hibernation {
        now: raw.enabled,
        schedules,
    })
}

pub(super) fn windows(raw: &Raw<'_>, faults: &mut Faults) -> Vec<Window> {
    let Some(maintenance) = &raw.cluster.spec.maintenance else {
        return Vec::new();
    };
    let mut windows = Vec::new();
    for (index, window) in maintenance.windows.iter().enumerate() {
        let field = format!("spec.maintenance.windows[{index}]");
        let zone = window.time_zone.as_deref();
        let opens = faults.parse(
            format!("{field}.schedule"),
            Cron::parse(&window.schedule, zone),
        );
        let length = match &window.duration {
            None => WINDOW,
            Some(text) => duration(&format!("{field}.duration"), text, faults).unwrap_or(WINDOW),
        };
        let (least, most) = (
            SignedDuration::from_mins(30),
            SignedDuration::from_hours(24),
        );
        if length < least || length > most {
            faults.add(
                format!("{field}.duration"),
                "must be from 30m to 24h: a shorter window cannot replace a worker, a longer one is none",
            );
        }
        windows.extend(opens.map(|opens| Window { opens, length }));
    }
    windows
}

/// A length of time in whole seconds.
pub(super) fn seconds(field: &str, text: &str, faults: &mut Faults) -> Option<u32> {
    let seconds = duration(field, text, faults)?.as_secs();
    let seconds = u32::try_from(seconds).ok();
    faults.need(field, seconds, format!("{text} is too long"))
}

fn duration(field: &str, text: &str, faults: &mut Faults) -> Option<SignedDuration> {
    let parsed = text.parse::<SignedDuration>().ok();
    faults.need(
        field,
        parsed,
        format!("{text:?} is not a length of time: write it like 90s, 10m or 1h30m"),
    )
}
