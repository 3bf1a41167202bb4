//! What a cluster says of the addresses of its load balancers, and that it works without them.

use butler_api::butler::{butler_config::ButlerConfigSpec, tenant_cluster::Phase};
use butler_capi::{
    Raw, TenantSpec,
    addresses::{Claim, Facts, Room, Shortage},
    plan,
    plan::{Finding, Plan, Truth},
    validate,
};
use serde_json::{Value, json};

use crate::{
    common::{cluster, merged, now, provider, providers},
    world::running,
};

/// A cluster at a provider of this name whose network is this.
fn spec(name: &str, network: &Value, asked: &Value) -> TenantSpec {
    let config = merged(&providers()[name], &json!({"network": network}));
    let raw = Raw {
        cluster: &cluster(asked),
        provider: &provider(&config),
        platform: &ButlerConfigSpec::default(),
    };
    validate(&raw).unwrap()
}

/// On premises, three addresses of the pools `ten` and `twenty`.
fn drawing() -> TenantSpec {
    let network = json!({
        "mode": "ipam", "poolRefs": [{"name": "ten"}, {"name": "twenty"}],
        "loadBalancer": {"defaultPoolSize": 3},
    });
    spec("harvester", &network, &json!({}))
}

fn elastic(asked: &Value) -> TenantSpec {
    let network = json!({
        "mode": "ipam", "poolRefs": [{"name": "ten"}], "loadBalancer": {"allocationMode": "elastic"},
    });
    spec("harvester", &network, asked)
}

fn find<'a>(plan: &'a Plan, kind: &str) -> Option<&'a Finding> {
    plan.findings.iter().find(|finding| finding.kind == kind)
}

/// The plan of a cluster that works, with these addresses.
fn planned(wanted: &TenantSpec, seen: Option<Facts>) -> Plan {
    let mut world = running(wanted, now());
    world.addresses = seen;
    plan(wanted, &world, now())
}

fn network(wanted: &TenantSpec, seen: Facts) -> Finding {
    let plan = planned(wanted, Some(seen));
    find(&plan, "NetworkReady").unwrap().clone()
}

/// Asserts status and reason, and gives the words.
fn says(said: &Finding, holds: bool, reason: &str) -> String {
    let status = if holds { Truth::True } else { Truth::False };
    assert_eq!(
        (said.status, said.reason.as_str()),
        (status, reason),
        "{said:?}"
    );
    said.message.clone()
}

fn pools(pools: &[(&str, Room)]) -> Facts {
    let pools = pools.iter().map(|(name, room)| ((*name).to_owned(), *room));
    Facts {
        pools: pools.collect(),
        ..Facts::default()
    }
}

fn claims(claims: &[Claim]) -> Facts {
    Facts {
        claims: claims.to_vec(),
        ..Facts::default()
    }
}

fn given(name: &str, ranges: &[&str]) -> Claim {
    Claim {
        name: format!("butler-system/{name}"),
        pool: "ten".to_owned(),
        ranges: ranges.iter().map(|range| (*range).to_owned()).collect(),
        ..Claim::default()
    }
}

fn refused(reason: &str, message: &str) -> Claim {
    Claim {
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..given("lb-0", &[])
    }
}

#[test]
fn a_provider_that_gives_addresses_leaves_nothing_to_wait_for() {
    let cloud = json!({"mode": "cloud"});
    for provider in ["harvester", "aws", "local"] {
        let wanted = spec(provider, &cloud, &json!({}));
        let said = network(&wanted, Facts::default());
        assert_eq!(
            says(&said, true, "CloudNetworking"),
            "the provider gives addresses itself"
        );
    }
}

#[test]
fn on_the_local_platform_its_agent_gives_addresses_unless_metallb_is_asked_for() {
    let drawn = json!({"mode": "ipam", "poolRefs": [{"name": "ten"}]});
    let said = network(&spec("local", &drawn, &json!({})), Facts::default());
    says(&said, true, "LocalNetworking");
    let metallb = json!({"addons": {"loadBalancer": {"provider": "metallb"}}});
    let seen = pools(&[("ten", Room::Full)]);
    let said = network(&spec("local", &drawn, &metallb), seen);
    says(&said, false, "PoolExhausted");
}

#[test]
fn a_cluster_that_brings_its_addresses_asks_no_pool() {
    let asks = [
        json!({"networking": {"loadBalancerPool": {"start": "10.40.9.1", "end": "10.40.9.9"}}}),
        json!({"addons": {"loadBalancer": {"addressPool": "10.40.9.1-10.40.9.9"}}}),
    ];
    let drawn = json!({"mode": "ipam", "poolRefs": [{"name": "ten"}]});
    for asked in asks {
        let seen = pools(&[("ten", Room::Missing)]);
        let said = network(&spec("harvester", &drawn, &asked), seen);
        let said = says(&said, true, "OwnAddresses");
        assert!(said.contains("10.40.9.1-10.40.9.9"), "{said}");
    }
}

#[test]
fn addresses_that_follow_the_demand_are_not_missed_before_anything_asks_for_one() {
    let seen = || pools(&[("ten", Room::Full)]);
    let said = network(&elastic(&json!({})), seen());
    says(&said, true, "NotNeeded");
    let ingress = json!({"addons": {"ingress": {}}});
    let said = network(&elastic(&ingress), seen());
    let said = says(&said, false, "PoolExhausted");
    assert!(said.contains("has not 2 free addresses"), "{said}");
    // A Service came, and its claim gets nothing.
    let seen = claims(&[refused(
        "PoolExhausted",
        "pool ten has not 2 free addresses",
    )]);
    let said = network(&elastic(&json!({})), seen);
    says(&said, false, "PoolExhausted");
}

#[test]
fn addresses_that_were_given_are_named_and_so_is_what_is_still_waited_for() {
    let wanted = drawing();
    let first = given("lb-0", &["10.40.0.1-10.40.0.3"]);
    let said = network(&wanted, claims(std::slice::from_ref(&first)));
    assert_eq!(
        says(&said, true, "Allocated"),
        "load balancers may use 10.40.0.1-10.40.0.3"
    );
    let second = given("lb-1", &["10.40.0.7-10.40.0.8"]);
    let third = Claim {
        name: "butler-system/lb-2".to_owned(),
        ..refused("PoolExhausted", "pool ten has not 2 free addresses")
    };
    let said = network(&wanted, claims(&[first, second, third]));
    assert_eq!(
        says(&said, true, "Allocated"),
        "load balancers may use 10.40.0.1-10.40.0.3, 10.40.0.7-10.40.0.8; more are waited for: IPAllocation \
         butler-system/lb-2: pool ten has not 2 free addresses"
    );
}

#[test]
fn load_balancers_that_wait_for_more_than_can_be_had_are_told_of_and_what_to_do() {
    let first = given("lb-0", &["10.40.0.1"]);
    let seen = |claims: &[Claim], shortage| Facts {
        claims: claims.to_vec(),
        shortage: Some(shortage),
        ..Facts::default()
    };
    let full = Shortage::NoRoom(2);
    let said = network(&drawing(), seen(std::slice::from_ref(&first), full));
    let said = says(&said, false, "PoolExhausted");
    assert!(said.contains("may use 10.40.0.1, and"), "{said}");
    assert!(said.contains("no pool has 2 free addresses"), "{said}");
    assert!(said.contains("give a pool more addresses"), "{said}");
    let said = network(&elastic(&json!({})), seen(&[], full));
    let said = says(&said, false, "PoolExhausted");
    assert!(
        said.starts_with("load balancers wait for an address"),
        "{said}"
    );
    let said = network(&drawing(), seen(&[first], Shortage::AtMost));
    let said = says(&said, false, "QuotaReached");
    assert!(said.contains("maxLoadBalancerIPs"), "{said}");
}

#[test]
fn of_many_ranges_only_the_first_are_named() {
    let ranges: Vec<String> = (0..4000).map(|it| format!("10.40.0.{it}")).collect();
    let ranges: Vec<&str> = ranges.iter().map(String::as_str).collect();
    let said = network(&drawing(), claims(&[given("lb-0", &ranges)]));
    let said = says(&said, true, "Allocated");
    assert!(said.ends_with("10.40.0.7 and 3992 more"), "{said}");
}

#[test]
fn a_claim_that_waits_is_named() {
    let said = network(&drawing(), claims(&[given("lb-0", &[])]));
    assert_eq!(
        says(&said, false, "Pending"),
        "IPAllocation butler-system/lb-0 waits for its pool"
    );
    let said = network(&drawing(), claims(&[refused("OwnerMissing", "not there")]));
    assert_eq!(
        says(&said, false, "Pending"),
        "IPAllocation butler-system/lb-0: not there"
    );
    let said = network(
        &drawing(),
        pools(&[("ten", Room::Full), ("twenty", Room::Enough)]),
    );
    assert_eq!(
        says(&said, false, "Pending"),
        "3 addresses are being asked for"
    );
}

#[test]
fn a_claim_that_gets_nothing_says_why_and_what_to_do() {
    for reason in ["PoolExhausted", "PoolFragmented", "PoolTooSmall"] {
        let seen = claims(&[refused(reason, "pool ten has not 3 free addresses")]);
        let said = network(&drawing(), seen);
        assert_eq!(
            says(&said, false, "PoolExhausted"),
            "IPAllocation butler-system/lb-0: pool ten has not 3 free addresses; give NetworkPool ten more addresses, \
             or delete IPAllocation butler-system/lb-0 once another pool of ProviderConfig butler-system/somewhere \
             has room"
        );
    }
    for reason in ["PoolNotFound", "PoolNotReady"] {
        let said = network(&drawing(), claims(&[refused(reason, "no pool ten")]));
        let said = says(&said, false, "NoPool");
        assert!(
            said.contains("make NetworkPool ten or put it right"),
            "{said}"
        );
    }
}

#[test]
fn pools_without_room_are_named_with_what_to_do() {
    let another = "name another in spec.network.poolRefs of ProviderConfig butler-system/somewhere";
    let said = network(
        &drawing(),
        pools(&[("ten", Room::Full), ("twenty", Room::Missing)]),
    );
    assert_eq!(
        says(&said, false, "PoolExhausted"),
        format!(
            "NetworkPool ten has not 3 free addresses side by side; there is no NetworkPool twenty; give a pool more \
             addresses, or {another}"
        )
    );
    let said = network(
        &drawing(),
        pools(&[("ten", Room::Missing), ("twenty", Room::Closed)]),
    );
    assert_eq!(
        says(&said, false, "NoPool"),
        format!(
            "there is no NetworkPool ten; NetworkPool twenty is not ready, its conditions say why; make the pool or \
             put it right, or {another}"
        )
    );
    let said = network(&drawing(), pools(&[]));
    let said = says(&said, false, "NoPool");
    assert!(said.contains("names no NetworkPool"), "{said}");
}

#[test]
fn a_cluster_that_works_stays_ready_without_addresses_and_says_what_is_missing() {
    let wanted = drawing();
    let dry = planned(&wanted, Some(pools(&[("ten", Room::Full)])));
    assert_eq!(dry.phase, Phase::Ready, "{dry}");
    let ready = find(&dry, "Ready").unwrap();
    let said = says(ready, true, "PoolExhausted");
    assert!(
        said.starts_with("the cluster works; NetworkReady: NetworkPool ten has not"),
        "{said}"
    );
    let served = claims(&[given("lb-0", &["10.40.0.1-10.40.0.3"])]);
    let served = planned(&wanted, Some(served));
    says(find(&served, "Ready").unwrap(), true, "Ready");
}

#[test]
fn a_new_cluster_becomes_ready_without_addresses() {
    let wanted = drawing();
    let mut world = running(&wanted, now());
    world.addresses = Some(pools(&[("ten", Room::Full)]));
    world.phase = Some(Phase::Installing);
    let plan = plan(&wanted, &world, now());
    assert_eq!(plan.phase, Phase::Ready, "{plan}");
    assert_eq!(find(&plan, "Ready").unwrap().status, Truth::True);
}

#[test]
fn an_addon_that_holds_the_cluster_up_comes_before_missing_addresses() {
    let wanted = drawing();
    let mut world = running(&wanted, now());
    world.addresses = Some(pools(&[("ten", Room::Full)]));
    world.phase = Some(Phase::Installing);
    for held in world.addons.values_mut() {
        (held.ready, held.phase) = (false, None);
    }
    let plan = plan(&wanted, &world, now());
    assert_eq!(plan.phase, Phase::Installing);
    says(find(&plan, "Ready").unwrap(), false, "Installing");
}

#[test]
fn nothing_is_said_of_addresses_that_nobody_looked_at() {
    let wanted = drawing();
    let plan = planned(&wanted, None);
    assert_eq!(find(&plan, "NetworkReady"), None);
    says(find(&plan, "Ready").unwrap(), true, "Ready");
}
