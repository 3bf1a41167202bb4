//! What becomes of authorities and token keys: renewed with care, and never replaced unasked.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

mod support;

use butler_pki::{
    Action, Algorithm, Authority, Certificate, Consumer, Contents, Fresh, Item, KeySource as _,
    Lifetime, Reason, SecretKind, profile::Profile, validity::Validity,
};
use jiff::SignedDuration;
use support::{authority, changes, day, issued, pass, put, replan, start, text, wanted};

const CLUSTER_LEAVES: [Item; 7] = [
    Item::ApiServer,
    Item::KubeletClient,
    Item::Admin,
    Item::SuperAdmin,
    Item::ControllerManager,
    Item::Scheduler,
    Item::Tunnel,
];

#[test]
fn an_authority_is_renewed_with_its_key_so_that_nothing_it_signed_breaks() {
    let wanted = wanted();
    let held = issued(&wanted);
    let now = day(2440);
    // The leaves were renewed a month before their authority is due.
    let before = pass(&wanted, &held, day(2410)).1;
    let (plan, after) = pass(&wanted, &before, now);
    assert_eq!(
        changes(&plan)[..2],
        [(Item::Ca, "Due"), (Item::FrontProxyCa, "Due")]
    );
    assert_eq!(plan.steps[&Item::ApiServer].action, Action::Keep);
    assert_eq!(
        plan.steps[&Item::Admin].action,
        Action::Rewrite {
            reason: Reason::AuthorityRenewed
        }
    );
    assert_eq!(
        text(&after, SecretKind::Ca, "ca.key"),
        text(&before, SecretKind::Ca, "ca.key")
    );
    assert_ne!(
        text(&after, SecretKind::Ca, "ca.crt"),
        text(&before, SecretKind::Ca, "ca.crt")
    );
    assert!(replan(&wanted, &after, now).is_settled());
}

#[test]
fn near_the_end_of_a_foreign_authority_nothing_is_made_over_and_over() {
    let mut wanted = wanted();
    let key = Fresh.key(Algorithm::EcdsaP256).unwrap();
    let month = Lifetime::try_from(SignedDuration::from_hours(24 * 30)).unwrap();
    let profile = Profile::authority("example");
    let validity = Validity::starting(start(), month);
    wanted.authority = Some(Authority::create(&profile, key, [1; 16], validity).unwrap());
    let held = issued(&wanted);
    let late = replan(&wanted, &held, day(29));
    assert!(
        CLUSTER_LEAVES
            .iter()
            .all(|item| late.steps[item].action == Action::Keep)
    );
    assert_eq!(late.steps[&Item::ApiServer].not_after, Some(day(30)));
    let over = replan(&wanted, &held, day(31));
    let problem = over
        .blocked()
        .find(|(item, _)| *item == Item::Ca)
        .unwrap()
        .1
        .to_string();
    assert_eq!(
        problem,
        "ca is unusable: it expired at 2026-12-15T12:00:00Z"
    );
}

#[test]
fn a_damaged_authority_blocks_until_it_is_restored_and_what_stands_stays() {
    let wanted = wanted();
    let good = issued(&wanted);
    let mut held = good.clone();
    for file in ["ca.key", "tls.key"] {
        put(&mut held, SecretKind::Ca, file, b"garbage");
    }
    put(&mut held, SecretKind::ServiceAccount, "sa.key", b"garbage");
    held.remove(&SecretKind::SchedulerKubeconfig);
    let (plan, after) = pass(&wanted, &held, day(1));
    assert_eq!(
        changes(&plan),
        [
            (Item::Ca, "Garbage"),
            (Item::ServiceAccount, "Garbage"),
            (Item::Scheduler, "AuthorityUnusable"),
        ]
    );
    assert!(plan.is_settled());
    assert_eq!(after, held);
    assert!(replan(&wanted, &good, day(1)).is_settled());
}

#[test]
fn cluster_apis_copy_of_the_authority_is_enough() {
    let wanted = wanted();
    let good = issued(&wanted);
    let mut held = good.clone();
    put(&mut held, SecretKind::Ca, "ca.crt", b"garbage");
    held.get_mut(&SecretKind::Ca).unwrap().data.remove("ca.key");
    let (plan, after) = pass(&wanted, &held, day(1));
    assert_eq!(changes(&plan), [(Item::Ca, "Layout")]);
    assert_eq!(after, good);
}

#[test]
fn an_authority_that_people_bring_signs_everything_and_is_written_as_given() {
    let mut wanted = wanted();
    let mut held = issued(&wanted);
    wanted.authority = Some(authority("Example Corp"));
    held.get_mut(&SecretKind::Ca).unwrap().rotate = Some(String::new());
    let (plan, after) = pass(&wanted, &held, day(1));
    assert_eq!(changes(&plan)[0], (Item::Ca, "Provided"));
    for item in CLUSTER_LEAVES {
        assert!(
            changes(&plan).contains(&(item, "ForeignAuthority")),
            "{item:?}"
        );
    }
    assert_eq!(plan.steps[&Item::FrontProxyClient].action, Action::Keep);
    let bundle = wanted.authority.as_ref().unwrap().bundle();
    assert_eq!(text(&after, SecretKind::Ca, "tls.crt"), bundle.as_bytes());
    let serving = text(&after, SecretKind::ApiServer, "apiserver.crt");
    let serving = Certificate::from_pem(&serving).unwrap();
    assert!(serving.is_signed_by(wanted.authority.as_ref().unwrap().certificate()));
    assert!(replan(&wanted, &after, day(1)).is_settled());
}

#[test]
fn an_authority_with_another_key_waits_for_permission_and_the_old_one_goes_on_signing() {
    let mut wanted = wanted();
    wanted.authority = Some(authority("Example Corp"));
    let mut held = issued(&wanted);
    wanted.authority = Some(authority("Example Corp"));
    held.remove(&SecretKind::ApiServer);
    let (plan, after) = pass(&wanted, &held, day(1));
    assert_eq!(
        changes(&plan),
        [(Item::Ca, "OtherAuthority"), (Item::ApiServer, "Missing")]
    );
    assert_eq!(after[&SecretKind::Ca], held[&SecretKind::Ca]);
    let serving = text(&after, SecretKind::ApiServer, "apiserver.crt");
    let signer = Certificate::from_pem(&text(&held, SecretKind::Ca, "ca.crt")).unwrap();
    assert!(
        Certificate::from_pem(&serving)
            .unwrap()
            .is_signed_by(&signer)
    );
}

#[test]
fn replacing_the_authority_is_a_request_and_everything_it_signed_follows() {
    let wanted = wanted();
    let mut held = issued(&wanted);
    held.get_mut(&SecretKind::Ca).unwrap().rotate = Some(String::new());
    let (plan, after) = pass(&wanted, &held, day(1));
    assert_eq!(changes(&plan)[0], (Item::Ca, "Requested"));
    for item in CLUSTER_LEAVES {
        assert!(
            changes(&plan).contains(&(item, "AuthorityReplaced")),
            "{item:?}"
        );
    }
    assert!(plan.consumers().contains(&Consumer::Nodes));
    assert!(replan(&wanted, &after, day(1)).is_settled());
}

#[test]
fn tokens_of_the_key_before_stay_valid_until_the_next_rotation() {
    let wanted = wanted();
    let mut held = issued(&wanted);
    let publics = |contents: &Contents| {
        let text = text(contents, SecretKind::ServiceAccount, "sa.pub");
        pem::parse_many(text)
            .unwrap()
            .into_iter()
            .map(pem::Pem::into_contents)
            .collect::<Vec<_>>()
    };
    let first = publics(&held);
    let mut seen = vec![first];
    for days in 1..=2 {
        held.get_mut(&SecretKind::ServiceAccount).unwrap().rotate = Some(String::new());
        held = pass(&wanted, &held, day(days)).1;
        seen.push(publics(&held));
    }
    assert_eq!(seen[1].len(), 2);
    assert_eq!(seen[1][1], seen[0][0]);
    assert_eq!(seen[2][1..], seen[1][..1]);
    assert!(replan(&wanted, &held, day(3)).is_settled());
}

#[test]
fn a_store_whose_authority_is_over_is_named() {
    let wanted = wanted();
    let held = issued(&wanted);
    let plan = replan(&wanted, &held, day(3651));
    let Action::Blocked { reason } = &plan.steps[&Item::StoreClient].action else {
        panic!("nothing can be signed for the store");
    };
    assert_eq!(
        reason.to_string(),
        "the store's authority is unusable: it expired at 2036-11-12T12:00:00Z"
    );
}
