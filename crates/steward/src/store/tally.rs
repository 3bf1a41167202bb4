//! Whether somebody else changed users or roles of a store.
//!
//! etcd counts every change of a user or a role. We count our own, so a number that we did not expect is somebody
//! else's work, and one cheap question for the number stands for reading the rights of every tenant. Pure.

/// What the store's count should be, and whether it was something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The count as it should be; unknown before it was first asked for.
    expected: Option<u64>,
    /// A change of ours may or may not have taken effect.
    doubtful: bool,
    /// The count was not as expected, and nobody looked at the tenants since.
    disturbed: bool,
}

impl Tally {
    /// One change of ours took effect.
    pub(crate) fn changed(&mut self) {
        if let Some(expected) = &mut self.expected {
            *expected += 1;
        }
    }

    /// It is not known whether a change of ours took effect, or once or twice.
    pub(crate) fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// The store told its count while no change of ours was under way.
    pub(crate) fn told(&mut self, revision: u64) {
        // Also at the first look: nobody counted while we did not run.
        self.disturbed |= self.doubtful || self.expected != Some(revision);
        self.doubtful = false;
        self.expected = Some(revision);
    }

    /// Whether the rights of tenants have to be looked at.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.disturbed
    }

    /// Somebody begins to look at them; a disturbance from now on is a new one.
    pub(crate) fn begin(&mut self) {
        self.disturbed = false;
    }

    /// The look was broken off.
    pub(crate) fn break_off(&mut self) {
        self.disturbed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(revision: u64) -> Tally {
        let mut tally = Tally::default();
        tally.told(revision);
        tally.begin();
        tally
    }

    #[test]
    fn our_own_changes_disturb_nobody() {
        let mut tally = settled(7);
        tally.changed();
        tally.changed();
        tally.told(9);
        assert!(!tally.is_disturbed());
        tally.told(9);
        assert!(!tally.is_disturbed());
    }

    #[test]
    fn somebody_elses_change_is_noticed_among_our_own() {
        let mut tally = settled(7);
        tally.changed();
        tally.told(9);
        assert!(tally.is_disturbed());
        tally.begin();
        tally.told(9);
        assert!(!tally.is_disturbed());
    }

    #[test]
    fn after_a_start_and_after_an_answer_that_was_lost_tenants_are_looked_at_once() {
        let mut tally = Tally::default();
        tally.told(7);
        assert!(tally.is_disturbed());
        tally.begin();
        tally.doubt();
        tally.told(7);
        assert!(tally.is_disturbed());
        tally.begin();
        tally.told(7);
        assert!(!tally.is_disturbed());
    }

    #[test]
    fn a_store_that_was_replaced_by_another_is_looked_at() {
        let mut tally = settled(70);
        tally.told(3);
        assert!(tally.is_disturbed());
    }
}
