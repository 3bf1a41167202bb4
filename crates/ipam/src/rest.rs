//! Addresses that were given back and rest before they are given to anybody else: whoever had them may still announce
//! them, and routers and neighbours still remember them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::layout::{Span, size};

/// What rests, by place and by time. Entries share no address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rest {
    by_start: BTreeMap<u128, Entry>,
    by_time: BTreeSet<(Timestamp, u128)>,
    count: u128,
}

#[derive(Clone, Debug)]
struct Entry {
    end: u128,
    until: Timestamp,
    owner: String,
}

/// A part of a span that rests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) span: Span,
    pub(crate) until: Timestamp,
    pub(crate) owner: &'a str,
}

impl Rest {
    /// How many addresses rest.
    pub(crate) fn count(&self) -> u128 {
        self.count
    }

    /// When the first of them is free again.
    pub(crate) fn soonest(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(until, _)| *until)
    }

    /// Puts addresses to rest; the caller took them from whatever they were part of before.
    pub(crate) fn insert(&mut self, span: Span, owner: &str, until: Timestamp) {
        self.count = self.count.saturating_add(size(span));
        self.by_time.insert((until, span.0));
        let entry = Entry {
            end: span.1,
            until,
            owner: owner.to_owned(),
        };
        self.by_start.insert(span.0, entry);
    }

    /// Takes out the entry that has rested long enough, if there is one.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<Span> {
        let (until, start) = *self.by_time.first()?;
        (until <= now).then(|| self.remove(start))?
    }

    /// The parts of a span that rest, lowest first.
    pub(crate) fn parts(&self, (start, end): Span) -> Vec<Part<'_>> {
        if self.by_start.is_empty() {
            return Vec::new();
        }
        let before = self.by_start.range(..start).next_back();
        let reaching = before.filter(|(_, entry)| entry.end >= start);
        let meeting = reaching.into_iter().chain(self.by_start.range(start..=end));
        meeting
            .map(|(first, entry)| Part {
                span: ((*first).max(start), entry.end.min(end)),
                until: entry.until,
                owner: &entry.owner,
            })
            .collect()
    }

    /// Wakes what of a span rests; the parts of entries outside it go on resting.
    pub(crate) fn wake(&mut self, (start, end): Span) -> Vec<Span> {
        let awake: Vec<Span> = self
            .parts((start, end))
            .iter()
            .map(|part| part.span)
            .collect();
        for (first, _) in &awake {
            let entry = self.by_start.range(..=*first).next_back();
            let Some((from, entry)) = entry.map(|(from, entry)| (*from, entry.clone())) else {
                continue;
            };
            self.remove(from);
            if from < start {
                self.insert((from, start - 1), &entry.owner, entry.until);
            }
            if entry.end > end {
                self.insert((end + 1, entry.end), &entry.owner, entry.until);
            }
        }
        awake
    }

    fn remove(&mut self, start: u128) -> Option<Span> {
        let entry = self.by_start.remove(&start)?;
        self.by_time.remove(&(entry.until, start));
        let span = (start, entry.end);
        self.count = self.count.saturating_sub(size(span));
        Some(span)
    }
}
