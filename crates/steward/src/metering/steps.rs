//! When a figure has moved far enough to be reported, and when sizes have to be read again. Pure.
//!
//! A status that follows every key of a thousand tenants would never be quiet. Metrics have the exact figures; a
//! status says how large something is, and moves in steps.

use butler_api::steward::data_store::StorageUsage;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::store::usage::Usage;

/// One part in so many is a step.
const PART: u64 = 10;
/// Less is never a step: events come and go in every cluster.
const FEW_KEYS: u64 = 100;
const FEW_BYTES: u64 = 256 << 10;
/// How long sizes are believed while the number of keys stands still.
const BELIEF: SignedDuration = SignedDuration::from_hours(1);

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measurement {
    /// What was found.
    pub(crate) usage: Usage,
    /// When sizes were read.
    pub(crate) at: Timestamp,
}

/// What to report, where it differs from what was reported by a step or more.
pub(crate) fn next(
    reported: Option<&StorageUsage>,
    found: Usage,
    now: Timestamp,
) -> Option<StorageUsage> {
    let is_step = match reported {
        // Nothing is what nobody reported.
        None => found.keys > 0,
        Some(reported) => {
            is_far(reported.keys, found.keys, FEW_KEYS)
                || is_far(reported.bytes, found.bytes, FEW_BYTES)
        }
    };
    is_step.then(|| StorageUsage {
        keys: i64::try_from(found.keys).unwrap_or(i64::MAX),
        bytes: i64::try_from(found.bytes).unwrap_or(i64::MAX),
        last_update: Some(Time(whole_second(now))),
    })
}

/// As the API stores it: a fraction would come back without it, and look like something else.
fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Like [`next`], where an earlier step may be on its way: it stands until the next one, and keeps its time.
pub(crate) fn news(
    reported: Option<&StorageUsage>,
    pending: Option<StorageUsage>,
    found: Usage,
    now: Timestamp,
) -> Option<StorageUsage> {
    match pending.filter(|pending| reported != Some(pending)) {
        None => next(reported, found, now),
        Some(pending) => next(Some(&pending), found, now).or(Some(pending)),
    }
}

fn is_far(reported: i64, found: u64, few: u64) -> bool {
    let reported = u64::try_from(reported).unwrap_or_default();
    reported.abs_diff(found) >= (reported / PART).max(few)
}

/// What holds although only keys were counted; `None` when sizes have to be read.
pub(crate) fn still(last: Option<Measurement>, keys: u64, now: Timestamp) -> Option<Usage> {
    if keys == 0 {
        return Some(Usage::default());
    }
    let last = last?;
    let fresh = now.duration_since(last.at) < BELIEF;
    (last.usage.keys == keys && fresh).then_some(last.usage)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn usage(keys: u64, bytes: u64) -> Usage {
        Usage { keys, bytes }
    }

    #[test]
    fn an_empty_tenant_is_not_reported_and_the_first_keys_are() {
        assert_eq!(next(None, usage(0, 0), at(1)), None);
        let first = next(None, usage(3, 300), at(1)).unwrap();
        assert_eq!((first.keys, first.bytes), (3, 300));
        assert_eq!(first.last_update, Some(Time(at(1))));
    }

    #[test]
    fn a_tenth_is_a_step_and_a_handful_of_events_is_not() {
        let reported = next(None, usage(5_000, 50 << 20), at(1));
        let again = |keys, bytes| next(reported.as_ref(), usage(keys, bytes), at(2)).is_some();
        assert!(!again(5_499, 54 << 20));
        assert!(again(5_500, 50 << 20));
        assert!(again(4_500, 50 << 20));
        assert!(again(5_000, 55 << 20));
        assert!(again(0, 0));
        let small = next(None, usage(300, 300 << 10), at(1));
        let again = |keys, bytes| next(small.as_ref(), usage(keys, bytes), at(2)).is_some();
        assert!(!again(380, 500 << 10));
        assert!(again(400, 300 << 10));
    }

    #[test]
    fn what_was_reported_comes_back_as_it_was() {
        let moment: Timestamp = "2026-01-01T00:00:00.123456789Z".parse().unwrap();
        let reported = next(None, usage(3, 300), moment).unwrap();
        let text = serde_json::to_string(&reported).unwrap();
        assert_eq!(
            serde_json::from_str::<StorageUsage>(&text).unwrap(),
            reported
        );
    }

    #[test]
    fn a_step_that_is_on_its_way_is_not_made_again() {
        let first = news(None, None, usage(1_000, 0), at(1));
        assert_eq!(first.as_ref().unwrap().last_update, Some(Time(at(1))));
        let again = news(None, first.clone(), usage(1_010, 0), at(2));
        assert_eq!(again, first);
        let further = news(None, first.clone(), usage(2_000, 0), at(3)).unwrap();
        assert_eq!(further.keys, 2_000);
        // It arrived.
        assert_eq!(
            news(first.as_ref(), first.clone(), usage(1_010, 0), at(4)),
            None
        );
    }

    #[test]
    fn sizes_are_read_when_keys_come_or_go_and_now_and_then() {
        let last = Measurement {
            usage: usage(10, 100),
            at: at(0),
        };
        assert_eq!(still(None, 10, at(1)), None);
        assert_eq!(still(Some(last), 10, at(3_599)), Some(usage(10, 100)));
        assert_eq!(still(Some(last), 10, at(3_600)), None);
        assert_eq!(still(Some(last), 11, at(1)), None);
        assert_eq!(still(None, 0, at(1)), Some(usage(0, 0)));
    }

    proptest! {
        #[test]
        fn what_was_just_reported_is_never_a_step(keys in 0..u64::from(u32::MAX), bytes: u32) {
            let found = usage(keys, u64::from(bytes));
            let reported = next(None, found, at(1));
            if let Some(reported) = reported {
                prop_assert_eq!(next(Some(&reported), found, at(2)), None);
            }
        }
    }
}
