use butler_api::butler::{NetworkPool, network_pool::NetworkPoolSpec};
use serde_json::{Value, json};

use super::*;
use crate::network_pool::validate;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[expect(clippy::unwrap_in_result, reason = "a test fails where it stands")]
fn spec(value: Value) -> Result<Spec, Invalid> {
    let spec: NetworkPoolSpec = serde_json::from_value(value).unwrap();
    validate(&NetworkPool::new("lab", spec))
}

/// Ten addresses, .1 to .10.
fn ten() -> Result<Spec, Invalid> {
    spec(
        json!({"cidr": "10.0.0.0/24", "tenantAllocation": {"start": "10.0.0.1", "end": "10.0.0.10"}}),
    )
}

fn claim(name: &str, count: u128) -> Claim {
    Claim {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        created: at(0),
        owner: Owner::Known(format!("owner-{name}")),
        purpose: AllocationType::Loadbalancer,
        count: Some(count),
        pinned: None,
        several: false,
        state: State::Waiting,
        deleting: false,
    }
}

fn range(text: &str) -> AddressRange {
    text.parse().unwrap()
}

fn holding(name: &str, text: &str) -> Claim {
    Claim {
        state: State::Holding(vec![range(text)]),
        ..claim(name, range(text).size())
    }
}

fn released(name: &str, text: &str, second: i64) -> Claim {
    Claim {
        state: State::Released(vec![range(text)], at(second)),
        deleting: true,
        ..holding(name, text)
    }
}

fn world(claims: Vec<Claim>) -> World {
    World {
        claims,
        ..World::default()
    }
}

/// Names and ranges of the grants, in order.
fn granted(plan: &Plan) -> Vec<String> {
    let grants = plan.grants.iter();
    grants
        .map(|grant| format!("{} {}", grant.what.name, grant.what.ranges[0]))
        .collect()
}

fn reasons(plan: &Plan) -> Vec<&str> {
    plan.refusals.iter().map(|refused| refused.reason).collect()
}

#[test]
fn who_asked_first_is_served_first_and_who_cannot_be_served_holds_nobody_up() {
    let late = Claim {
        created: at(9),
        ..claim("a", 4)
    };
    let huge = Claim {
        created: at(1),
        ..claim("huge", 9)
    };
    let early = claim("b", 4);
    let plan = plan(&ten(), &world(vec![late, huge, early]), at(100));
    assert_eq!(
        granted(&plan),
        ["b 10.0.0.1-10.0.0.4", "a 10.0.0.5-10.0.0.8"]
    );
    assert_eq!(reasons(&plan), ["PoolExhausted"]);
}

#[test]
fn every_grant_is_on_record_before_it_is_carried_out() {
    let plan = plan(&ten(), &world(vec![claim("a", 4)]), at(0));
    assert_eq!(plan.record, [plan.grants[0].what.clone()]);
    assert_eq!(plan.figures.unwrap().held, 4);
}

#[test]
fn what_is_on_record_is_given_to_nobody_else_and_to_its_claim_again() {
    let recorded = Recorded {
        name: "a".to_owned(),
        uid: "uid-a".to_owned(),
        ranges: vec![range("10.0.0.1-10.0.0.4")],
    };
    let mut world = world(vec![claim("b", 4), claim("a", 4)]);
    world.recorded = vec![recorded.clone()];
    let resumed = plan(&ten(), &world, at(0));
    assert_eq!(
        granted(&resumed),
        ["a 10.0.0.1-10.0.0.4", "b 10.0.0.5-10.0.0.8"]
    );

    // Its claim shows it: the record has done its work.
    world.claims[1] = holding("a", "10.0.0.1-10.0.0.4");
    let confirmed = plan(&ten(), &world, at(0));
    assert_eq!(granted(&confirmed), ["b 10.0.0.5-10.0.0.8"]);
    assert_eq!(confirmed.record.len(), 1);

    // Its claim is being deleted and has not shown it: somebody may still be writing it.
    world.claims[1] = Claim {
        deleting: true,
        ..claim("a", 4)
    };
    let going = plan(&ten(), &world, at(0));
    assert_eq!(granted(&going), ["b 10.0.0.5-10.0.0.8"]);
    assert!(going.record.contains(&recorded));
}

#[test]
fn given_back_addresses_rest_and_the_pool_wakes_when_they_have() {
    let claims = vec![released("old", "10.0.0.1-10.0.0.10", 100), claim("new", 4)];
    let resting = plan(&ten(), &world(claims.clone()), at(400));
    assert_eq!(reasons(&resting), ["PoolExhausted"]);
    assert_eq!(resting.wake, Wake::After(Duration::from_secs(1) + SLACK));
    let rested = plan(&ten(), &world(claims), at(401));
    assert_eq!(granted(&rested), ["new 10.0.0.1-10.0.0.4"]);
}

#[test]
fn a_cluster_gets_the_addresses_back_that_it_had() {
    let before = released("old", "10.0.0.5-10.0.0.8", 100);
    let again = Claim {
        owner: before.owner.clone(),
        ..claim("again", 4)
    };
    let plan = plan(&ten(), &world(vec![before, again]), at(101));
    assert_eq!(granted(&plan), ["again 10.0.0.5-10.0.0.8"]);
}

#[test]
fn addresses_seen_in_use_or_held_under_another_pool_are_not_given_out() {
    let mut world = world(vec![claim("a", 8)]);
    world.infrastructure = vec![InfrastructureAllocation {
        ip: "10.0.0.1".to_owned(),
        ..InfrastructureAllocation::default()
    }];
    world.elsewhere = vec![range("10.0.0.10-10.0.0.20")];
    let plan = plan(&ten(), &world, at(0));
    assert_eq!(granted(&plan), ["a 10.0.0.2-10.0.0.9"]);
    assert_eq!(plan.figures.unwrap().free, 0);
}

#[test]
fn a_claim_without_an_owner_waits_and_one_whose_owner_is_gone_gets_nothing() {
    let early = Claim {
        owner: Owner::Missing("TenantCluster a/b".to_owned()),
        ..claim("early", 1)
    };
    let orphan = Claim {
        owner: Owner::Gone("old".to_owned()),
        ..claim("orphan", 1)
    };
    let plan = plan(&ten(), &world(vec![early, orphan]), at(0));
    assert!(plan.grants.is_empty());
    assert_eq!(reasons(&plan), ["OwnerMissing", "OwnerMissing"]);
    assert!(plan.refusals.iter().all(|refused| refused.waiting));
}

#[test]
fn bad_claims_are_refused_in_words_that_say_what_to_do() {
    let pinned = |name: &str, text: &str, count: u128| Claim {
        pinned: Some(Ok(range(text))),
        ..claim(name, count)
    };
    let claims = vec![
        claim("1", 300),
        pinned("2", "10.0.0.3-10.0.0.4", 3),
        pinned("3", "10.0.0.9-10.0.0.12", 4),
        pinned("4", "10.0.0.1-10.0.0.1", 1),
        Claim {
            pinned: Some(Err("10.0.0.9 comes after 10.0.0.1".to_owned())),
            ..claim("5", 1)
        },
        holding("6", "10.0.0.1-10.0.0.2"),
    ];
    let plan = plan(&ten(), &world(claims), at(0));
    let reasons = reasons(&plan);
    assert_eq!(
        reasons,
        [
            "PoolTooSmall",
            "InvalidRange",
            "InvalidRange",
            "RangeInUse",
            "InvalidRange"
        ]
    );
    assert!(plan.refusals[0].message.contains("the pool has 10 in all"));
    assert!(
        plan.refusals[1]
            .message
            .contains("has 2 addresses and spec.count is 3")
    );
    assert!(plan.refusals[3].message.contains("10.0.0.1 is in use"));
}

#[test]
fn a_wrong_spec_loses_nothing() {
    let wrong = spec(json!({"cidr": "10.0.0.0"}));
    let mut world = world(vec![holding("a", "10.0.0.1-10.0.0.4"), claim("b", 1)]);
    world.recorded = vec![Recorded {
        name: "c".to_owned(),
        uid: "uid-c".to_owned(),
        ranges: vec![range("10.0.0.5-10.0.0.5")],
    }];
    let plan = plan(&wrong, &world, at(0));
    assert_eq!(
        (plan.record.len(), plan.holders, plan.grants.len()),
        (1, 1, 0)
    );
    assert_eq!(plan.verdicts[0].reason, "ValidationFailed");
    assert_eq!(reasons(&plan), ["PoolNotReady"]);
}

#[test]
fn a_pool_that_shrank_under_its_holders_names_them_and_takes_nothing_away() {
    let plan = plan(
        &ten(),
        &world(vec![holding("far", "10.0.0.200-10.0.0.203"), claim("b", 1)]),
        at(0),
    );
    let consistent = plan
        .verdicts
        .iter()
        .find(|verdict| verdict.type_ == "Consistent")
        .unwrap();
    assert_eq!(consistent.reason, "HeldOutside");
    assert!(consistent.message.contains("far") && consistent.message.contains("10.0.0.200"));
    assert_eq!(granted(&plan), ["b 10.0.0.1-10.0.0.1"]);
}

#[test]
fn a_pool_that_overlaps_an_older_one_hands_out_nothing_and_says_which() {
    let mut world = world(vec![claim("a", 1)]);
    world.rivals = vec!["butler-system/old".to_owned()];
    let plan = plan(&ten(), &world, at(0));
    assert!(plan.grants.is_empty());
    assert_eq!(plan.verdicts[0].reason, "Overlap");
    assert!(plan.verdicts[0].message.contains("butler-system/old"));
}

#[test]
fn a_pool_goes_only_when_nobody_holds_addresses_and_names_those_who_do() {
    let mut going = ten();
    going.as_mut().unwrap().deleting = true;
    let held = plan(
        &going,
        &world(vec![holding("a", "10.0.0.1-10.0.0.2"), claim("b", 1)]),
        at(0),
    );
    assert!(!held.release && held.grants.is_empty());
    assert_eq!(held.verdicts[0].reason, "Deleting");
    assert!(
        held.verdicts[0].message.contains(": a"),
        "{}",
        held.verdicts[0].message
    );
    let rested = plan(
        &going,
        &world(vec![released("a", "10.0.0.1-10.0.0.2", 0), claim("b", 1)]),
        at(0),
    );
    assert!(rested.release);
}

#[test]
fn tiers_are_told_when_they_are_reached_and_when_they_are_left() {
    let used = |last: u32| {
        let text = format!("10.0.0.1-10.0.0.{last}");
        World {
            tier: say::Tier::Fine,
            ..world(vec![holding("a", &text)])
        }
    };
    let holds = |plan: &Plan| {
        let tiers = plan
            .verdicts
            .iter()
            .filter(|verdict| verdict.type_.starts_with("Capacity"));
        tiers
            .filter(|verdict| verdict.reason == "UtilizationAboveThreshold")
            .count()
    };
    let told = |plan: &Plan| {
        plan.notes
            .iter()
            .map(|note| note.reason)
            .collect::<Vec<_>>()
    };
    for (last, tiers, event) in [
        (6, 0, None),
        (7, 1, Some("PoolCapacityWarning")),
        (9, 2, Some("PoolCapacityCritical")),
        (10, 3, Some("PoolCapacityExhausted")),
    ] {
        let plan = plan(&ten(), &used(last), at(0));
        assert_eq!(holds(&plan), tiers, "{last}");
        assert_eq!(told(&plan), event.into_iter().collect::<Vec<_>>());
    }
    let mut recovered = used(3);
    recovered.tier = say::Tier::Exhausted;
    assert_eq!(
        told(&plan(&ten(), &recovered, at(0))),
        ["PoolCapacityRecovered"]
    );
    let mut same = used(10);
    same.tier = say::Tier::Exhausted;
    assert!(
        told(&plan(&ten(), &same, at(0))).is_empty(),
        "it was told before"
    );
}

#[test]
fn a_pass_grants_a_batch_and_leaves_the_rest_for_the_next() {
    let pool = spec(json!({"cidr": "10.0.0.0/16"}));
    let claims = (0..300)
        .map(|number| claim(&format!("{number:03}"), 1))
        .collect();
    let plan = plan(&pool, &world(claims), at(0));
    assert_eq!((plan.grants.len(), plan.record.len()), (BATCH, BATCH));
    assert!(plan.refusals.is_empty());
}
