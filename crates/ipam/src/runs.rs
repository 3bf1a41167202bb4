//! The free addresses as runs, found by place and by size. Every operation takes time that grows with the logarithm
//! of the number of runs, whatever the size of the pool.

use std::{collections::BTreeMap, ops::Bound};

use crate::{
    Number,
    sizes::{Place, Run, Sizes},
};

/// The most runs of one chunk. So many that the index of the chunks of a large pool stays in the processor's cache, so
/// few that looking through one chunk is quick.
const MOST: usize = 256;

/// Free addresses, kept as the longest possible runs.
#[derive(Clone, Debug)]
pub struct FreeRuns<N: Number> {
    /// The runs in order, in chunks: one has those whose last address is its key or above, and below the next key. By
    /// the last one, because taking from the front of a run, which is what nearly every allocation does, then moves
    /// nothing.
    chunks: BTreeMap<N, Vec<Run<N>>>,
    sizes: Sizes<N>,
    count: usize,
    free: u128,
}

impl<N: Number> Default for FreeRuns<N> {
    fn default() -> Self {
        Self {
            // Every address has a chunk: this one stays, also when it is empty.
            chunks: BTreeMap::from([(N::MIN, Vec::new())]),
            sizes: Sizes::default(),
            count: 0,
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
        self.count
    }

    /// How many addresses the longest run has.
    pub fn largest(&self) -> u128 {
        self.sizes.longest().map_or(0, |place| match place {
            Place::Chunk(_, span) => span.wide().saturating_add(1),
            Place::Run(run) => run.size(),
        })
    }

    /// Takes the first addresses, `span` plus one of them, of the shortest run that has as many; of equally short
    /// runs the lowest. Returns the first of them.
    pub fn take_best(&mut self, span: N) -> Option<N> {
        let run = match self.sizes.shortest(span)? {
            Place::Chunk(key, span) => *self.in_chunk(key, span).next()?,
            Place::Run(run) => run,
        };
        self.cut(run, run.start, run.start.plus(span));
        Some(run.start)
    }

    /// Takes the whole of the longest run; of equally long runs the highest. Returns its first and last address.
    pub fn take_largest(&mut self) -> Option<(N, N)> {
        let run = match self.sizes.longest()? {
            Place::Chunk(key, span) => *self.in_chunk(key, span).next_back()?,
            Place::Run(run) => run,
        };
        self.cut(run, run.start, run.end);
        Some((run.start, run.end))
    }

    /// The parts of a range that are free, lowest first.
    pub fn within(&self, start: N, end: N) -> Vec<(N, N)> {
        self.from(start)
            .take_while(|run| run.start <= end)
            .map(|run| (run.start.max(start), run.end.min(end)))
            .collect()
    }

    /// Takes exactly these addresses, or nothing if one of them is not free.
    pub fn take(&mut self, start: N, end: N) -> bool {
        let around = self.from(end).next().copied();
        let Some(run) = around.filter(|run| run.start <= start) else {
            return false;
        };
        self.cut(run, start, end);
        true
    }

    /// Makes these addresses free. Returns `false`, and changes nothing, if one of them was free already.
    pub fn give(&mut self, start: N, end: N) -> bool {
        let after = self.from(start).next().copied();
        if after.is_some_and(|run| run.start <= end) {
            return false;
        }
        let given = Run { start, end };
        self.free = self.free.saturating_add(given.size());
        let mut first = start;
        if let Some(before) = start.previous()
            && let Some(left) = self.ending(before)
        {
            self.remove(left);
            first = left.start;
        }
        match after {
            Some(right) if end.next() == Some(right.start) => self.start_at(right, first),
            _ => self.insert(Run { start: first, end }),
        }
        true
    }

    /// The runs that end at an address or above, lowest first.
    fn from(&self, end: N) -> impl Iterator<Item = &Run<N>> {
        let own = self.chunks.range(..=end).next_back();
        let own = own.map_or(&[][..], |(_, chunk)| {
            chunk.get(place(chunk, end)..).unwrap_or_default()
        });
        let above = (Bound::Excluded(end), Bound::Unbounded);
        own.iter()
            .chain(self.chunks.range(above).flat_map(|(_, chunk)| chunk))
    }

    /// The run that ends exactly here.
    fn ending(&self, end: N) -> Option<Run<N>> {
        let (_, chunk) = self.chunks.range(..=end).next_back()?;
        let run = chunk.get(place(chunk, end)).copied();
        run.filter(|run| run.end == end)
    }

    fn in_chunk(&self, key: N, span: N) -> impl DoubleEndedIterator<Item = &Run<N>> {
        let chunk = self.chunks.get(&key).map_or(&[][..], Vec::as_slice);
        chunk.iter().filter(move |run| run.span() == span)
    }

    /// Takes addresses out of the run that they are part of.
    fn cut(&mut self, run: Run<N>, start: N, end: N) {
        let taken = Run { start, end };
        self.free = self.free.saturating_sub(taken.size());
        match end.next() {
            Some(rest) if end < run.end => self.start_at(run, rest),
            _ => self.remove(run),
        }
        if run.start < start
            && let Some(before) = start.previous()
        {
            self.insert(Run {
                start: run.start,
                end: before,
            });
        }
    }

    /// Lets a run start elsewhere. It stays where it is in its chunk.
    fn start_at(&mut self, run: Run<N>, start: N) {
        if let Some((key, chunk)) = self.chunks.range_mut(..=run.end).next_back() {
            let at = place(chunk, run.end);
            let moved = Run { start, ..run };
            if let Some(held) = chunk.get_mut(at) {
                *held = moved;
            }
            self.sizes.remove(*key, chunk, run);
            self.sizes.add(*key, chunk, moved);
        }
    }

    fn insert(&mut self, run: Run<N>) {
        let Some((key, chunk)) = self.chunks.range_mut(..=run.end).next_back() else {
            return;
        };
        chunk.insert(place(chunk, run.end), run);
        self.count += 1;
        self.sizes.add(*key, chunk, run);
        if chunk.len() > MOST {
            let upper = chunk.split_off(MOST / 2);
            if let Some(first) = upper.first().map(|run| run.end) {
                self.sizes.split((*key, chunk), (first, &upper));
                self.chunks.insert(first, upper);
            }
        }
    }

    fn remove(&mut self, run: Run<N>) {
        let Some((key, chunk)) = self.chunks.range_mut(..=run.end).next_back() else {
            return;
        };
        let (key, at) = (*key, place(chunk, run.end));
        chunk.remove(at);
        self.count -= 1;
        self.sizes.remove(key, chunk, run);
        if chunk.is_empty() && key != N::MIN {
            self.chunks.remove(&key);
        }
    }
}

/// Where in a chunk the run with this last address is, or would be.
fn place<N: Number>(chunk: &[Run<N>], end: N) -> usize {
    chunk.partition_point(|run| run.end < end)
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

    #[test]
    fn a_pool_of_many_chunks_finds_the_same_runs_as_a_list() {
        // Runs of 1 to 80 addresses, short and long, far more than one chunk has.
        let all: Vec<(u32, u32)> = (0..2000)
            .map(|number| (number * 100, number * 100 + number % 80))
            .collect();
        let mut free = runs(&all);
        assert_eq!((free.count(), free.largest()), (2000, 80));
        assert_eq!(free.within(0, u32::MAX), all);
        for number in (0..2000).step_by(2) {
            assert!(free.take(number * 100, number * 100 + number % 80));
        }
        let mut left: Vec<(u32, u32)> = all.into_iter().skip(1).step_by(2).collect();
        while let Some(best) = left
            .iter()
            .copied()
            .filter(|(start, end)| end - start >= 40)
            .min_by_key(|(start, end)| (end - start, *start))
        {
            assert_eq!(free.take_best(40), Some(best.0));
            left.retain(|run| *run != best);
            left.extend((best.1 - best.0 > 40).then_some((best.0 + 41, best.1)));
        }
        left.sort_unstable();
        assert_eq!(free.within(0, u32::MAX), left);
        while let Some(longest) = left
            .iter()
            .copied()
            .max_by_key(|(start, end)| (end - start, *start))
        {
            assert_eq!(free.take_largest(), Some(longest));
            left.retain(|run| *run != longest);
        }
        assert_eq!(
            (free.count(), free.free(), free.take_largest()),
            (0, 0, None)
        );
    }
}
