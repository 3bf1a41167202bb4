//! Free runs by their size.
//!
//! Short runs, which are nearly all of them in a fragmented pool, are found through the chunk they lie in: a size lists
//! a chunk once, however many runs of that size are in it. So giving back a few addresses in the middle of a large pool
//! touches the memory of one chunk and seldom anything else. Long runs are listed one by one.

use std::collections::BTreeSet;

use crate::Number;

/// Sizes from here on are long; as many as a word has bits are short.
const SHORT: u32 = u64::BITS;

/// First and last address of a run that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run<N> {
    pub(crate) start: N,
    pub(crate) end: N,
}

impl<N: Number> Run<N> {
    /// How far its last address lies above its first.
    pub(crate) fn span(self) -> N {
        self.end.minus(self.start)
    }

    pub(crate) fn size(self) -> u128 {
        self.span().wide().saturating_add(1)
    }
}

/// Where a run of a wanted size is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<N> {
    /// In the chunk with this key, with exactly this span.
    Chunk(N, N),
    /// This one.
    Run(Run<N>),
}

/// The runs by size.
#[derive(Clone, Debug)]
pub(crate) struct Sizes<N: Number> {
    /// Keys of the chunks that have a run of a size, by the span of that size.
    short: Vec<BTreeSet<N>>,
    /// One bit for each short span that some chunk has.
    filled: u64,
    long: BTreeSet<N::Key>,
}

impl<N: Number> Default for Sizes<N> {
    fn default() -> Self {
        Self {
            short: vec![BTreeSet::new(); SHORT as usize],
            filled: 0,
            long: BTreeSet::new(),
        }
    }
}

impl<N: Number> Sizes<N> {
    /// Notes a run that is in a chunk now.
    pub(crate) fn add(&mut self, key: N, chunk: &[Run<N>], run: Run<N>) {
        let span = run.span();
        match class(span) {
            // Looking through the chunk, which is in the cache, spares looking through all chunks of that size.
            Some(class) if of_span(chunk, span).nth(1).is_none() => self.list(class, key),
            Some(_) => {}
            None => {
                self.long.insert(N::key(span, run.start));
            }
        }
    }

    /// Forgets a run that is not in its chunk any more.
    pub(crate) fn remove(&mut self, key: N, chunk: &[Run<N>], run: Run<N>) {
        let span = run.span();
        match class(span) {
            Some(class) if of_span(chunk, span).next().is_none() => self.unlist(class, key),
            Some(_) => {}
            None => {
                self.long.remove(&N::key(span, run.start));
            }
        }
    }

    /// Notes that the runs of `upper` left the chunk `lower` for one of their own.
    pub(crate) fn split(&mut self, lower: (N, &[Run<N>]), upper: (N, &[Run<N>])) {
        for run in upper.1 {
            if let Some(class) = class(run.span()) {
                self.list(class, upper.0);
                if of_span(lower.1, run.span()).next().is_none() {
                    self.unlist(class, lower.0);
                }
            }
        }
    }

    /// The shortest run with this span at least; of equally short ones the lowest.
    pub(crate) fn shortest(&self, span: N) -> Option<Place<N>> {
        let fitting = class(span).map_or(0, |class| self.filled & (u64::MAX << class));
        if fitting != 0 {
            let class = fitting.trailing_zeros();
            let key = *self.chunks(class)?.first()?;
            return Some(Place::Chunk(key, N::narrow(class.into())?));
        }
        let key = self.long.range(N::key(span, N::MIN)..).next()?;
        Some(Place::Run(of_key::<N>(*key)))
    }

    /// The longest run; of equally long ones the highest.
    pub(crate) fn longest(&self) -> Option<Place<N>> {
        if let Some(key) = self.long.last() {
            return Some(Place::Run(of_key::<N>(*key)));
        }
        let class = self.filled.checked_ilog2()?;
        let key = *self.chunks(class)?.last()?;
        Some(Place::Chunk(key, N::narrow(class.into())?))
    }

    fn chunks(&self, class: u32) -> Option<&BTreeSet<N>> {
        self.short.get(class as usize)
    }

    fn list(&mut self, class: u32, key: N) {
        if let Some(chunks) = self.short.get_mut(class as usize) {
            chunks.insert(key);
            self.filled |= 1 << class;
        }
    }

    fn unlist(&mut self, class: u32, key: N) {
        if let Some(chunks) = self.short.get_mut(class as usize) {
            chunks.remove(&key);
            if chunks.is_empty() {
                self.filled &= !(1 << class);
            }
        }
    }
}

/// The bit of a short span.
fn class<N: Number>(span: N) -> Option<u32> {
    u32::try_from(span.wide()).ok().filter(|span| *span < SHORT)
}

fn of_span<N: Number>(chunk: &[Run<N>], span: N) -> impl DoubleEndedIterator<Item = &Run<N>> {
    chunk.iter().filter(move |run| run.span() == span)
}

fn of_key<N: Number>(key: N::Key) -> Run<N> {
    let (span, start) = N::of_key(key);
    Run {
        start,
        end: start.plus(span),
    }
}
