//! How many keys a tenant has and how many bytes they hold.
//!
//! etcd can count keys without reading values, from its index in memory. It cannot say how large values are, so
//! bytes are measured by reading each value once: page by page, from one member and without asking the others, and
//! no more than a budget at a time. A pass over a tenant of 10 MiB moves 10 MiB; who calls decides how often. What is
//! summed are the live keys and values: not their history, nor etcd's own overhead.

use super::{
    error::{Error, Trouble},
    identity::Identity,
    session::Session,
    wire::{RangeRequest, RangeResponse, path},
};

/// How large a page should be: a fraction of what one answer may hold, and a few milliseconds for etcd.
const PAGE_BYTES: u64 = 1 << 20;
const FIRST_PAGE: u64 = 50;
const LARGEST_PAGE: u64 = 2_000;

/// What a tenant holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Keys.
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// A measurement that is under way: it can rest between pages for as long as it likes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    next: Vec<u8>,
    end: Vec<u8>,
    limit: u64,
    so_far: Usage,
}

/// How far a measurement came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// To the end.
    Whole(Usage),
    /// As far as the budget went; measure again with the same meter.
    Part,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.keys += other.keys;
        self.bytes += other.bytes;
    }
}

impl Meter {
    /// A measurement that has not begun.
    pub fn new(identity: &Identity) -> Self {
        Self {
            next: identity.prefix(),
            end: identity.range_end(),
            limit: FIRST_PAGE,
            so_far: Usage::default(),
        }
    }

    /// Adds a page of keys with the sizes of their values; returns the bytes of the page.
    fn add<'a>(&mut self, page: impl Iterator<Item = (&'a [u8], usize)>) -> u64 {
        let mut keys = 0;
        let mut bytes = 0;
        for (key, value) in page {
            keys += 1;
            bytes += (key.len() + value) as u64;
            // The smallest key after this one.
            self.next = [key, &[0]].concat();
        }
        self.so_far.keys += keys;
        self.so_far.bytes += bytes;
        if let Some(average) = bytes.checked_div(keys) {
            self.limit = (PAGE_BYTES / average.max(1)).clamp(1, LARGEST_PAGE);
        }
        bytes
    }

    /// Asks for less after a page that was too large; `false` when there is nothing less than one key.
    fn shrink(&mut self) -> bool {
        let shrinks = self.limit > 1;
        self.limit = (self.limit / 4).max(1);
        shrinks
    }
}

/// How much a count has to be worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// What the store as a whole knows: the members ask each other.
    Store,
    /// What one member knows, which may be a moment old.
    Member,
}

/// Counts the keys of a tenant; reads no value.
///
/// # Errors
/// When the store does not answer.
pub async fn count_keys(
    session: &Session,
    identity: &Identity,
    trust: Trust,
) -> Result<u64, Error> {
    let request = RangeRequest {
        key: identity.prefix(),
        range_end: identity.range_end(),
        count_only: true,
        serializable: trust == Trust::Member,
        ..RangeRequest::default()
    };
    let answer: RangeResponse = session
        .call("count the keys of the tenant", path::RANGE, &request)
        .await?;
    Ok(u64::try_from(answer.count).unwrap_or_default())
}

/// Goes on with a measurement until its end, or until about `budget` bytes were read.
///
/// Keys that change between pages are counted as they are when their page is read.
///
/// # Errors
/// When the store does not answer; the meter keeps what it has.
pub async fn measure(session: &Session, meter: &mut Meter, budget: u64) -> Result<Measured, Error> {
    let mut read = 0;
    loop {
        let request = RangeRequest {
            key: meter.next.clone(),
            range_end: meter.end.clone(),
            limit: i64::try_from(meter.limit).unwrap_or(i64::MAX),
            serializable: true,
            ..RangeRequest::default()
        };
        let answer = session
            .call("read the sizes of the tenant's keys", path::RANGE, &request)
            .await;
        let answer: RangeResponse = match answer {
            Err(error) if error.trouble() == Some(Trouble::TooLarge) && meter.shrink() => continue,
            answer => answer?,
        };
        let page = answer.kvs.iter();
        read += meter.add(page.map(|kv| (kv.key.as_slice(), kv.value.len())));
        if !answer.more {
            return Ok(Measured::Whole(meter.so_far));
        }
        if read >= budget {
            return Ok(Measured::Part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Chosen, Owner};

    fn meter() -> Meter {
        let owner = Owner {
            namespace: "a".to_owned(),
            name: "b".to_owned(),
            uid: "1".to_owned(),
        };
        Meter::new(&Identity::of(owner, &Chosen::default(), &Chosen::default()).unwrap())
    }

    #[test]
    fn pages_are_summed_and_the_next_begins_after_the_last_key() {
        let mut meter = meter();
        let read = meter.add([(&b"/a/1"[..], 10), (&b"/a/2"[..], 20)].into_iter());
        assert_eq!(read, 38);
        assert_eq!(meter.so_far, Usage { keys: 2, bytes: 38 });
        assert_eq!(meter.next, b"/a/2\0");
        assert_eq!(meter.add(std::iter::empty()), 0);
        assert_eq!(meter.so_far, Usage { keys: 2, bytes: 38 });
    }

    #[test]
    fn the_larger_the_values_the_fewer_are_asked_for() {
        let mut meter = meter();
        meter.add([(&b"k"[..], 1 << 20)].into_iter());
        assert_eq!(meter.limit, 1);
        assert!(!meter.shrink());
        meter.add([(&b"k"[..], 100)].into_iter());
        assert_eq!(meter.limit, LARGEST_PAGE);
        assert!(meter.shrink());
        assert_eq!(meter.limit, LARGEST_PAGE / 4);
    }
}
