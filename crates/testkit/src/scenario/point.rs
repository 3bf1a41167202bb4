//! A write of the undisturbed run, found again in another run.
//!
//! Not by its number alone: a controller that works on several objects at once writes in another order each time, and
//! some writes would never be disturbed.

use std::{collections::BTreeMap, fmt};

use super::{Likeness, World};
use crate::faults::{Fault, Plan, Sent};

/// The n-th write of one method to one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WritePoint {
    /// Its place among the writes of the undisturbed run, from 1.
    number: usize,
    /// Method and path, the same in every world.
    signature: String,
    /// Its place among the writes with this signature, from 1.
    nth: usize,
}

/// The write points of a run, in order.
pub(super) fn of(writes: impl Iterator<Item = Sent>, world: &World) -> Vec<WritePoint> {
    let world = world.likeness();
    let mut seen = BTreeMap::<String, usize>::new();
    let mut points = Vec::new();
    for sent in writes {
        let signature = signature(&sent, &world);
        let nth = seen.entry(signature.clone()).or_default();
        *nth += 1;
        points.push(WritePoint {
            number: points.len() + 1,
            nth: *nth,
            signature,
        });
    }
    points
}

impl WritePoint {
    /// A plan that disturbs this write in another world.
    pub(super) fn plan(&self, world: &World, counts: fn(&Sent) -> bool, fault: Fault) -> Plan {
        let (wanted, world) = (self.signature.clone(), world.likeness());
        let matches = move |sent: &Sent| counts(sent) && signature(sent, &world) == wanted;
        Plan::none().and_at(self.nth, matches, fault)
    }
}

fn signature(sent: &Sent, world: &Likeness) -> String {
    format!("{} {}", sent.method, world.generic(&sent.path))
}

impl fmt::Display for WritePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            signature,
            nth,
        } = self;
        write!(f, "write {number} ({signature}")?;
        if *nth > 1 {
            write!(f, ", time {nth})")
        } else {
            f.write_str(")")
        }
    }
}
