//! Whose turn it is: each object is there once, is worked on by one pass at a time, and those whose spec nobody has
//! acted on yet go before those that are only looked at again.
//!
//! Pure: it is told the time.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::Hash,
    time::Instant,
};

/// After so many objects that somebody waits for, one that is only looked at again has its turn.
const FRESH_IN_A_ROW: u32 = 15;
/// While objects wait that nobody has acted on, or are being acted on, the others share this part of the places.
const PART_FOR_OTHERS: usize = 8;

/// How much an object waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// Something around it changed, or its time has come.
    Again,
    /// It is new, or its spec is.
    Fresh,
}

/// The turns of objects.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    places: HashMap<K, Place>,
    /// Those whose time has not come.
    later: BTreeMap<(Instant, u64), K>,
    fresh: VecDeque<(K, u64)>,
    again: VecDeque<(K, u64)>,
    /// Fresh ones since the last of the others.
    in_a_row: u32,
    /// Those that are worked on.
    busy: Busy,
    tickets: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    fresh: usize,
    again: usize,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Later {
        due: Instant,
        ticket: u64,
        claim: Claim,
    },
    Due {
        ticket: u64,
        claim: Claim,
    },
    /// A pass is under way; what was asked meanwhile comes after it.
    Busy {
        claim: Claim,
        asked: Option<(Instant, Claim)>,
    },
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            places: HashMap::new(),
            later: BTreeMap::new(),
            fresh: VecDeque::new(),
            again: VecDeque::new(),
            in_a_row: 0,
            busy: Busy::default(),
            tickets: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// The object is to be looked at, not before `due`. What was asked earlier for an earlier time stays.
    pub(crate) fn ask(&mut self, key: K, due: Instant, claim: Claim) {
        match self.places.get(&key).copied() {
            None => self.wait(key, due, claim),
            Some(Place::Busy {
                claim: under_way,
                asked,
            }) => {
                let asked = asked.map_or((due, claim), |(before, held)| {
                    (before.min(due), held.max(claim))
                });
                let asked = Some(asked);
                let claim = under_way;
                self.places.insert(key, Place::Busy { claim, asked });
            }
            Some(Place::Later {
                due: before,
                ticket,
                claim: held,
            }) => {
                if due < before || claim > held {
                    self.later.remove(&(before, ticket));
                    self.wait(key, before.min(due), held.max(claim));
                }
            }
            Some(Place::Due { claim: held, .. }) => {
                if claim > held {
                    self.line_up(key, claim);
                }
            }
        }
    }

    /// The object whose turn it is, if one of so many places is free for it. It has no other turn before [`Queue::done`].
    pub(crate) fn take(&mut self, now: Instant, places: usize) -> Option<K> {
        if self.busy.fresh + self.busy.again >= places {
            return None;
        }
        while let Some(first) = self
            .later
            .first_entry()
            .filter(|first| first.key().0 <= now)
        {
            let key = first.remove();
            if let Some(Place::Later { claim, .. }) = self.places.get(&key) {
                let claim = *claim;
                self.line_up(key, claim);
            }
        }
        let alone = self.fresh.is_empty() && self.busy.fresh == 0;
        let is_open = alone || self.busy.again < places.div_ceil(PART_FOR_OTHERS);
        let (key, claim) = if is_open && self.in_a_row >= FRESH_IN_A_ROW {
            self.next(Claim::Again).or_else(|| self.next(Claim::Fresh))
        } else {
            let fresh = self.next(Claim::Fresh);
            fresh.or_else(|| is_open.then(|| self.next(Claim::Again)).flatten())
        }?;
        *self.count(claim) += 1;
        let asked = None;
        self.places
            .insert(key.clone(), Place::Busy { claim, asked });
        Some(key)
    }

    fn count(&mut self, claim: Claim) -> &mut usize {
        match claim {
            Claim::Fresh => &mut self.busy.fresh,
            Claim::Again => &mut self.busy.again,
        }
    }

    /// How many objects wait for a place; who went from one line to the other counts in both.
    pub(crate) fn waiting(&self) -> usize {
        self.fresh.len() + self.again.len()
    }

    /// The pass over the object ended. `next` is when it wants to be looked at again.
    pub(crate) fn done(&mut self, key: &K, next: Option<Instant>) {
        let Some(Place::Busy { claim, asked }) = self.places.remove(key) else {
            return;
        };
        *self.count(claim) -= 1;
        let next = next.map(|due| (due, Claim::Again));
        let due = match (asked, next) {
            (Some((asked, claim)), Some((next, _))) => Some((asked.min(next), claim)),
            (asked, next) => asked.or(next),
        };
        if let Some((due, claim)) = due {
            self.wait(key.clone(), due, claim);
        }
    }

    /// When the next object will be due that is not yet.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.later.first_key_value().map(|((due, _), _)| *due)
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    fn wait(&mut self, key: K, due: Instant, claim: Claim) {
        let ticket = self.ticket();
        self.later.insert((due, ticket), key.clone());
        self.places.insert(key, Place::Later { due, ticket, claim });
    }

    fn line_up(&mut self, key: K, claim: Claim) {
        let ticket = self.ticket();
        self.places
            .insert(key.clone(), Place::Due { ticket, claim });
        self.line(claim).push_back((key, ticket));
    }

    fn line(&mut self, claim: Claim) -> &mut VecDeque<(K, u64)> {
        match claim {
            Claim::Fresh => &mut self.fresh,
            Claim::Again => &mut self.again,
        }
    }

    /// The first of a line. Who went to the other line left an old ticket behind.
    fn next(&mut self, claim: Claim) -> Option<(K, Claim)> {
        loop {
            let (key, held) = self.line(claim).pop_front()?;
            if matches!(self.places.get(&key), Some(Place::Due { ticket, .. }) if *ticket == held) {
                self.in_a_row = match claim {
                    Claim::Fresh => self.in_a_row.saturating_add(1),
                    Claim::Again => 0,
                };
                return Some((key, claim));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PLACES: usize = 100;

    fn taken(queue: &mut Queue<&'static str>, now: Instant) -> Vec<&'static str> {
        std::iter::from_fn(|| take(queue, now)).collect()
    }

    fn take(queue: &mut Queue<&'static str>, now: Instant) -> Option<&'static str> {
        queue.take(now, PLACES)
    }

    #[test]
    fn those_that_are_looked_at_again_leave_room_while_others_are_fresh() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for key in ["1", "2", "3", "4"] {
            queue.ask(key, now, Claim::Again);
        }
        queue.ask("fresh", now, Claim::Fresh);
        let next = |queue: &mut Queue<&'static str>| queue.take(now, 16);
        assert_eq!(next(&mut queue), Some("fresh"));
        assert_eq!(next(&mut queue), Some("1"));
        assert_eq!(next(&mut queue), Some("2"));
        assert_eq!(next(&mut queue), None, "an eighth of the places is taken");
        queue.done(&"1", None);
        assert_eq!(next(&mut queue), Some("3"));
        queue.done(&"fresh", None);
        assert_eq!(next(&mut queue), Some("4"), "nobody else waits");
    }

    #[test]
    fn no_more_are_worked_on_than_there_are_places() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for key in ["1", "2", "3"] {
            queue.ask(key, now, Claim::Fresh);
        }
        assert!(queue.take(now, 2).is_some());
        assert!(queue.take(now, 2).is_some());
        assert!(queue.take(now, 2).is_none());
        queue.done(&"1", None);
        assert!(queue.take(now, 2).is_some());
    }

    #[test]
    fn objects_have_their_turns_in_the_order_in_which_they_asked() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for key in ["a", "b", "c", "a", "b"] {
            queue.ask(key, now, Claim::Again);
        }
        assert_eq!(taken(&mut queue, now), ["a", "b", "c"]);
    }

    #[test]
    fn fresh_objects_go_first_and_the_others_are_not_forgotten() {
        let now = Instant::now();
        let mut queue = Queue::default();
        let fresh = [
            "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16",
        ];
        for key in ["x", "y"] {
            queue.ask(key, now, Claim::Again);
        }
        for key in fresh {
            queue.ask(key, now, Claim::Fresh);
        }
        let (first, last) = fresh.split_at(15);
        let order = [first, &["x"], last, &["y"]].concat();
        assert_eq!(taken(&mut queue, now), order);
    }

    #[test]
    fn an_object_that_becomes_fresh_while_it_waits_moves_up_and_has_one_turn() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.ask("a", now, Claim::Again);
        queue.ask("b", now, Claim::Again);
        assert_eq!(take(&mut queue, now), Some("a"));
        queue.ask("c", now, Claim::Again);
        queue.ask("c", now, Claim::Fresh);
        assert_eq!(taken(&mut queue, now), ["c", "b"]);
    }

    #[test]
    fn an_object_is_worked_on_once_at_a_time_and_again_if_it_was_asked_for_meanwhile() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.ask("a", now, Claim::Fresh);
        assert_eq!(take(&mut queue, now), Some("a"));
        queue.ask("a", now, Claim::Again);
        assert_eq!(take(&mut queue, now), None);
        queue.done(&"a", None);
        assert_eq!(take(&mut queue, now), Some("a"));
        queue.done(&"a", None);
        assert_eq!(take(&mut queue, now), None);
        assert!(queue.places.is_empty());
    }

    #[test]
    fn the_earliest_time_that_was_asked_for_counts_and_later_ones_are_dropped() {
        let now = Instant::now();
        let soon = now + Duration::from_millis(20);
        let late = now + Duration::from_mins(5);
        let mut queue = Queue::default();
        queue.ask("a", late, Claim::Again);
        queue.ask("a", soon, Claim::Again);
        assert_eq!(queue.next_due(), Some(soon));
        assert_eq!(take(&mut queue, now), None);
        assert_eq!(take(&mut queue, soon), Some("a"));
        queue.done(&"a", Some(late));
        assert_eq!(queue.next_due(), Some(late));
        queue.ask("a", soon, Claim::Fresh);
        assert_eq!(taken(&mut queue, soon), ["a"]);
        queue.done(&"a", None);
        assert_eq!(queue.next_due(), None);
    }
}
