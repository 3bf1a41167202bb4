//! The allocator as simply as it can be written, one entry for each address, to compare the real one with.
//!
//! [`compare`] does the same random operations with both and stops at the first difference. Chance is an argument, so
//! that every finding can be had again.

use std::net::{IpAddr, Ipv4Addr};

use butler_api::types::{AddressRange, Cidr};
use jiff::{SignedDuration, Timestamp};

use crate::{Layout, Pool, Refusal, Request};

/// What an address is in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Closed,
    Free,
    Held,
    Resting { owner: u8, until: i64 },
}

/// Chance that repeats itself.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice that always fall the same way for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// A number below `limit`, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        // Marsaglia's xorshift: enough to reach every corner, and the same everywhere.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }
}

/// One thing that is done to both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask for this many, allowing several ranges or not.
    Ask(u16, bool),
    /// Ask for exactly these, by place and number.
    Pin(u16, u16),
    /// Give back one of the holdings, resting or not.
    GiveBack(u16, bool),
    /// Ask again for what was last given back.
    Again,
    /// Let this many seconds pass.
    Wait(u16),
}

impl Step {
    /// A step by chance.
    pub fn draw(dice: &mut Dice, size: u16) -> Self {
        let mut below = |limit: u16| u16::try_from(dice.below(limit.into())).unwrap_or_default();
        match below(16) {
            0..6 => Self::Ask(1 + below(12), below(4) == 0),
            6..8 => Self::Pin(below(size), 1 + below(6)),
            8..13 => Self::GiveBack(below(u16::MAX), below(3) != 0),
            13 => Self::Again,
            _ => Self::Wait(below(20)),
        }
    }
}

/// How long addresses rest in the comparison, in seconds.
const REST: i64 = 30;
const OWNERS: [&str; 3] = ["a", "b", "c"];

/// The model and the pool side by side.
#[derive(Clone, Debug)]
pub struct Bench {
    pool: Pool,
    cells: Vec<Cell>,
    holdings: Vec<(u8, Vec<(usize, usize)>)>,
    last: Option<(u8, Vec<(usize, usize)>)>,
    now: i64,
    steps: u64,
}

impl Bench {
    /// A pool of 128 addresses with holes.
    pub fn new() -> Result<Self, String> {
        let wrong = |error: &dyn std::fmt::Display| error.to_string();
        let cidr: Cidr = "10.0.0.0/25".parse().map_err(|error| wrong(&error))?;
        let reserved: Cidr = "10.0.0.64/29".parse().map_err(|error| wrong(&error))?;
        let gateway = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        let layout =
            Layout::new(cidr, &[reserved], &[], Some(gateway)).map_err(|error| wrong(&error))?;
        let cells = (0..128)
            .map(|cell| match cell {
                0 | 1 | 64..72 | 127 => Cell::Closed,
                _ => Cell::Free,
            })
            .collect();
        Ok(Self {
            pool: Pool::new(layout),
            cells,
            holdings: Vec::new(),
            last: None,
            now: 0,
            steps: 0,
        })
    }

    /// Does one step with both and compares everything that can be seen.
    pub fn step(&mut self, step: Step) -> Result<(), String> {
        self.steps += 1;
        let owner = u8::try_from(self.steps % 3).unwrap_or_default();
        match step {
            Step::Ask(count, several) => self.ask(owner, count.into(), several),
            Step::Pin(place, count) => self.pin(owner, place.into(), count.into()),
            Step::GiveBack(which, rest) => self.give_back(which.into(), rest),
            Step::Again => self.again(),
            Step::Wait(seconds) => {
                self.now += i64::from(seconds);
                self.pool.advance(moment(self.now));
                for cell in &mut self.cells {
                    if matches!(cell, Cell::Resting { until, .. } if *until <= self.now) {
                        *cell = Cell::Free;
                    }
                }
                Ok(())
            }
        }
        .and_then(|()| self.figures())
        .map_err(|difference| format!("step {} {step:?}: {difference}", self.steps))
    }

    fn ask(&mut self, owner: u8, count: usize, several: bool) -> Result<(), String> {
        let expected = best_fit(&self.runs(), count).map_or_else(
            || several.then(|| self.longest_first(count)).flatten(),
            |start| Some(vec![(start, start + count - 1)]),
        );
        let got = self.pool.allocate(&Request {
            count: count as u128,
            owner: name(owner),
            prefer: &[],
            several,
        });
        self.take(owner, expected, got.map_err(|refusal| refusal.to_string()))
    }

    fn pin(&mut self, owner: u8, place: usize, count: usize) -> Result<(), String> {
        let end = place + count - 1;
        let cells = self.cells.get(place..=end);
        let fine = cells.is_some_and(|cells| cells.iter().all(|cell| is_for(*cell, owner)));
        let expected = fine.then(|| vec![(place, end)]);
        let got = range(place, end).and_then(|range| {
            let pinned = self.pool.pin(range, name(owner));
            pinned
                .map(|range| vec![range])
                .map_err(|refusal: Refusal| refusal.to_string())
        });
        self.take(owner, expected, got)
    }

    fn again(&mut self) -> Result<(), String> {
        let Some((owner, before)) = self.last.take() else {
            return Ok(());
        };
        let fine = before.iter().all(|(start, end)| {
            let cells = self.cells.get(*start..=*end).unwrap_or_default();
            cells.iter().all(|cell| is_for(*cell, owner))
        });
        let count = before.iter().map(|(start, end)| end - start + 1).sum();
        let expected = if fine {
            Some(before.clone())
        } else {
            best_fit(&self.runs(), count).map(|start| vec![(start, start + count - 1)])
        };
        let prefer: Result<Vec<AddressRange>, String> = before
            .iter()
            .map(|(start, end)| range(*start, *end))
            .collect();
        let got = self.pool.allocate(&Request {
            count: count as u128,
            owner: name(owner),
            prefer: &prefer?,
            several: false,
        });
        self.take(owner, expected, got.map_err(|refusal| refusal.to_string()))
    }

    fn give_back(&mut self, which: usize, rest: bool) -> Result<(), String> {
        if self.holdings.is_empty() {
            return Ok(());
        }
        let (owner, spans) = self.holdings.swap_remove(which % self.holdings.len());
        let until = self.now + REST;
        for (start, end) in &spans {
            let given = range(*start, *end)?;
            if !self
                .pool
                .release(given, name(owner), rest.then(|| moment(until)))
            {
                return Err(format!("{given} could not be given back"));
            }
            if self.pool.release(given, name(owner), None) {
                return Err(format!("{given} could be given back twice"));
            }
            let state = if rest {
                Cell::Resting { owner, until }
            } else {
                Cell::Free
            };
            self.cells
                .iter_mut()
                .take(end + 1)
                .skip(*start)
                .for_each(|cell| *cell = state);
        }
        self.last = Some((owner, spans));
        Ok(())
    }

    /// Compares a grant with what was expected and notes it in the model.
    fn take(
        &mut self,
        owner: u8,
        expected: Option<Vec<(usize, usize)>>,
        got: Result<Vec<AddressRange>, String>,
    ) -> Result<(), String> {
        let (spans, got) = match (expected, got) {
            (None, Err(_)) => return Ok(()),
            (Some(spans), Ok(got)) => (spans, got),
            (expected, got) => return Err(format!("expected {expected:?} and got {got:?}")),
        };
        let same: Result<Vec<AddressRange>, String> = spans
            .iter()
            .map(|(start, end)| range(*start, *end))
            .collect();
        if same? != got {
            return Err(format!("expected {spans:?} and got {got:?}"));
        }
        for (start, end) in &spans {
            for cell in self.cells.iter_mut().take(end + 1).skip(*start) {
                if matches!(cell, Cell::Held | Cell::Closed) {
                    return Err(format!("{spans:?} was granted and is {cell:?}"));
                }
                *cell = Cell::Held;
            }
        }
        self.holdings.push((owner, spans));
        Ok(())
    }

    fn figures(&self) -> Result<(), String> {
        let count = |wanted: fn(&Cell) -> bool| {
            self.cells.iter().filter(|cell| wanted(cell)).count() as u128
        };
        let free = count(|cell| *cell == Cell::Free);
        let longest = self
            .runs()
            .iter()
            .map(|(_, length)| *length)
            .max()
            .unwrap_or(0) as u128;
        let inside = (longest * 100).checked_div(free);
        let outside = inside.map_or(0, |inside| 100 - inside);
        let figures = self.pool.figures();
        let seen = (
            figures.total,
            figures.held,
            figures.resting,
            figures.free,
            figures.largest,
        );
        let held = count(|cell| *cell == Cell::Held);
        let resting = count(|cell| matches!(cell, Cell::Resting { .. }));
        let expected = (117, held, resting, free, longest);
        // Above a hundred addresses the percentage is counted in whole hundredths.
        let percent = figures
            .fragmentation
            .abs_diff(u8::try_from(outside).unwrap_or(u8::MAX));
        if seen == expected && (percent == 0 || free >= 100) {
            Ok(())
        } else {
            Err(format!(
                "expected {expected:?}, {outside} % and got {figures:?}"
            ))
        }
    }

    /// Starts and lengths of the free runs.
    fn runs(&self) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let mut open = false;
        for (place, cell) in self.cells.iter().enumerate() {
            match (open, *cell == Cell::Free) {
                (true, true) => runs.last_mut().into_iter().for_each(|run| run.1 += 1),
                (false, true) => runs.push((place, 1)),
                (_, false) => {}
            }
            open = *cell == Cell::Free;
        }
        runs
    }

    fn longest_first(&self, count: usize) -> Option<Vec<(usize, usize)>> {
        let mut runs = self.runs();
        if runs.iter().map(|(_, length)| length).sum::<usize>() < count {
            return None;
        }
        let (mut left, mut spans) = (count, Vec::new());
        while left > 0 {
            if let Some(start) = best_fit(&runs, left) {
                spans.push((start, start + left - 1));
                left = 0;
            } else {
                let longest = *runs
                    .iter()
                    .max_by_key(|(start, length)| (*length, *start))?;
                runs.retain(|run| *run != longest);
                spans.push((longest.0, longest.0 + longest.1 - 1));
                left -= longest.1;
            }
        }
        spans.sort_unstable();
        Some(spans)
    }
}

/// Does this many random steps; the seed makes them the same again.
pub fn compare(seed: u64, steps: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let mut bench = Bench::new()?;
    for _ in 0..steps {
        bench
            .step(Step::draw(&mut dice, 130))
            .map_err(|difference| format!("seed {seed}, {difference}"))?;
    }
    Ok(())
}

/// Whether an address can be had by this owner.
fn is_for(cell: Cell, asking: u8) -> bool {
    match cell {
        Cell::Free => true,
        Cell::Resting { owner, .. } => owner == asking,
        Cell::Held | Cell::Closed => false,
    }
}

/// The start of the shortest run that has `count` addresses; of equally short ones the lowest.
fn best_fit(runs: &[(usize, usize)], count: usize) -> Option<usize> {
    let fitting = runs.iter().filter(|(_, length)| *length >= count);
    fitting
        .min_by_key(|(start, length)| (*length, *start))
        .map(|(start, _)| *start)
}

fn name(owner: u8) -> &'static str {
    OWNERS.get(usize::from(owner)).copied().unwrap_or_default()
}

fn moment(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH
        .saturating_add(SignedDuration::from_secs(second))
        .unwrap_or(Timestamp::MAX)
}

fn range(start: usize, end: usize) -> Result<AddressRange, String> {
    let address = |place: usize| {
        let last = u8::try_from(place).map_err(|error| error.to_string())?;
        Ok::<_, String>(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)))
    };
    AddressRange::new(address(start)?, address(end)?).map_err(|error| error.to_string())
}
