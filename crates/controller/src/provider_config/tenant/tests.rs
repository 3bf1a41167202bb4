use butler_api::butler::ip_allocation::IPAllocationStatus;
use serde_json::{Value, json};

use super::*;

fn network(value: Value) -> ProviderNetwork {
    serde_json::from_value(value).unwrap()
}

fn elastic() -> ProviderNetwork {
    network(json!({
        "mode": "ipam",
        "loadBalancer": {"allocationMode": "elastic", "initialPoolSize": 2, "growthIncrement": 2},
        "quotaPerTenant": {"maxLoadBalancerIPs": 6},
    }))
}

fn tenant(namespace: &str, name: &str, uid: &str) -> Tenant {
    Tenant {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        uid: uid.to_owned(),
        wants: None,
        needs_some: true,
    }
}

fn pools() -> Vec<Candidate> {
    vec![Candidate {
        name: "lab".to_owned(),
        priority: 0,
        ready: true,
        available: 100,
        largest: 100,
    }]
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn granted(mut claim: IPAllocation, range: &str) -> IPAllocation {
    claim.status = Some(IPAllocationStatus {
        phase: Some(AllocationPhase::Allocated),
        ranges: vec![range.to_owned()],
        ..IPAllocationStatus::default()
    });
    claim
}

fn served(ip: &str) -> Demand {
    Demand {
        since: at(0),
        addresses: vec![ip.parse().unwrap()],
        foreign: false,
    }
}

fn waiting() -> Demand {
    Demand {
        since: at(0),
        addresses: Vec::new(),
        foreign: false,
    }
}

#[test]
fn clusters_whose_names_join_to_the_same_text_never_share_a_claim() {
    let name = |tenant: &Tenant| {
        let plan = plan(&elastic(), tenant, &pools(), &[], Some(&[]), at(0));
        plan.create[0].name_any()
    };
    assert_ne!(
        name(&tenant("a-b", "c", "1")),
        name(&tenant("a", "b-c", "2"))
    );
}

#[test]
fn an_elastic_cluster_that_needs_nothing_starts_with_nothing_and_grows_by_demand() {
    let quiet = Tenant {
        needs_some: false,
        ..tenant("a", "b", "1")
    };
    assert_eq!(
        plan(&elastic(), &quiet, &pools(), &[], Some(&[]), at(0)),
        Plan::default()
    );
    let grown = plan(
        &elastic(),
        &quiet,
        &pools(),
        &[],
        Some(&[waiting()]),
        at(30),
    );
    assert_eq!(grown.create.len(), 1);
    assert_eq!(grown.create[0].spec.count, Some(2));
    assert!(is_growth(&grown.create[0]));
}

#[test]
fn growth_takes_a_number_that_no_claim_has_had_also_of_those_that_go() {
    let tenant = tenant("a", "b", "1");
    let first = granted(claim(&tenant, "lab", 2, INITIAL, "0"), "10.0.0.1-10.0.0.2");
    let mut going = granted(claim(&tenant, "lab", 2, GROWTH, "7"), "10.0.0.3-10.0.0.4");
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1)));
    let services = [served("10.0.0.1"), served("10.0.0.2"), waiting()];
    let plan = plan(
        &elastic(),
        &tenant,
        &pools(),
        &[first, going],
        Some(&services),
        at(60),
    );
    assert_eq!(plan.create[0].name_any(), "lb-1-8");
}

#[test]
fn an_unused_block_is_noted_then_deleted_and_the_first_one_stays() {
    let tenant = tenant("a", "b", "1");
    let first = granted(claim(&tenant, "lab", 2, INITIAL, "0"), "10.0.0.1-10.0.0.2");
    let growth = granted(claim(&tenant, "lab", 2, GROWTH, "1"), "10.0.0.3-10.0.0.4");
    let claims = [first, growth];
    let noted = plan(
        &elastic(),
        &tenant,
        &pools(),
        &claims,
        Some(&[served("10.0.0.1")]),
        at(100),
    );
    assert_eq!(noted.unused, [("lb-1-1".to_owned(), Some(at(100)))]);
    let mut claims = claims;
    let annotation = unused_annotation(Some(at(100))).into_iter();
    claims[1].metadata.annotations = annotation.map(|(key, value)| Some((key, value?))).collect();
    let gone = plan(
        &elastic(),
        &tenant,
        &pools(),
        &claims,
        Some(&[served("10.0.0.1")]),
        at(700),
    );
    assert_eq!(gone.delete, ["lb-1-1"]);
    let again = plan(
        &elastic(),
        &tenant,
        &pools(),
        &claims,
        Some(&[served("10.0.0.4")]),
        at(700),
    );
    assert!(again.delete.is_empty());
    assert_eq!(again.unused, [("lb-1-1".to_owned(), None)]);
}

#[test]
fn a_share_that_is_used_up_is_said_and_nothing_is_made() {
    let tenant = tenant("a", "b", "1");
    let first = granted(claim(&tenant, "lab", 6, INITIAL, "0"), "10.0.0.1-10.0.0.6");
    let mut services: Vec<Demand> = (1..=6)
        .map(|last| served(&format!("10.0.0.{last}")))
        .collect();
    services.push(waiting());
    let plan = plan(
        &elastic(),
        &tenant,
        &pools(),
        &[first],
        Some(&services),
        at(60),
    );
    assert!(plan.create.is_empty());
    assert_eq!(plan.shortage, Some(Shortage::AtMost));
}

#[test]
fn a_static_cluster_gets_its_number_once_and_no_more_than_its_share() {
    let fixed = network(json!({"mode": "ipam", "quotaPerTenant": {"maxLoadBalancerIPs": 4}}));
    let tenant = tenant("a", "b", "1");
    let plan_ = |claims: &[IPAllocation]| {
        plan(
            &fixed,
            &tenant,
            &pools(),
            claims,
            Some(&[waiting()]),
            at(999),
        )
    };
    let made = plan_(&[]);
    assert_eq!(made.create[0].spec.count, Some(4));
    assert_eq!(plan_(&made.create), Plan::default());
}

#[test]
fn a_cluster_that_cannot_be_looked_into_gets_its_first_claim_and_keeps_every_other() {
    let tenant = tenant("a", "b", "1");
    let first = plan(&elastic(), &tenant, &pools(), &[], None, at(0));
    assert_eq!(first.create.len(), 1);
    let mut growth = granted(claim(&tenant, "lab", 2, GROWTH, "1"), "10.0.0.3-10.0.0.4");
    let annotation = unused_annotation(Some(at(0))).into_iter();
    growth.metadata.annotations = annotation.map(|(key, value)| Some((key, value?))).collect();
    let claims = [claim(&tenant, "lab", 2, INITIAL, "0"), growth];
    let unseen = plan(&elastic(), &tenant, &pools(), &claims, None, at(9_999));
    assert_eq!(unseen, Plan::default());
}
