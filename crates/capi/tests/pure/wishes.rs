//! Wishes that change before they have come true.

use butler_api::butler::tenant_cluster::Phase;
use butler_capi::{Observed, TenantSpec, plan};
use proptest::prelude::*;
use serde_json::json;

use crate::{
    common::{now, spec},
    day2::{two_pools, versions},
    world::{apply, running, settle},
};

/// What a plan tells the control plane to run, and what it waits for.
fn told(wanted: &TenantSpec, world: &Observed) -> (String, Vec<String>) {
    let plan = plan(wanted, world, now());
    (versions(&plan).0, plan.waits)
}

#[test]
fn an_upgrade_that_does_not_come_up_may_be_exchanged_or_taken_back() {
    let mut world = running(&two_pools("v1.33.9"), now());
    let bad = plan(&two_pools("v1.34.4"), &world, now());
    apply(&mut world, &bad);
    world.control_plane.as_mut().unwrap().available = false;
    for better in ["v1.34.2", "v1.34.9", "v1.33.9", "v1.33.10"] {
        assert_eq!(told(&two_pools(better), &world).0, better);
    }
    let (stays, waits) = told(&two_pools("v1.35.4"), &world);
    assert_eq!(stays, "v1.34.4");
    assert!(
        waits[0].contains("runs v1.33.9") && waits[0].contains("within reach"),
        "{waits:?}"
    );
}

#[test]
fn two_upgrades_asked_for_before_the_first_began_leave_a_way_on() {
    let mut world = running(&two_pools("v1.33.9"), now());
    // A pool is busy, so that the first upgrade does not begin.
    world.pools.get_mut("b").unwrap().up_to_date = 1;
    assert_eq!(told(&two_pools("v1.34.4"), &world).0, "v1.33.9");
    let (_, too_far) = told(&two_pools("v1.35.4"), &world);
    assert!(too_far[0].contains("within reach"), "{too_far:?}");
    settle(&mut world);
    assert_eq!(told(&two_pools("v1.35.4"), &world).0, "v1.33.9");
    assert_eq!(told(&two_pools("v1.34.2"), &world).0, "v1.34.2");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is wanted one after the other, at whatever moment the world stops: the last wish comes true, no
    /// kubelet is ever newer than its API server, and once it is true nothing is done any more.
    #[test]
    fn every_way_ends_where_the_spec_points(
        wishes in prop::collection::vec((0_usize..12, 1_i32..5, 0_i32..4, any::<bool>()), 1..8),
    ) {
        let versions = ["v1.33.9", "v1.34.2", "v1.34.4", "v1.35.4"];
        let mut world = running(&two_pools(versions[0]), now());
        let mut last = two_pools(versions[0]);
        for (version, cpu, replicas, half) in wishes {
            // Any release within reach of the one that runs, whatever was wished for before: that is what admission
            // lets through.
            let server = world.control_plane.as_ref().unwrap().running.unwrap();
            let within_reach: Vec<&str> = versions
                .into_iter()
                .filter(|it| server.can_upgrade_to(it.parse().unwrap()))
                .collect();
            last = spec("local", &json!({
                "kubernetesVersion": within_reach[version % within_reach.len()],
                "workers": {"replicas": replicas, "machineTemplate": {"cpu": cpu}},
                "workerPools": [{"name": "b", "replicas": 2}],
            }));
            // Half of the wishes are overtaken by the next one before anything has become true.
            for _ in 0..if half { 1 } else { 12 } {
                let plan = plan(&last, &world, now());
                apply(&mut world, &plan);
                if !half {
                    settle(&mut world);
                }
                let server = world.control_plane.as_ref().unwrap().running.unwrap();
                for pool in world.pools.values() {
                    prop_assert!(pool.target.version <= server, "{} on {server}", pool.target.version);
                }
            }
        }
        for _ in 0..16 {
            settle(&mut world);
            let plan = plan(&last, &world, now());
            apply(&mut world, &plan);
        }
        let end = plan(&last, &world, now());
        prop_assert!(end.changes.is_empty(), "{}", end);
        prop_assert_eq!(end.phase, Phase::Ready);
        let fresh = running(&last, now());
        let expected = plan(&last, &fresh, now()).objects;
        prop_assert_eq!(end.objects, expected);
    }
}
