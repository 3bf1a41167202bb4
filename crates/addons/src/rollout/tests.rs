use super::*;

fn policy(max_unavailable: &str, max_failures: usize) -> Policy {
    let wave = |name: &str| Wave {
        name: name.to_owned(),
        labels: BTreeMap::from([("stage".to_owned(), name.to_owned())]),
    };
    Policy {
        waves: vec![wave("canary"), wave("early")],
        max_unavailable: Limit::parse(max_unavailable).unwrap(),
        max_failures,
    }
}

/// An addon that has and may have a version, and is ready.
fn member(id: &str, stage: &str, version: &str) -> Member {
    Member {
        id: id.to_owned(),
        labels: BTreeMap::from([("stage".to_owned(), stage.to_owned())]),
        granted: Some(version.to_owned()),
        held: Some(version.to_owned()),
        condition: Condition::Ready,
    }
}

fn granted(plan: &Plan) -> Vec<&str> {
    plan.grants.iter().map(|(id, _)| id.as_str()).collect()
}

#[test]
fn the_first_wave_goes_alone_and_a_few_at_a_time() {
    let fleet = [
        member("c", "canary", "1"),
        member("a", "canary", "1"),
        member("b", "canary", "1"),
        member("e", "early", "1"),
        member("z", "", "1"),
    ];
    let plan = plan("2", &policy("2", 0), &fleet);
    assert_eq!(granted(&plan), ["a", "b"]);
    assert_eq!(plan.progress.wave.as_deref(), Some("canary"));
    assert_eq!((plan.progress.total, plan.progress.updating), (5, 2));
}

#[test]
fn the_next_wave_waits_until_the_one_before_is_through() {
    let mut on_its_way = member("a", "canary", "1");
    on_its_way.granted = Some("2".to_owned());
    on_its_way.condition = Condition::Unready;
    let early = member("e", "early", "1");
    let first = plan("2", &policy("9", 0), &[on_its_way, early.clone()]);
    assert_eq!(granted(&first), Vec::<&str>::new());
    let second = plan("2", &policy("9", 0), &[member("a", "canary", "2"), early]);
    assert_eq!(granted(&second), ["e"]);
    assert_eq!(second.progress.updated, 1);
}

#[test]
fn a_failure_stops_it_unless_so_many_are_allowed() {
    let mut failed = member("a", "canary", "1");
    failed.granted = Some("2".to_owned());
    failed.condition = Condition::Failed("rolled back".to_owned());
    let fleet = [failed, member("b", "canary", "1")];
    let stopped = plan("2", &policy("9", 0), &fleet);
    assert!(stopped.progress.stopped && stopped.grants.is_empty());
    assert_eq!(stopped.progress.failed[0].1, "rolled back");
    let tolerant = plan("2", &policy("9", 1), &fleet);
    assert_eq!(granted(&tolerant), ["b"]);
    let another = plan("3", &policy("9", 0), &fleet);
    assert_eq!(granted(&another), ["a", "b"], "another version begins anew");
}

#[test]
fn those_that_are_not_ready_count_and_may_move_on_themselves() {
    let mut ill = member("a", "canary", "1");
    ill.condition = Condition::Unready;
    let fleet = [ill, member("b", "canary", "1")];
    let plan = plan("2", &policy("1", 0), &fleet);
    assert_eq!(granted(&plan), ["a"], "b would be the second that is down");
}

#[test]
fn who_was_never_told_keeps_what_it_has_and_who_has_nothing_begins_with_the_new() {
    let mut old = member("old", "", "1");
    old.granted = None;
    let mut new = member("new", "", "1");
    (new.granted, new.held, new.condition) = (None, None, Condition::Unready);
    let plan = plan("2", &policy("9", 0), &[old, new]);
    let expected =
        [("old", "1"), ("new", "2")].map(|(id, version)| (id.to_owned(), version.to_owned()));
    assert_eq!(plan.grants, expected);
}

#[test]
fn a_fleet_that_is_through_needs_nothing() {
    let fleet = [member("a", "canary", "2"), member("z", "", "2")];
    let plan = plan("2", &policy("10%", 0), &fleet);
    assert!(plan.grants.is_empty());
    assert_eq!((plan.progress.updated, plan.progress.wave), (2, None));
}

#[test]
fn a_whole_fleet_gets_there_without_ever_having_too_many_down() {
    let stages = ["canary", "early", ""];
    let mut fleet: Vec<Member> = (0..60)
        .map(|index| member(&format!("m{index:02}"), stages[index % 3], "1"))
        .collect();
    let policy = policy("10%", 0);
    for _ in 0..60 {
        let next = plan("2", &policy, &fleet);
        for (id, version) in next.grants {
            let told = fleet.iter_mut().find(|member| member.id == id).unwrap();
            told.granted = Some(version);
            told.condition = Condition::Unready;
        }
        let down = fleet
            .iter()
            .filter(|member| member.condition != Condition::Ready);
        assert!(down.count() <= 6);
        if let Some(first) = fleet
            .iter_mut()
            .find(|member| member.condition == Condition::Unready)
        {
            first.held.clone_from(&first.granted);
            first.condition = Condition::Ready;
        }
    }
    assert_eq!(plan("2", &policy, &fleet).progress.updated, 60);
}

#[test]
fn limits_are_numbers_or_percents() {
    assert_eq!(Limit::parse("3"), Some(Limit::Count(3)));
    assert_eq!(Limit::parse("25%").unwrap().of(10), 2);
    assert_eq!(Limit::parse("1%").unwrap().of(10), 1, "never none at all");
    for wrong in ["", "0", "0%", "-1", "ten"] {
        assert_eq!(Limit::parse(wrong), None, "{wrong}");
    }
}
