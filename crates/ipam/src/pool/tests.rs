use super::*;

fn pool(cidr: &str) -> Pool {
    Pool::new(Layout::new(cidr.parse().unwrap(), &[], &[], None).unwrap())
}

fn range(text: &str) -> AddressRange {
    text.parse().unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn ask(count: u128) -> Request<'static> {
    Request {
        count,
        owner: "a",
        prefer: &[],
        several: false,
    }
}

fn text(ranges: &[AddressRange]) -> Vec<String> {
    ranges.iter().map(ToString::to_string).collect()
}

#[test]
fn a_pool_of_either_family_gives_its_lowest_usable_addresses_first() {
    assert_eq!(
        text(&pool("10.0.0.0/8").allocate(&ask(3)).unwrap()),
        ["10.0.0.1-10.0.0.3"]
    );
    assert_eq!(
        text(&pool("fd00::/64").allocate(&ask(2)).unwrap()),
        ["fd00::1-fd00::2"]
    );
}

#[test]
fn what_was_given_back_rests_and_only_its_owner_gets_it_before_that() {
    let mut pool = pool("10.0.0.0/29");
    let first = pool.allocate(&ask(6)).unwrap();
    assert!(pool.release(first[0], "a", Some(at(300))));
    pool.advance(at(299));
    let stranger = Request {
        owner: "b",
        ..ask(1)
    };
    let refused = pool.allocate(&stranger).unwrap_err();
    assert_eq!(
        refused,
        Refusal::Exhausted {
            asked: 1,
            free: 0,
            resting: 6
        }
    );
    let resting = pool.pin(range("10.0.0.2-10.0.0.2"), "b").unwrap_err();
    assert!(
        resting
            .to_string()
            .contains("rests until 1970-01-01T00:05:00Z"),
        "{resting}"
    );
    assert!(pool.pin(range("10.0.0.2-10.0.0.2"), "a").is_ok());
    assert_eq!(pool.figures().resting, 5);
    pool.advance(at(300));
    assert_eq!(pool.figures().free, 5);
    assert_eq!(
        text(&pool.allocate(&stranger).unwrap()),
        ["10.0.0.1-10.0.0.1"]
    );
}

#[test]
fn the_same_owner_gets_its_old_addresses_back_unless_somebody_else_has_one() {
    let mut pool = pool("10.0.0.0/24");
    pool.occupy(range("10.0.0.1-10.0.0.9"));
    let before = [range("10.0.0.100-10.0.0.103")];
    pool.rest(before[0], "a", at(300));
    let again = Request {
        prefer: &before,
        ..ask(4)
    };
    assert_eq!(pool.allocate(&again).unwrap(), before);
    pool.release(before[0], "a", None);
    pool.occupy(range("10.0.0.102-10.0.0.102"));
    assert_eq!(
        text(&pool.allocate(&again).unwrap()),
        ["10.0.0.10-10.0.0.13"]
    );
}

#[test]
fn several_ranges_are_given_only_to_those_who_can_use_them() {
    let mut pool = pool("10.0.0.0/28");
    for held in ["10.0.0.4-10.0.0.4", "10.0.0.8-10.0.0.8"] {
        assert_eq!(pool.occupy(range(held)), None);
    }
    let refused = pool.allocate(&ask(7)).unwrap_err();
    assert_eq!(
        refused,
        Refusal::Fragmented {
            asked: 7,
            free: 12,
            largest: 6
        }
    );
    let several = Request {
        several: true,
        ..ask(8)
    };
    let granted = pool.allocate(&several).unwrap();
    assert_eq!(text(&granted), ["10.0.0.1-10.0.0.2", "10.0.0.9-10.0.0.14"]);
    assert_eq!(pool.figures().free, 4);
}

#[test]
fn a_pinned_range_that_cannot_be_had_is_refused_for_the_right_reason() {
    let layout = Layout::new(
        "10.0.0.0/24".parse().unwrap(),
        &["10.0.0.64/28".parse().unwrap()],
        &[],
        Some("10.0.0.1".parse().unwrap()),
    );
    let mut pool = Pool::new(layout.unwrap());
    pool.occupy(range("10.0.0.20-10.0.0.29"));
    for (wanted, says) in [
        (
            "10.0.0.250-10.0.1.2",
            "10.0.1.2 does not lie inside the pool",
        ),
        ("10.0.0.60-10.0.0.70", "10.0.0.64 is not for tenants"),
        ("10.0.0.1-10.0.0.4", "10.0.0.1 is not for tenants"),
        ("10.0.0.250-10.0.0.255", "10.0.0.255 is not for tenants"),
        ("10.0.0.15-10.0.0.40", "10.0.0.20 is in use"),
        ("fd00::1-fd00::2", "fd00::1 does not lie inside the pool"),
    ] {
        let error = pool.pin(range(wanted), "a").unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(pool.figures().held, 10);
}

#[test]
fn more_than_the_pool_will_ever_have_is_told_from_more_than_it_has_now() {
    let mut pool = pool("10.0.0.0/29");
    pool.occupy(range("10.0.0.1-10.0.0.4"));
    assert_eq!(
        pool.allocate(&ask(7)),
        Err(Refusal::TooMany { asked: 7, total: 6 })
    );
    let now = Refusal::Exhausted {
        asked: 3,
        free: 2,
        resting: 0,
    };
    assert_eq!(pool.allocate(&ask(3)), Err(now));
}

#[test]
fn addresses_that_two_hold_or_that_left_the_pool_are_found() {
    let mut pool = pool("10.0.0.0/24");
    assert_eq!(pool.occupy(range("10.0.0.10-10.0.0.19")), None);
    let twice = pool.occupy(range("10.0.0.18-10.0.0.21"));
    assert_eq!(twice, Some(Clash::Held("10.0.0.18".parse().unwrap())));
    let outside = pool.occupy(range("10.0.0.250-10.0.1.3"));
    assert_eq!(outside, Some(Clash::Closed("10.0.0.255".parse().unwrap())));
    assert_eq!(
        pool.allocate(&ask(1)).map(|got| text(&got)).unwrap(),
        ["10.0.0.1-10.0.0.1"]
    );
}

#[test]
fn an_address_seen_in_use_is_never_handed_out() {
    let mut pool = pool("10.0.0.0/30");
    assert!(pool.block(range("10.0.0.1-10.0.0.1")));
    assert!(!pool.block(range("10.0.0.1-10.0.0.1")));
    assert!(!pool.block(range("10.9.0.1-10.9.0.1")));
    assert!(!pool.block(range("fd00::1-fd00::1")));
    assert_eq!(
        text(&pool.allocate(&ask(1)).unwrap()),
        ["10.0.0.2-10.0.0.2"]
    );
    assert!(pool.allocate(&ask(1)).is_err());
}

#[test]
fn figures_of_the_largest_pools_do_not_overflow() {
    let mut all = pool("::/0");
    assert_eq!(all.figures().fragmentation, 0);
    all.occupy(range("8000::-8000::"));
    let figures = all.figures();
    assert!((49..=51).contains(&figures.fragmentation), "{figures:?}");
    let mut v4 = pool("0.0.0.0/0");
    assert_eq!(v4.allocate(&ask((1 << 32) - 2)).unwrap().len(), 1);
    assert_eq!(v4.figures().free, 0);
}
