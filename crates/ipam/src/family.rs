//! The free runs of a pool of either family, by wide numbers.

use crate::{FreeRuns, Number, layout::Span};

/// The free runs of one family.
#[derive(Clone, Debug)]
pub(crate) enum Runs {
    V4(FreeRuns<u32>),
    V6(FreeRuns<u128>),
}

/// The same for both families; numbers that are too wide for one are simply not part of it.
impl Runs {
    pub(crate) fn new(v4: bool) -> Self {
        if v4 {
            Self::V4(FreeRuns::default())
        } else {
            Self::V6(FreeRuns::default())
        }
    }

    pub(crate) fn free(&self) -> u128 {
        match self {
            Self::V4(runs) => runs.free(),
            Self::V6(runs) => runs.free(),
        }
    }

    pub(crate) fn largest(&self) -> u128 {
        match self {
            Self::V4(runs) => runs.largest(),
            Self::V6(runs) => runs.largest(),
        }
    }

    pub(crate) fn give(&mut self, span: Span) -> bool {
        match self {
            Self::V4(runs) => narrow(span).is_some_and(|(start, end)| runs.give(start, end)),
            Self::V6(runs) => runs.give(span.0, span.1),
        }
    }

    pub(crate) fn take(&mut self, span: Span) -> bool {
        match self {
            Self::V4(runs) => narrow(span).is_some_and(|(start, end)| runs.take(start, end)),
            Self::V6(runs) => runs.take(span.0, span.1),
        }
    }

    pub(crate) fn take_best(&mut self, above: u128) -> Option<Span> {
        let start = match self {
            Self::V4(runs) => runs.take_best(u32::narrow(above)?)?.wide(),
            Self::V6(runs) => runs.take_best(above)?,
        };
        Some((start, start + above))
    }

    pub(crate) fn take_largest(&mut self) -> Option<Span> {
        match self {
            Self::V4(runs) => runs
                .take_largest()
                .map(|(start, end)| (start.wide(), end.wide())),
            Self::V6(runs) => runs.take_largest(),
        }
    }

    pub(crate) fn within(&self, span: Span) -> Vec<Span> {
        match self {
            Self::V4(runs) => narrow(span).map_or_else(Vec::new, |(start, end)| {
                let parts = runs.within(start, end).into_iter();
                parts
                    .map(|(start, end)| (start.wide(), end.wide()))
                    .collect()
            }),
            Self::V6(runs) => runs.within(span.0, span.1),
        }
    }
}

fn narrow((start, end): Span) -> Option<(u32, u32)> {
    Some((u32::narrow(start)?, u32::narrow(end)?))
}
