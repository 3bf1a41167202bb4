//! The allocator beside the simplest one that can be written.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

use butler_ipam::model::{Bench, Step, compare};
use proptest::prelude::*;

#[test]
fn a_million_random_operations_go_as_the_simplest_allocator_says() {
    for seed in 1..=20 {
        compare(seed, 50_000).unwrap_or_else(|difference| panic!("{difference}"));
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u16..40, any::<bool>()).prop_map(|(count, several)| Step::Ask(count, several)),
        2 => (0u16..130, 1u16..20).prop_map(|(place, count)| Step::Pin(place, count)),
        3 => (any::<u16>(), any::<bool>()).prop_map(|(which, rest)| Step::GiveBack(which, rest)),
        1 => Just(Step::Again),
        1 => (0u16..40).prop_map(Step::Wait),
    ]
}

proptest! {
    // Shrinks to the shortest sequence that shows a difference.
    #[test]
    fn no_sequence_of_operations_overlaps_leaks_or_cuts_a_rest_short(steps in prop::collection::vec(step(), 1..120)) {
        let mut bench = Bench::new().unwrap();
        for step in steps {
            prop_assert_eq!(bench.step(step), Ok(()));
        }
    }
}
