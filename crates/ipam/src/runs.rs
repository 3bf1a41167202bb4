//! The free addresses as runs, found by place and by size. Every operation takes time that grows with the logarithm
//! of the number of runs, whatever the size of the pool.

use std::collections::{BTreeMap, BTreeSet};

use crate::Number;

/// Free addresses, kept as the longest possible runs.
#[derive(Clone, Debug)]
pub struct FreeRuns<N: Number> {
    /// Last address of every run to its first. By the last one, because taking from the front of a run, which is what
    /// nearly every allocation does, then changes a value and moves no key.
    by_end: BTreeMap<N, N>,
    /// The same runs by size, then by place.
    by_size: BTreeSet<N::Key>,
    free: u128,
}

impl<N: Number> Default for FreeRuns<N> {
    fn default() -> Self {
        Self {
            by_end: BTreeMap::new(),
            by_size: BTreeSet::new(),
            free: 0,
        }
    }
}

impl<N: Number> FreeRuns<N> {
    /// How many addresses are free.
    pub fn free(&self) -> u128 {
        self.free
    }

    /// How many runs they form.
    pub fn count(&self) -> usize {
        self.by_end.len()
    }

    /// How many addresses the longest run has.
    pub fn largest(&self) -> u128 {
        self.by_size
            .last()
            .map_or(0, |key| N::of_key(*key).0.wide().saturating_add(1))
    }

    /// Takes the first addresses, `span` plus one of them, of the shortest run that has as many; of equally short
    /// runs the lowest. Returns the first of them.
    pub fn take_best(&mut self, span: N) -> Option<N> {
        let key = *self.by_size.range(N::key(span, N::MIN)..).next()?;
        let (held, start) = N::of_key(key);
        self.by_size.remove(&key);
        let end = start.plus(held);
        self.free = self.free.saturating_sub(span.wide().saturating_add(1));
        match start.plus(span).next() {
            Some(rest) if held != span => {
                self.by_size.insert(N::key(end.minus(rest), rest));
                if let Some(first) = self.by_end.get_mut(&end) {
                    *first = rest;
                }
            }
            _ => {
                self.by_end.remove(&end);
            }
        }
        Some(start)
    }

    /// Takes the whole of the longest run; of equally long runs the highest. Returns its first and last address.
    pub fn take_largest(&mut self) -> Option<(N, N)> {
        let (span, start) = N::of_key(self.by_size.pop_last()?);
        let end = start.plus(span);
        self.by_end.remove(&end);
        self.free = self.free.saturating_sub(span.wide().saturating_add(1));
        Some((start, end))
    }

    /// The parts of a range that are free, lowest first.
    pub fn within(&self, start: N, end: N) -> Vec<(N, N)> {
        let meeting = self
            .by_end
            .range(start..)
            .take_while(|(_, first)| **first <= end);
        meeting
            .map(|(last, first)| ((*first).max(start), (*last).min(end)))
            .collect()
    }

    /// Takes exactly these addresses, or nothing if one of them is not free.
    pub fn take(&mut self, start: N, end: N) -> bool {
        let Some((first, last)) = self.around(start, end) else {
            return false;
        };
        self.remove(first, last);
        if first < start
            && let Some(before) = start.previous()
        {
            self.insert(first, before);
        }
        if end < last
            && let Some(after) = end.next()
        {
            self.insert(after, last);
        }
        true
    }

    /// Makes these addresses free. Returns `false`, and changes nothing, if one of them was free already.
    pub fn give(&mut self, start: N, end: N) -> bool {
        let after = self
            .by_end
            .range(start..)
            .next()
            .map(|(end, start)| (*end, *start));
        if after.is_some_and(|(_, first)| first <= end) {
            return false;
        }
        let (mut first, mut last) = (start, end);
        if let Some((right_end, right_start)) = after
            && end.next() == Some(right_start)
        {
            self.remove(right_start, right_end);
            last = right_end;
        }
        if let Some(before) = start.previous()
            && let Some(left_start) = self.by_end.get(&before).copied()
        {
            self.remove(left_start, before);
            first = left_start;
        }
        self.insert(first, last);
        true
    }

    /// The run that has all of these addresses.
    fn around(&self, start: N, end: N) -> Option<(N, N)> {
        let (last, first) = self.by_end.range(end..).next()?;
        (*first <= start).then_some((*first, *last))
    }

    fn insert(&mut self, start: N, end: N) {
        let span = end.minus(start);
        self.by_end.insert(end, start);
        self.by_size.insert(N::key(span, start));
        self.free = self.free.saturating_add(span.wide()).saturating_add(1);
    }

    fn remove(&mut self, start: N, end: N) {
        let span = end.minus(start);
        self.by_end.remove(&end);
        self.by_size.remove(&N::key(span, start));
        self.free = self.free.saturating_sub(span.wide().saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(list: &[(u32, u32)]) -> FreeRuns<u32> {
        let mut runs = FreeRuns::default();
        for (start, end) in list {
            assert!(runs.give(*start, *end));
        }
        runs
    }

    #[test]
    fn the_hole_that_fits_best_is_filled_and_of_equal_holes_the_lowest() {
        let mut free = runs(&[(0, 9), (20, 23), (30, 33), (40, 45)]);
        assert_eq!(free.take_best(2), Some(20));
        assert_eq!(free.take_best(3), Some(30));
        assert_eq!(free.take_best(3), Some(40));
        assert_eq!(free.take_best(9), Some(0));
        assert_eq!(free.take_best(2), None);
        assert_eq!(free.free(), 3);
    }

    #[test]
    fn what_is_given_back_joins_its_neighbours() {
        let mut free = runs(&[(0, 9)]);
        assert!(free.take(3, 5));
        assert_eq!((free.count(), free.largest()), (2, 4));
        assert!(free.give(3, 5));
        assert_eq!((free.count(), free.largest()), (1, 10));
    }

    #[test]
    fn the_same_address_is_given_back_only_once() {
        let mut free = runs(&[(0, 9)]);
        assert!(!free.give(5, 12));
        assert!(!free.give(9, 9));
        assert!(!free.take(9, 10));
        assert_eq!(free.free(), 10);
    }

    #[test]
    fn the_ends_of_the_number_range_are_addresses_like_any_other() {
        let mut free = runs(&[(0, u32::MAX)]);
        assert_eq!(free.largest(), 1 << 32);
        assert!(free.take(0, 0) && free.take(u32::MAX, u32::MAX));
        assert_eq!(free.free(), (1 << 32) - 2);
        assert!(free.give(u32::MAX, u32::MAX) && free.give(0, 0));
        assert_eq!((free.count(), free.free()), (1, 1 << 32));
        let mut wide: FreeRuns<u128> = FreeRuns::default();
        assert!(wide.give(1, u128::MAX));
        assert_eq!(wide.take_best(u128::MAX - 1), Some(1));
        assert_eq!((wide.count(), wide.free()), (0, 0));
    }
}
