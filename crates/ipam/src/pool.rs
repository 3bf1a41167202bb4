//! A pool: what is open, held, resting and free, and what the next request gets.

mod refusal;

use std::net::IpAddr;

use butler_api::types::AddressRange;
use jiff::Timestamp;
pub use refusal::{Clash, Refusal};

use crate::{
    Layout,
    family::Runs,
    layout::{Span, range, size, span},
    number::address,
    rest::Rest,
};

/// The state of a pool. Clones are independent.
#[derive(Clone, Debug)]
pub struct Pool {
    layout: Layout,
    runs: Runs,
    rest: Rest,
    held: u128,
}

/// What somebody wants.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// How many addresses, at least one.
    pub count: u128,
    /// Who wants them: what rests after this owner had it is free for it at once.
    pub owner: &'a str,
    /// What this owner had before, to be had again if it can be.
    pub prefer: &'a [AddressRange],
    /// Whether several ranges will do where no single one is long enough.
    pub several: bool,
}

/// How much of a pool is what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Open to tenants.
    pub total: u128,
    /// Held by somebody.
    pub held: u128,
    /// Given back, and resting.
    pub resting: u128,
    /// Free for anybody.
    pub free: u128,
    /// The longest free run.
    pub largest: u128,
    /// Share of the free addresses outside that run, in percent.
    pub fragmentation: u8,
}

impl Pool {
    /// A pool of which nothing is held.
    pub fn new(layout: Layout) -> Self {
        let mut runs = Runs::new(layout.is_v4());
        for open in layout.open() {
            runs.give(*open);
        }
        Self {
            layout,
            runs,
            rest: Rest::default(),
            held: 0,
        }
    }

    /// How much is what.
    pub fn figures(&self) -> Figures {
        let (free, largest) = (self.runs.free(), self.runs.largest());
        // In hundredths, so that no multiplication overflows.
        let outside = match free / 100 {
            0 if free == 0 => 0,
            0 => 100 - largest * 100 / free,
            hundredth => 100 - (largest / hundredth).min(100),
        };
        Figures {
            total: self.layout.total(),
            held: self.held,
            resting: self.rest.count(),
            free,
            largest,
            fragmentation: u8::try_from(outside).unwrap_or(100),
        }
    }

    /// When something that rests is free again.
    pub fn soonest(&self) -> Option<Timestamp> {
        self.rest.soonest()
    }

    /// Frees what has rested long enough.
    pub fn advance(&mut self, now: Timestamp) {
        while let Some(span) = self.rest.pop(now) {
            self.runs.give(span);
        }
    }

    /// Notes addresses that somebody holds. All of them count as held, also where the pool has changed under them or
    /// somebody else holds them too; what is wrong is returned.
    pub fn occupy(&mut self, range: AddressRange) -> Option<Clash> {
        let span = span(range);
        self.held = self.held.saturating_add(size(span));
        let inside = if range.start().is_ipv4() == self.layout.is_v4() {
            self.layout.inside(span)
        } else {
            Vec::new()
        };
        let mut clash = None;
        for part in &inside {
            let free = self.runs.within(*part);
            if clash.is_none() && free.as_slice() != [*part] {
                clash = self.first_not_in(*part, &free).map(Clash::Held);
            }
            for part in free {
                self.runs.take(part);
            }
        }
        clash.or_else(|| {
            let missing = first_gap(span, &inside)?;
            Some(Clash::Closed(self.address(missing)))
        })
    }

    /// Keeps addresses from being handed out although nobody holds them here, because they were seen in use. Returns
    /// whether one of them was free until now.
    pub fn block(&mut self, range: AddressRange) -> bool {
        if range.start().is_ipv4() != self.layout.is_v4() {
            return false;
        }
        let free = self.runs.within(span(range));
        for part in &free {
            self.runs.take(*part);
        }
        !free.is_empty()
    }

    /// Notes addresses that were given back and rest; what somebody holds, or rests longer, stays so.
    pub fn rest(&mut self, range: AddressRange, owner: &str, until: Timestamp) {
        if range.start().is_ipv4() != self.layout.is_v4() {
            return;
        }
        for part in self.runs.within(span(range)) {
            if self.runs.take(part) {
                self.rest.insert(part, owner, until);
            }
        }
    }

    /// Grants a request: what the owner had before, or else the best fit.
    pub fn allocate(&mut self, request: &Request<'_>) -> Result<Vec<AddressRange>, Refusal> {
        if let Some(before) = self.again(request) {
            return Ok(before);
        }
        let asked = request.count;
        let best = asked
            .checked_sub(1)
            .and_then(|above| self.runs.take_best(above));
        let spans = match best {
            Some(found) => vec![found],
            None => self.several(request)?,
        };
        self.held = self.held.saturating_add(asked);
        Ok(self.ranges(spans))
    }

    /// Grants exactly these addresses.
    pub fn pin(&mut self, wanted: AddressRange, owner: &str) -> Result<AddressRange, Refusal> {
        for end in [wanted.start(), wanted.end()] {
            if !self.layout.cidr().contains(end) {
                return Err(Refusal::Outside { address: end });
            }
        }
        let wanted_span = span(wanted);
        if let Some(gap) = first_gap(wanted_span, &self.layout.inside(wanted_span)) {
            let address = self.address(gap);
            return Err(Refusal::Closed { address });
        }
        let parts = self.rest.parts(wanted_span);
        let theirs = parts.iter().find(|part| part.owner != owner);
        if let Some(part) = theirs {
            let (address, until) = (self.address(part.span.0), part.until);
            return Err(Refusal::Resting { address, until });
        }
        if let Some(gap) = self.first_held(wanted_span) {
            let address = self.address(gap);
            return Err(Refusal::Held { address });
        }
        self.take(wanted_span);
        self.held = self.held.saturating_add(size(wanted_span));
        Ok(wanted)
    }

    /// Takes addresses back; they rest until the given moment, or are free at once. Returns `false`, and changes
    /// nothing, if they were not held.
    pub fn release(&mut self, given: AddressRange, owner: &str, until: Option<Timestamp>) -> bool {
        let given = span(given);
        let inside = self.layout.inside(given);
        let known = inside
            .iter()
            .all(|part| self.runs.within(*part).is_empty() && self.rest.parts(*part).is_empty());
        if !known || self.held < size(given) {
            return false;
        }
        self.held -= size(given);
        for part in inside {
            match until {
                Some(until) => self.rest.insert(part, owner, until),
                None => {
                    self.runs.give(part);
                }
            }
        }
        true
    }

    /// What the owner had before, all of it, if nobody else has any of it now.
    fn again(&mut self, request: &Request<'_>) -> Option<Vec<AddressRange>> {
        let before: Vec<Span> = request.prefer.iter().copied().map(span).collect();
        let count = before
            .iter()
            .copied()
            .map(size)
            .fold(0, u128::saturating_add);
        if before.is_empty() || count != request.count {
            return None;
        }
        let v4 = self.layout.is_v4();
        let ours = |part: &Span| {
            let parts = self.rest.parts(*part);
            self.first_held(*part).is_none() && parts.iter().all(|part| part.owner == request.owner)
        };
        let possible = request
            .prefer
            .iter()
            .all(|range| range.start().is_ipv4() == v4)
            && before
                .iter()
                .zip(before.iter().skip(1))
                .all(|(first, second)| first.1 < second.0)
            && before.iter().all(ours);
        if !possible {
            return None;
        }
        for part in &before {
            self.take(*part);
        }
        self.held = self.held.saturating_add(count);
        Some(self.ranges(before))
    }

    /// Several runs, the longest first so that they are as few as possible, the last one by best fit.
    fn several(&mut self, request: &Request<'_>) -> Result<Vec<Span>, Refusal> {
        let asked = request.count;
        let (free, largest) = (self.runs.free(), self.runs.largest());
        let total = self.layout.total();
        if asked > total {
            return Err(Refusal::TooMany { asked, total });
        }
        if asked == 0 || asked > free {
            let resting = self.rest.count();
            return Err(Refusal::Exhausted {
                asked,
                free,
                resting,
            });
        }
        if !request.several {
            return Err(Refusal::Fragmented {
                asked,
                free,
                largest,
            });
        }
        let mut spans = Vec::new();
        let mut left = asked;
        while left > 0 {
            let next = match self.runs.take_best(left - 1) {
                Some(last) => last,
                // Enough are free, so there is a run, and it is shorter than what is left.
                None => match self.runs.take_largest() {
                    Some(longest) => longest,
                    None => break,
                },
            };
            left = left.saturating_sub(size(next));
            spans.push(next);
        }
        spans.sort_unstable();
        Ok(spans)
    }

    /// The first address of a span that is neither free nor resting.
    fn first_held(&self, wanted: Span) -> Option<u128> {
        let mut known = self.runs.within(wanted);
        known.extend(self.rest.parts(wanted).into_iter().map(|part| part.span));
        known.sort_unstable();
        first_gap(wanted, &known)
    }

    /// Takes a span of which everything is free or rests.
    fn take(&mut self, wanted: Span) {
        for awake in self.rest.wake(wanted) {
            self.runs.give(awake);
        }
        self.runs.take(wanted);
    }

    fn first_not_in(&self, whole: Span, parts: &[Span]) -> Option<IpAddr> {
        first_gap(whole, parts).map(|gap| self.address(gap))
    }

    fn address(&self, number: u128) -> IpAddr {
        address(number, self.layout.is_v4())
    }

    fn ranges(&self, spans: Vec<Span>) -> Vec<AddressRange> {
        let v4 = self.layout.is_v4();
        spans
            .into_iter()
            .filter_map(|span| range(span, v4))
            .collect()
    }
}

/// The first number of a span that is in none of its parts, which are sorted and apart.
fn first_gap(whole: Span, parts: &[Span]) -> Option<u128> {
    let mut next = Some(whole.0);
    for (start, end) in parts {
        match next {
            Some(number) if number == *start => next = end.checked_add(1),
            _ => break,
        }
    }
    next.filter(|number| *number <= whole.1)
}

#[cfg(test)]
mod tests;
