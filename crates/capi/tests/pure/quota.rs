//! Who may have how much: pure decisions over the clusters of one team, and what they mean for a plan.

use butler_api::butler::{butler_config::ButlerConfigSpec, provider_config::ProviderConfig};
use butler_capi::{
    Observed, Plan, plan,
    plan::Truth,
    quota::{Claim, Limits, Quota, Sizes, decide, usage},
};
use serde_json::{Value, json};

use crate::{
    common::{cluster, now, provider, spec},
    world,
};

fn team(spec: &Value) -> butler_api::butler::Team {
    let object = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "Team",
        "metadata": {"name": "team-a"}, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

fn limits(resource_limits: &Value) -> Limits {
    let team = team(&json!({"resourceLimits": resource_limits}));
    Limits::of(
        Some(&team),
        &ButlerConfigSpec::default(),
        std::iter::empty(),
    )
}

/// Workers with four CPUs, 8Gi of memory and 100Gi of disk each.
fn workers(count: u32) -> Sizes {
    Sizes::asked(&cluster(&json!({"workers": {"replicas": count}})).spec).unwrap()
}

/// A cluster that was made in this second and has so many workers, and asks for so many.
fn claim(uid: &str, second: i64, held: Option<u32>, asks: u32) -> Claim {
    Claim {
        uid: uid.to_owned(),
        created: jiff::Timestamp::from_second(1_800_000_000 + second).ok(),
        environment: None,
        owner: None,
        provider: "butler-system/local".to_owned(),
        infrastructure: Some(butler_api::common::InfrastructureProvider::Local),
        version: "v1.35.4".parse().ok(),
        held: held.map(workers),
        asks: Some(workers(asks)),
    }
}

fn refusal(quota: &Quota) -> (&'static str, &str) {
    let excess = quota.refused.as_ref().expect("it is refused");
    (excess.reason.as_str(), &excess.message)
}

#[test]
fn the_oldest_clusters_are_admitted_and_the_rest_is_told_how_many_there_would_be() {
    let limits = limits(&json!({"maxClusters": 4}));
    // Seen in any order; the last two were made in the same second.
    let claims = [
        claim("e", 9, None, 1),
        claim("d", 9, None, 1),
        claim("a", 1, None, 1),
        claim("c", 3, None, 1),
        claim("b", 2, None, 1),
    ];
    for admitted in ["a", "b", "c", "d"] {
        assert_eq!(decide(&limits, &claims, admitted), Quota::default());
    }
    let quota = decide(&limits, &claims, "e");
    let (reason, message) = refusal(&quota);
    assert_eq!(reason, "QuotaExceeded");
    assert_eq!(
        message,
        "the team would have 5 of 4 clusters: delete one, or have spec.resourceLimits.maxClusters of Team team-a raised"
    );
}

#[test]
fn a_cluster_that_was_admitted_keeps_its_place_when_the_limit_falls_and_an_older_one_asks() {
    let limits = limits(&json!({"maxClusters": 1, "maxTotalNodes": 2}));
    let claims = [claim("older", 1, None, 1), claim("newer", 2, Some(3), 3)];
    assert_eq!(decide(&limits, &claims, "newer"), Quota::default());
    assert_eq!(
        refusal(&decide(&limits, &claims, "older")).0,
        "QuotaExceeded"
    );
}

#[test]
fn a_cluster_may_shrink_under_a_limit_that_it_is_over_and_may_not_grow() {
    let limits = limits(&json!({"maxTotalNodes": 2}));
    let shrinking = [claim("a", 1, Some(5), 4)];
    assert_eq!(decide(&limits, &shrinking, "a"), Quota::default());
    let quota = decide(&limits, &[claim("a", 1, Some(4), 5)], "a");
    let hold = quota.hold.expect("it is held");
    assert_eq!(hold.sizes, workers(4));
    assert!(hold.excess.message.contains("5 of 2 workers"), "{hold:?}");
}

#[test]
fn two_clusters_that_grow_at_once_do_not_both_get_the_last_worker() {
    let limits = limits(&json!({"maxTotalNodes": 5}));
    let claims = [claim("a", 1, Some(2), 3), claim("b", 2, Some(2), 3)];
    assert!(decide(&limits, &claims, "a").hold.is_none());
    let hold = decide(&limits, &claims, "b").hold.expect("it is held");
    assert!(hold.excess.message.contains("6 of 5 workers"), "{hold:?}");
}

#[test]
fn an_older_cluster_that_does_not_fit_leaves_room_for_a_newer_one_that_does() {
    let limits = limits(&json!({"maxTotalNodes": 3}));
    let claims = [claim("big", 1, None, 9), claim("small", 2, None, 3)];
    assert!(decide(&limits, &claims, "big").refused.is_some());
    assert_eq!(decide(&limits, &claims, "small"), Quota::default());
}

#[test]
fn a_cluster_that_goes_counts_until_it_is_gone_and_one_that_cannot_be_made_never_counts() {
    let limits = limits(&json!({"maxClusters": 1}));
    let leaving = Claim {
        asks: None,
        ..claim("a", 1, Some(1), 1)
    };
    let broken = Claim {
        asks: None,
        ..claim("b", 1, None, 1)
    };
    let new = claim("c", 2, None, 1);
    assert!(
        decide(&limits, &[leaving, new.clone()], "c")
            .refused
            .is_some()
    );
    assert_eq!(decide(&limits, &[broken, new], "c"), Quota::default());
}

#[test]
fn every_limit_of_a_team_says_its_figures_and_its_field() {
    let new = [claim("a", 1, None, 3)];
    let cases = [
        (json!({"maxClusters": 0}), "1 of 0 clusters", "maxClusters"),
        (
            json!({"maxNodesPerCluster": 2}),
            "the cluster would have 3 of 2 workers",
            "maxNodesPerCluster",
        ),
        (
            json!({"maxWorkersPerCluster": 2}),
            "the cluster would have 3 of 2 workers",
            "maxNodesPerCluster",
        ),
        (
            json!({"maxTotalNodes": 2}),
            "3 of 2 workers",
            "maxTotalNodes",
        ),
        (json!({"maxCPUCores": "11"}), "12 of 11 CPUs", "maxCPUCores"),
        (json!({"maxTotalCPU": 11}), "12 of 11 CPUs", "maxCPUCores"),
        (
            json!({"maxMemory": "23Gi"}),
            "24Gi of 23Gi memory",
            "maxMemory",
        ),
        (
            json!({"maxStorage": "200Gi"}),
            "300Gi of 200Gi storage",
            "maxStorage",
        ),
    ];
    for (resource_limits, figures, field) in cases {
        let quota = decide(&limits(&resource_limits), &new, "a");
        let (reason, message) = refusal(&quota);
        assert_eq!(reason, "QuotaExceeded", "{resource_limits}");
        assert!(message.contains(figures), "{figures}: {message}");
        assert!(
            message.contains(&format!("spec.resourceLimits.{field} of Team team-a")),
            "{message}"
        );
    }
}

#[test]
fn releases_and_providers_that_a_team_may_not_use_are_refused_with_those_it_may() {
    let new = [claim("a", 1, None, 1)];
    let allowed =
        json!({"allowedKubernetesVersions": ["v1.34", "1.35.4"], "allowedProviders": ["local"]});
    assert_eq!(decide(&limits(&allowed), &new, "a"), Quota::default());
    let minor = limits(&json!({"allowedKubernetesVersions": ["v1.3"]}));
    let quota = decide(&minor, &new, "a");
    assert_eq!(refusal(&quota).0, "VersionNotAllowed");
    assert!(
        refusal(&quota).1.contains("v1.35.4, only v1.3:"),
        "{quota:?}"
    );
    let elsewhere = limits(&json!({"allowedProviders": ["nutanix"]}));
    let quota = decide(&elsewhere, &new, "a");
    assert_eq!(refusal(&quota).0, "ProviderNotAllowed");
    // A cluster that stands is not asked again.
    assert_eq!(
        decide(&elsewhere, &[claim("a", 1, Some(1), 1)], "a"),
        Quota::default()
    );
}

#[test]
fn environments_limit_clusters_altogether_and_of_each_member() {
    let team = team(&json!({"environments": [
        {"name": "dev", "limits": {"maxClusters": 2, "maxClustersPerMember": 1}},
        {"name": "free", "limits": {"maxClusters": 0}},
    ]}));
    let limits = Limits::of(
        Some(&team),
        &ButlerConfigSpec::default(),
        std::iter::empty(),
    );
    let of = |uid, second, environment: &str, owner: &str| Claim {
        environment: Some(environment.to_owned()),
        owner: Some(owner.to_owned()),
        ..claim(uid, second, None, 1)
    };
    let claims = [
        of("a", 1, "dev", "ada@example.com"),
        of("b", 2, "dev", "Ada@Example.com"),
        of("c", 3, "dev", "vera@example.com"),
        of("d", 4, "dev", "eve@example.com"),
        of("e", 5, "free", "eve@example.com"),
    ];
    let reason = |uid| {
        decide(&limits, &claims, uid)
            .refused
            .map(|it| it.reason.as_str())
    };
    let reasons = ["a", "b", "c", "d", "e"].map(reason);
    let expected = [
        None,
        Some("PerMemberCapExceeded"),
        None,
        Some("EnvQuotaExceeded"),
        None,
    ];
    assert_eq!(reasons, expected);
}

#[test]
fn a_provider_limits_what_one_team_has_of_it_and_not_of_others() {
    let config: ProviderConfig = provider(
        &json!({"provider": "local", "limits": {"maxClustersPerTeam": 2, "maxNodesPerTeam": 5}}),
    );
    let name = "butler-system/local".to_owned();
    let limits = Limits::of(
        None,
        &ButlerConfigSpec::default(),
        [(name, &config)].into_iter(),
    );
    let elsewhere = Claim {
        provider: "butler-system/other".to_owned(),
        ..claim("x", 0, Some(9), 9)
    };
    let with = |claims: &[Claim]| [std::slice::from_ref(&elsewhere), claims].concat();
    let crowded = with(&[
        claim("a", 1, Some(1), 1),
        claim("b", 2, Some(1), 1),
        claim("c", 3, None, 1),
    ]);
    let quota = decide(&limits, &crowded, "c");
    assert!(
        refusal(&quota)
            .1
            .contains("3 of 2 clusters on ProviderConfig butler-system/local"),
        "{quota:?}"
    );
    let large = with(&[claim("a", 1, Some(3), 3), claim("b", 2, None, 3)]);
    let quota = decide(&limits, &large, "b");
    assert!(
        refusal(&quota)
            .1
            .contains("6 of 5 workers on ProviderConfig"),
        "{quota:?}"
    );
}

#[test]
fn a_team_without_limits_has_those_of_the_platform_and_one_with_limits_only_its_own() {
    let platform: ButlerConfigSpec =
        serde_json::from_value(json!({"defaultTeamLimits": {"maxClusters": 1}})).unwrap();
    let crowd = [claim("a", 1, Some(1), 1), claim("b", 2, None, 1)];
    let default = Limits::of(Some(&team(&json!({}))), &platform, std::iter::empty());
    let quota = decide(&default, &crowd, "b");
    let message = refusal(&quota).1;
    assert!(message.contains("2 of 1 clusters"), "{message}");
    assert!(
        message.contains("spec.defaultTeamLimits.maxClusters of ButlerConfig butler"),
        "{message}"
    );
    let own = team(&json!({"resourceLimits": {"maxTotalNodes": 9}}));
    let own = Limits::of(Some(&own), &platform, std::iter::empty());
    assert_eq!(decide(&own, &crowd, "b"), Quota::default());
    assert!(Limits::of(None, &platform, std::iter::empty()).is_empty());
}

fn finding<'a>(plan: &'a Plan, kind: &str) -> &'a butler_capi::plan::Finding {
    plan.findings.iter().find(|it| it.kind == kind).unwrap()
}

#[test]
fn a_cluster_that_is_refused_is_made_of_nothing() {
    let crowd = [claim("a", 1, None, 1)];
    let world = Observed {
        quota: decide(&limits(&json!({"maxClusters": 0})), &crowd, "a"),
        ..Observed::default()
    };
    let plan = plan(&spec("local", &json!({})), &world, now());
    assert!(plan.objects.is_empty() && plan.changes.is_empty());
    for kind in ["QuotaSatisfied", "Ready"] {
        assert_eq!(finding(&plan, kind).status, Truth::False);
        assert_eq!(finding(&plan, kind).reason.as_str(), "QuotaExceeded");
    }
}

#[test]
fn a_scale_up_over_the_limit_holds_the_workers_and_says_so_and_a_higher_limit_heals() {
    let before = spec("local", &json!({"workers": {"replicas": 3}}));
    let mut world = world::running(&before, now());
    let after = spec(
        "local",
        &json!({"workers": {"replicas": 5, "machineTemplate": {"cpu": 8}}, "workerPools": [{"name": "gpu", "replicas": 1}]}),
    );
    let claims = [Claim {
        held: Some(Sizes::of(&before.pools)),
        asks: Some(Sizes::of(&after.pools)),
        ..claim("a", 1, None, 1)
    }];
    world.quota = decide(&limits(&json!({"maxTotalNodes": 4})), &claims, "a");
    let held = plan(&after, &world, now());
    assert!(held.changes.is_empty(), "{held}");
    assert_eq!(held.numbers.desired, 3);
    let quota = finding(&held, "QuotaSatisfied");
    assert_eq!(
        (quota.status, quota.reason.as_str()),
        (Truth::False, "QuotaExceeded")
    );
    assert!(
        quota.message.contains("6 of 4 workers"),
        "{}",
        quota.message
    );
    assert_eq!(finding(&held, "Ready").status, Truth::True);

    world.quota = decide(&limits(&json!({"maxTotalNodes": 6})), &claims, "a");
    let healed = plan(&after, &world, now());
    assert_eq!(finding(&healed, "QuotaSatisfied").status, Truth::True);
    assert!(!healed.changes.is_empty());
}

#[test]
fn a_release_that_a_team_may_not_use_is_not_upgraded_to() {
    let mut world = world::running(
        &spec("local", &json!({"kubernetesVersion": "v1.34.4"})),
        now(),
    );
    let after = spec("local", &json!({"kubernetesVersion": "v1.35.4"}));
    let claims = [claim("a", 1, Some(3), 3)];
    world.quota = decide(
        &limits(&json!({"allowedKubernetesVersions": ["v1.34"]})),
        &claims,
        "a",
    );
    let held = plan(&after, &world, now());
    assert!(held.changes.is_empty(), "{held}");
    assert_eq!(
        finding(&held, "QuotaSatisfied").reason.as_str(),
        "VersionNotAllowed"
    );
}

#[test]
fn what_a_raw_spec_asks_for_is_what_its_checked_spec_asks_for() {
    for raw in [
        json!({"workers": {"replicas": 0}}),
        json!({"workers": {"replicas": 0}, "workerPools": [{"name": "gpu", "minReplicas": 1, "maxReplicas": 7}]}),
        json!({"workers": {"replicas": 2, "machineTemplate": {"cpu": "3500m"}}, "workerPools": [{"name": "gpu", "replicas": 1}]}),
    ] {
        let asked = Sizes::asked(&cluster(&raw).spec);
        assert_eq!(asked, Some(Sizes::of(&spec("local", &raw).pools)), "{raw}");
    }
}

#[test]
fn a_plan_can_show_what_of_every_limit_would_be_used() {
    let limits = limits(&json!({"maxClusters": 3, "maxTotalNodes": 10, "maxMemory": "100Gi"}));
    // One that stands, one that waits and has nothing, and the one that is asked about.
    let claims = [
        claim("old", 0, Some(2), 2),
        claim("waits", 1, None, 9),
        claim("own", 2, Some(1), 3),
    ];
    let usage = usage(&limits, &claims, "own");
    let usage: Vec<String> = usage.iter().map(ToString::to_string).collect();
    assert_eq!(
        usage,
        [
            "2 of 3 clusters of the team",
            "5 of 10 workers of the team",
            "40Gi of 100Gi memory of the team",
        ]
    );
}
