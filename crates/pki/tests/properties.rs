//! What holds for every plan, whatever the Secrets hold.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod support;

use std::sync::OnceLock;

use butler_pki::{
    Action, AltName, Contents, Fresh, Item, Jitter, SecretKind, ServerNames, Wanted, carry_out,
    plan,
};
use proptest::prelude::*;
use support::{day, hours, issued, start, wanted};

/// One control plane for all cases: what varies is what happens to it.
fn example() -> &'static (Wanted, Contents) {
    static EXAMPLE: OnceLock<(Wanted, Contents)> = OnceLock::new();
    EXAMPLE.get_or_init(|| {
        let wanted = wanted();
        let held = issued(&wanted);
        (wanted, held)
    })
}

/// Something that people do to a Secret.
#[derive(Clone, Debug)]
enum Accident {
    Delete,
    Drop(usize),
    Overwrite(usize, Vec<u8>),
    Cut(usize, usize),
    Swap(usize, SecretKind),
    Ask,
}

fn accident() -> impl Strategy<Value = Accident> {
    let kind = proptest::sample::select(SecretKind::ALL.to_vec());
    prop_oneof![
        Just(Accident::Delete),
        Just(Accident::Ask),
        (0usize..4).prop_map(Accident::Drop),
        (0usize..4, proptest::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(file, bytes)| Accident::Overwrite(file, bytes)),
        (0usize..4, 0usize..2000).prop_map(|(file, at)| Accident::Cut(file, at)),
        (0usize..4, kind).prop_map(|(file, kind)| Accident::Swap(file, kind)),
    ]
}

fn happen(held: &mut Contents, kind: SecretKind, accident: &Accident) {
    let original = held.clone();
    let Some(content) = held.get_mut(&kind) else {
        return;
    };
    let name = |file: usize| kind.files()[file % kind.files().len()].to_owned();
    match accident {
        Accident::Delete => drop(held.remove(&kind)),
        Accident::Ask => content.rotate = Some(String::new()),
        Accident::Drop(file) => drop(content.data.remove(&name(*file))),
        Accident::Overwrite(file, bytes) => {
            content.data.insert(name(*file), bytes.clone());
        }
        Accident::Cut(file, at) => {
            if let Some(text) = content.data.get_mut(&name(*file)) {
                text.truncate(*at);
            }
        }
        Accident::Swap(file, other) => {
            let from = other.files()[file % other.files().len()];
            let text = original.get(other).and_then(|other| other.data.get(from));
            content
                .data
                .insert(name(*file), text.cloned().unwrap_or_default());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn one_pass_settles_whatever_happened_to_the_secrets(
        accidents in proptest::collection::vec(
            (proptest::sample::select(SecretKind::ALL.to_vec()), accident()), 0..6),
        days in 0i64..4000,
        place in "[a-z]{4}",
    ) {
        let (wanted, held) = example();
        let mut held = held.clone();
        for (kind, accident) in &accidents {
            happen(&mut held, *kind, accident);
        }
        let (now, jitter) = (day(days), Jitter::of(&place));
        let first = plan(wanted, &held, now, jitter);
        let after = carry_out(&first, wanted, &held, &mut Fresh, now).unwrap();
        let second = plan(wanted, &after, now, jitter);
        prop_assert!(second.is_settled(), "{first:?}\n{second:?}");
        let again = carry_out(&second, wanted, &after, &mut Fresh, now).unwrap();
        prop_assert_eq!(&again, &after);
        // What blocks is only what must not be replaced unasked, and what hangs on it.
        for (item, reason) in second.blocked() {
            let root = matches!(item, Item::Ca | Item::FrontProxyCa | Item::ServiceAccount | Item::StoreClient);
            prop_assert!(root || reason.code() == "AuthorityUnusable", "{item:?}: {reason}");
        }
    }

    #[test]
    fn nothing_is_renewed_before_its_time_and_everything_before_its_end(
        place in "[a-z]{8}", part in 0.0f64..1.0,
    ) {
        let (wanted, held) = example();
        let jitter = Jitter::of(&place);
        let next = plan(wanted, held, start(), jitter).next_renewal().unwrap();
        prop_assert!(next >= hours(day(243), 7) && next <= day(274), "{next}");
        let wait = next.as_second() - start().as_second();
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "any moment will do")]
        let early = hours(start(), (wait as f64 * part / 3600.0) as i64);
        prop_assert!(plan(wanted, held, early, jitter).is_settled());
        let due = plan(wanted, held, next, jitter);
        let renewed = due.steps.values().filter(|step| step.action.changes()).count();
        prop_assert_eq!(renewed, 9);
    }

    #[test]
    fn the_order_of_names_does_not_matter(
        mut names in proptest::collection::vec("[a-z]{1,8}[.]example[.]com|10[.]0[.][1-9][.][1-9]", 0..6),
        rotate in 0usize..6,
    ) {
        let (wanted, held) = example();
        let mut wanted = wanted.clone();
        let collect = |texts: &[String]| {
            let extra: Vec<AltName> = texts.iter().map(|text| text.parse().unwrap()).collect();
            ServerNames {
                tenant: "blue", namespace: "team-a", cluster_domain: "cluster.local",
                management_domain: "cluster.local", service_ranges: &[], endpoints: &[], extra: &extra,
            }
            .collect()
        };
        wanted.server_names = collect(&names);
        let first = plan(&wanted, held, day(1), Jitter::NONE);
        let after = carry_out(&first, &wanted, held, &mut Fresh, day(1)).unwrap();
        let middle = rotate.min(names.len());
        names.rotate_left(middle);
        names.extend(names.first().cloned());
        wanted.server_names = collect(&names);
        let second = plan(&wanted, &after, day(1), Jitter::NONE);
        prop_assert_eq!(&second.steps[&Item::ApiServer].action, &Action::Keep);
    }
}
