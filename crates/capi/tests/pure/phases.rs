//! What a cluster says of itself while workers come: never that it is ready before they are.

use butler_api::butler::tenant_cluster::Phase;
use butler_capi::{
    Observed, Plan, TenantSpec, plan,
    plan::{Finding, Truth},
};
use serde_json::json;

use crate::{
    common::{now, spec},
    world::{apply, machine, running, settle},
};

pub(crate) fn finding<'a>(plan: &'a Plan, kind: &str) -> &'a Finding {
    let found = plan.findings.iter().find(|finding| finding.kind == kind);
    found.unwrap()
}

fn with_workers(count: u32) -> TenantSpec {
    spec("local", &json!({"workers": {"replicas": count}}))
}

/// Makes a plan and carries it out, as far as an API server does so at once.
fn step(wanted: &TenantSpec, world: &mut Observed) -> Plan {
    let next = plan(wanted, world, now());
    apply(world, &next);
    next
}

/// Cluster API has made the machines that are wanted, and none of the new ones is a Node yet.
fn make_machines(world: &mut Observed) {
    let pool = world.pools.get_mut("workers").unwrap();
    pool.replicas = pool.wanted;
    pool.up_to_date = pool.wanted;
    pool.current = true;
    for index in pool.ready..pool.wanted {
        let mut new = machine("workers", index, &pool.target);
        new.node = None;
        world.machines.push(new);
    }
}

#[test]
fn addons_are_not_called_ready_before_a_worker_has_joined() {
    let asked = [
        ("local", json!({})),
        ("local", json!({"addons": {"storage": {}}})),
        ("harvester", json!({})),
    ];
    for (provider, asked) in asked {
        let wanted = spec(provider, &asked);
        let mut world = Observed {
            inputs: crate::common::inputs(),
            ..Observed::default()
        };
        for turn in 0..3 {
            let next = step(&wanted, &mut world);
            let said = finding(&next, "AddonsReady");
            assert_eq!(said.status, Truth::False, "{provider} at {turn}: {said:?}");
            assert_eq!(next.phase, Phase::Provisioning);
            // The control plane comes up; machines take their time.
            let held = world.control_plane.as_mut().unwrap();
            held.running = Some(held.wanted);
            (held.initialized, held.available) = (true, true);
        }
        make_machines(&mut world);
        let next = plan(&wanted, &world, now());
        assert_eq!(
            finding(&next, "AddonsReady").message,
            "they wait for the workers"
        );
    }
}

#[test]
fn a_cluster_without_workers_is_ready_and_says_that_its_addons_are_still_to_come() {
    let sizes = [
        json!({"workers": {"replicas": 0}}),
        json!({"workers": {"replicas": 0}, "workerPools": [{"name": "b", "minReplicas": 0, "maxReplicas": 4}]}),
    ];
    for size in sizes {
        let wanted = spec("harvester", &size);
        let plan = plan(&wanted, &running(&wanted, now()), now());
        assert_eq!(plan.phase, Phase::Ready, "{plan}");
        let said = finding(&plan, "AddonsReady");
        assert_eq!(
            (said.status, said.reason.as_str()),
            (Truth::True, "NoWorkers")
        );
        assert_eq!(said.message, "they come with the first worker");
    }
}

#[test]
fn a_cluster_that_grows_is_updating_until_every_new_worker_is_ready() {
    let wanted = with_workers(3);
    let mut world = running(&with_workers(2), now());
    assert_eq!(step(&wanted, &mut world).phase, Phase::Updating);
    // The numbers of Cluster API are already about three machines, and one of them is not ready.
    make_machines(&mut world);
    let during = step(&wanted, &mut world);
    assert_eq!(during.phase, Phase::Updating, "{during}");
    assert_eq!(finding(&during, "WorkersReady").status, Truth::False);
    assert_eq!(finding(&during, "Ready").status, Truth::False);
    settle(&mut world);
    assert_eq!(step(&wanted, &mut world).phase, Phase::Ready);
}

#[test]
fn a_cluster_that_wakes_is_updating_until_its_workers_are_ready() {
    let awake = with_workers(2);
    let asleep = spec(
        "local",
        &json!({"workers": {"replicas": 2}, "hibernation": {"enabled": true}}),
    );
    let mut world = running(&awake, now());
    for _ in 0..3 {
        step(&asleep, &mut world);
        settle(&mut world);
    }
    assert_eq!(step(&asleep, &mut world).phase, Phase::Ready);
    let mut woken = step(&awake, &mut world);
    for what in ["its control plane", "its pools", "its machines"] {
        assert_eq!(woken.phase, Phase::Updating, "{what}: {woken}");
        assert_eq!(finding(&woken, "AddonsReady").status, Truth::False);
        assert_eq!(finding(&woken, "Ready").status, Truth::False);
        world.control_plane.as_mut().unwrap().available = true;
        make_machines(&mut world);
        woken = step(&awake, &mut world);
    }
    assert_eq!(woken.phase, Phase::Updating, "{woken}");
    settle(&mut world);
    assert_eq!(step(&awake, &mut world).phase, Phase::Ready);
}

#[test]
fn a_worker_that_is_lost_is_no_change_and_leaves_a_ready_cluster_ready() {
    let wanted = with_workers(2);
    let mut world = running(&wanted, now());
    world.pools.get_mut("workers").unwrap().ready = 1;
    let plan = plan(&wanted, &world, now());
    assert_eq!(plan.phase, Phase::Ready);
    assert_eq!(finding(&plan, "WorkersReady").status, Truth::False);
    assert_eq!(finding(&plan, "Ready").status, Truth::False);
}

#[test]
fn a_change_whose_first_report_was_lost_is_still_updating() {
    let wanted = with_workers(3);
    let mut world = running(&with_workers(2), now());
    step(&wanted, &mut world);
    make_machines(&mut world);
    // A crash came between the pool's new size and the report of it.
    world.phase = Some(Phase::Ready);
    world.is_reported = false;
    assert_eq!(step(&wanted, &mut world).phase, Phase::Updating);
}

#[test]
fn workers_of_one_pool_do_not_count_for_another() {
    let sizes = |workers: u32, others: u32| {
        let more = json!([{"name": "b", "replicas": others}]);
        spec(
            "local",
            &json!({"workers": {"replicas": workers}, "workerPools": more}),
        )
    };
    let mut world = running(&sizes(3, 1), now());
    let wanted = sizes(2, 2);
    step(&wanted, &mut world);
    make_machines(&mut world);
    // Three are ready in one pool and one in the other, which is four, and not two in each.
    let during = step(&wanted, &mut world);
    assert_eq!(finding(&during, "WorkersReady").status, Truth::False);
}

#[test]
fn what_stands_in_the_way_is_said_where_people_look() {
    let wanted = with_workers(2);
    let mut world = Observed {
        inputs: crate::common::inputs(),
        ..Observed::default()
    };
    world.namespace = butler_capi::observe::Standing::Foreign;
    let taken = plan(&wanted, &world, now());
    let said = &finding(&taken, "Ready").message;
    assert!(
        said.contains("does not belong to this cluster: remove it"),
        "{said}"
    );
    assert!(taken.changes.is_empty(), "{taken}");
    assert!(taken.wake.is_some(), "nobody tells when it is gone");

    let nutanix = spec("nutanix", &json!({}));
    let mut world = crate::common::observed();
    world.inputs.credentials.clear();
    let said = plan(&nutanix, &world, now());
    let said = &finding(&said, "Ready").message;
    assert!(
        said.contains("have no key") && said.contains("add it to the Secret"),
        "{said}"
    );
}

#[test]
fn a_change_says_how_far_it_is() {
    let release = |version: &str| {
        spec(
            "local",
            &json!({"kubernetesVersion": version, "workers": {"replicas": 3}}),
        )
    };
    let mut world = running(&release("v1.34.4"), now());
    let wanted = release("v1.35.4");
    let said = |plan: &Plan| finding(plan, "Ready").message.clone();
    step(&wanted, &mut world);
    let moving = said(&step(&wanted, &mut world));
    assert!(
        moving.starts_with("the control plane moves from v1.34.4 to v1.35.4"),
        "{moving}"
    );
    let held = world.control_plane.as_mut().unwrap();
    held.running = Some(held.wanted);
    assert_eq!(
        said(&step(&wanted, &mut world)),
        "pool workers: 0 of 3 machines replaced"
    );
    // One that is to take another's place is additional, and may be hard to get.
    let pool = world.pools.get_mut("workers").unwrap();
    (pool.up_to_date, pool.replicas) = (1, 4);
    let mut next = machine("workers", 9, &pool.target);
    (next.node, next.obstacle) = (None, Some("there is no image".to_owned()));
    world.machines.push(next);
    assert_eq!(
        said(&step(&wanted, &mut world)),
        "pool workers: 0 of 3 machines replaced; machine workers-9: there is no image"
    );
    world.machines.pop();
    let pool = world.pools.get_mut("workers").unwrap();
    pool.replicas = 3;
    assert_eq!(
        said(&step(&wanted, &mut world)),
        "pool workers: 1 of 3 machines replaced"
    );
    let mut new = world.clone();
    new.phase = Some(Phase::Provisioning);
    let first = said(&plan(&wanted, &new, now()));
    assert!(!first.contains("replaced"), "{first}");
    settle(&mut world);
    step(&wanted, &mut world);
    assert_eq!(said(&step(&wanted, &mut world)), "the cluster works");
}
