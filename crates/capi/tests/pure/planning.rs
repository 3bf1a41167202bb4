//! From nothing to a cluster that works, and what a change does to it.

use butler_api::butler::tenant_cluster::Phase;
use butler_capi::{Object, Observed, plan, plan::Truth};
use serde_json::json;

use crate::{
    common::{inputs, join, now, observed, providers, spec},
    world::{apply, running, settle},
};

#[test]
fn a_cluster_grows_through_the_phases_of_the_documents() {
    let spec = spec("local", &json!({}));
    let mut world = Observed {
        inputs: inputs(),
        ..Observed::default()
    };
    let first = plan(&spec, &world, now());
    assert_eq!(first.phase, Phase::Provisioning);
    assert!(
        first
            .waits
            .iter()
            .any(|wait| wait.contains("waits for the control plane")),
        "{first}"
    );
    let has_pool = |plan: &butler_capi::Plan| {
        plan.objects
            .iter()
            .any(|object| matches!(object, Object::MachineDeployment(_)))
    };
    assert!(
        !has_pool(&first),
        "Cluster API is slow to look again after a control plane that is not ready"
    );
    apply(&mut world, &first);
    settle(&mut world);
    let second = plan(&spec, &world, now());
    assert_eq!(second.phase, Phase::Provisioning);
    assert!(has_pool(&second));
    apply(&mut world, &second);
    settle(&mut world);
    // Nodes are not ready without a network, which is an addon.
    world.pools.get_mut("workers").unwrap().ready = 0;
    let third = plan(&spec, &world, now());
    assert_eq!(third.phase, Phase::Installing);
    settle(&mut world);
    apply(&mut world, &third);
    let fourth = plan(&spec, &world, now());
    assert_eq!(fourth.phase, Phase::Ready);
    assert!(
        fourth
            .findings
            .iter()
            .all(|finding| finding.status == Truth::True),
        "{:?}",
        fourth.findings
    );
    assert!(fourth.changes.is_empty(), "{fourth}");
}

#[test]
fn a_plan_that_was_carried_out_has_nothing_to_do_on_every_provider() {
    for provider in providers().keys() {
        let spec = spec(
            provider,
            &json!({"workerPools": [{"name": "more", "minReplicas": 1, "maxReplicas": 3}]}),
        );
        let world = running(&spec, now());
        let again = plan(&spec, &world, now());
        assert!(
            again.changes.is_empty() && again.waits.is_empty(),
            "{provider}:\n{again}"
        );
        assert_eq!(again.to_string().lines().next(), Some("Nothing to do."));
    }
}

#[test]
fn a_cluster_without_workers_is_a_cluster() {
    let spec = spec("local", &json!({"workers": {"replicas": 0}}));
    let world = running(&spec, now());
    let plan = plan(&spec, &world, now());
    assert_eq!(plan.phase, Phase::Ready);
    assert_eq!(plan.numbers.desired, 0);
    assert_eq!(plan.uses.nodes, 0);
}

#[test]
fn scaling_changes_the_pool_and_what_was_granted_and_replaces_nothing() {
    let world = running(&spec("local", &json!({})), now());
    let more = spec("local", &json!({"workers": {"replicas": 5}}));
    let plan = plan(&more, &world, now());
    let changed: Vec<String> = plan
        .changes
        .change
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        changed,
        [
            "Namespace my-cluster-a7b8c9d0",
            "MachineDeployment my-cluster-workers"
        ]
    );
    assert!(plan.rolls.is_empty() && plan.changes.create.is_empty());
}

#[test]
fn a_new_machine_size_is_a_new_template_and_the_old_one_goes_after_the_rollout() {
    let small = spec("local", &json!({}));
    let large = spec(
        "local",
        &json!({"workers": {"machineTemplate": {"cpu": 8}}}),
    );
    let mut world = running(&small, now());
    let old = world.pools["workers"].target.clone();
    let start = plan(&large, &world, now());
    assert_eq!(start.changes.create.len(), 1, "{start}");
    assert_eq!(start.rolls.len(), 1);
    assert_eq!(
        (start.rolls[0].nodes, start.rolls[0].because.as_slice()),
        (3, &["machine"][..])
    );
    assert!(
        start.changes.delete.is_empty(),
        "the old template is needed to go back"
    );
    apply(&mut world, &start);
    world.phase = Some(Phase::Ready);
    let during = plan(&large, &world, now());
    assert_eq!(during.phase, Phase::Updating);
    assert!(during.changes.is_empty(), "{during}");
    settle(&mut world);
    let after = plan(&large, &world, now());
    let deleted: Vec<String> = after
        .changes
        .delete
        .iter()
        .map(|id| id.name.clone())
        .collect();
    assert_eq!(deleted, [old.machine_template.name], "{after}");
}

#[test]
fn going_back_and_forth_gives_the_same_objects() {
    let a = spec("local", &json!({}));
    let b = spec(
        "local",
        &json!({"workers": {"machineTemplate": {"memory": "12Gi"}}}),
    );
    let mut world = running(&a, now());
    let before: Vec<_> = plan(&a, &world, now()).objects;
    for spec in [&b, &a] {
        for _ in 0..3 {
            let plan = plan(spec, &world, now());
            apply(&mut world, &plan);
            settle(&mut world);
        }
    }
    assert_eq!(plan(&a, &world, now()).objects, before);
    assert!(plan(&a, &world, now()).changes.is_empty());
}

#[test]
fn pools_roll_one_after_the_other() {
    let pools = |cpu: i32| {
        json!({"workers": {"machineTemplate": {"cpu": cpu}},
               "workerPools": [{"name": "b", "replicas": 2, "machineTemplate": {"cpu": cpu}}]})
    };
    let mut world = running(&spec("local", &pools(4)), now());
    let wanted = spec("local", &pools(8));
    let start = plan(&wanted, &world, now());
    let rolling: Vec<&str> = start.rolls.iter().map(|roll| roll.pool.as_str()).collect();
    assert_eq!(rolling, ["workers"]);
    assert!(
        start.waits.iter().any(|wait| wait.contains("pool b wait")),
        "{start}"
    );
    apply(&mut world, &start);
    let during = plan(&wanted, &world, now());
    assert!(
        during.waits.iter().any(|wait| wait.contains("pool b wait")),
        "{during}"
    );
    settle(&mut world);
    let next = plan(&wanted, &world, now());
    let rolling: Vec<&str> = next.rolls.iter().map(|roll| roll.pool.as_str()).collect();
    assert_eq!(rolling, ["b"], "{next}");
}

#[test]
fn a_pool_that_left_the_spec_goes_with_everything_of_its_own() {
    let two = spec(
        "local",
        &json!({"workerPools": [{"name": "b", "replicas": 2, "machineTemplate": {"cpu": 8}}]}),
    );
    let mut world = running(&two, now());
    let one = spec("local", &json!({}));
    let plan = plan(&one, &world, now());
    let kinds: Vec<&str> = plan
        .changes
        .delete
        .iter()
        .map(|id| id.kind.as_str())
        .collect();
    assert!(
        kinds.contains(&"MachineDeployment") && kinds.contains(&"MachineHealthCheck"),
        "{plan}"
    );
    assert!(
        plan.changes
            .delete
            .iter()
            .all(|id| id.name.starts_with("my-cluster-b")),
        "{plan}"
    );
    apply(&mut world, &plan);
    assert!(butler_capi::plan(&one, &world, now()).changes.is_empty());
}

#[test]
fn nothing_is_removed_while_something_is_unknown() {
    let spec = spec("proxmox", &json!({}));
    let mut world = running(&spec, now());
    world.inputs.machine_addresses.clear();
    let plan = plan(&spec, &world, now());
    assert!(plan.changes.delete.is_empty(), "{plan}");
    assert!(
        plan.waits.iter().any(|wait| wait.contains("no addresses")),
        "{plan}"
    );
}

#[test]
fn a_new_token_renews_the_secret_in_place_and_new_content_is_a_new_secret() {
    let flatcar = |args: &serde_json::Value| {
        let os = json!({"type": "flatcar", "imageRef": "default/flatcar"});
        spec(
            "harvester",
            &json!({"workers": {"machineTemplate": {"os": os}}, "nodeSettings": {"kubeletArgs": args}}),
        )
    };
    let mut world = running(&flatcar(&json!({})), now());
    world.inputs.join = Some(join("zzzzzz.zzzzzzzzzzzzzzzz"));
    let renewed = plan(&flatcar(&json!({})), &world, now());
    let changed = renewed.changes.change.iter();
    let changed: Vec<_> = changed
        .map(|id| (id.kind.as_str(), id.name.as_str()))
        .collect();
    assert_eq!(changed.len(), 2, "{renewed}");
    assert_eq!(changed[0], ("Secret", "my-cluster-join"));
    assert_eq!(changed[1].0, "Secret");
    assert!(renewed.rolls.is_empty() && renewed.changes.create.is_empty());
    let changed = plan(&flatcar(&json!({"max-pods": "50"})), &world, now());
    assert_eq!(changed.rolls[0].because, ["bootstrap"]);
    assert_eq!(changed.changes.create[0].kind, "Secret");
}

#[test]
fn an_autoscaled_pool_leaves_the_number_to_the_autoscaler() {
    let spec = spec(
        "local",
        &json!({"workerPools": [{"name": "b", "minReplicas": 1, "maxReplicas": 9}]}),
    );
    let mut world = running(&spec, now());
    world.pools.get_mut("b").unwrap().wanted = 7;
    settle(&mut world);
    let plan = plan(&spec, &world, now());
    assert!(plan.changes.is_empty(), "{plan}");
    assert_eq!((plan.phase, plan.numbers.desired), (Phase::Ready, 10));
    let pool = plan
        .objects
        .iter()
        .find(|object| object.id().name == "my-cluster-b")
        .unwrap()
        .to_value();
    assert!(pool["spec"].get("replicas").is_none());
    assert_eq!(
        pool["metadata"]["annotations"][butler_capi::build::AUTOSCALER_MAX],
        "9"
    );
}

#[test]
fn a_namespace_of_somebody_else_is_never_touched() {
    let spec = spec("local", &json!({}));
    let mut world = observed();
    world.namespace = butler_capi::observe::Standing::Foreign;
    let plan = plan(&spec, &world, now());
    assert!(plan.objects.is_empty() && plan.changes.is_empty(), "{plan}");
    assert!(plan.waits[0].contains("does not belong to this cluster"));
}

#[test]
fn every_object_carries_the_uid_and_no_plan_prints_a_secret() {
    let spec = spec("nutanix", &json!({}));
    let plan = plan(&spec, &observed(), now());
    for object in &plan.objects {
        let labels = object.metadata().labels.clone().unwrap();
        assert_eq!(
            labels["butler.butlerlabs.dev/owner-uid"],
            "a7b8c9d0-0000-4000-8000-000000000001"
        );
        assert_eq!(labels["app.kubernetes.io/managed-by"], "butler");
    }
    let written = serde_json::to_string(&plan).unwrap();
    assert!(
        written.contains("my-cluster-nutanix-creds") && written.contains("(hidden)"),
        "{written}"
    );
    let printed = format!("{plan:?}\n{plan}\n{:?}\n{written}", observed());
    assert!(
        !printed.contains("cXVvdGVk")
            && !printed.contains("quoted")
            && !printed.contains("0123456789abcdef"),
        "{printed}"
    );
}

#[test]
fn a_failed_cluster_comes_back_when_it_is_retried_and_a_working_one_never_fails() {
    let spec = spec("local", &json!({}));
    let mut world = running(&spec, now());
    world.failure = Some("the provider refuses the credentials".to_owned());
    let working = plan(&spec, &world, now());
    assert_eq!(working.phase, Phase::Ready);
    assert_eq!(working.findings.last().unwrap().status, Truth::False);
    world.phase = Some(Phase::Provisioning);
    assert_eq!(plan(&spec, &world, now()).phase, Phase::Failed);
    world.phase = Some(Phase::Failed);
    assert_eq!(plan(&spec, &world, now()).phase, Phase::Failed);
    world.retry = true;
    assert_eq!(plan(&spec, &world, now()).phase, Phase::Pending);
    world.retry = false;
    world.is_reported = false;
    let changed = plan(&spec, &world, now());
    assert_eq!(changed.phase, Phase::Pending, "a changed spec is tried");
    world.is_reported = true;
    world.failure = None;
    let healed = plan(&spec, &world, now());
    assert_eq!(healed.phase, Phase::Pending, "what failed is right again");
}

#[test]
fn only_a_cluster_that_never_worked_fails_for_good() {
    use Phase::{Deleting, Failed, Installing, Pending, Provisioning, Ready, Updating};
    for (held, again, phase) in [
        (None, false, Failed),
        (Some(Pending), true, Failed),
        (Some(Provisioning), false, Failed),
        (Some(Installing), true, Failed),
        (Some(Failed), false, Failed),
        (Some(Failed), true, Pending),
        (Some(Ready), true, Ready),
        (Some(Updating), false, Updating),
        (Some(Deleting), true, Deleting),
    ] {
        assert_eq!(plan::failed(held, again), phase, "{held:?} {again}");
    }
}

#[test]
fn a_pool_that_waits_for_another_operating_system_keeps_what_it_has() {
    let os = |os: &str| {
        let os = json!({"type": os, "imageRef": "default/image"});
        spec(
            "harvester",
            &json!({
                "workers": {"machineTemplate": {"os": os}},
                "maintenance": {"windows": [{"schedule": "0 2 29 2 *"}]},
            }),
        )
    };
    let world = running(&os("rocky"), now());
    let plan = plan(&os("flatcar"), &world, now());
    let made: Vec<_> = plan
        .changes
        .create
        .iter()
        .map(|id| id.name.as_str())
        .collect();
    assert_eq!(made, ["my-cluster-join"], "{plan}");
    assert!(plan.changes.change.is_empty() && plan.changes.delete.is_empty());
    assert!(
        plan.waits[0].contains("the maintenance window opens at 2028-02-29"),
        "{plan}"
    );
}

#[test]
fn a_token_is_looked_after_in_time_and_a_silent_tenant_is_asked_again() {
    let os = json!({"type": "flatcar", "imageRef": "default/flatcar"});
    let spec = spec(
        "harvester",
        &json!({"workers": {"machineTemplate": {"os": os}}}),
    );
    let mut world = running(&spec, now());
    let soon = now() + jiff::SignedDuration::from_secs(30);
    let look = now() + butler_capi::node::look_after(&spec.identity.uid);
    assert_eq!(plan(&spec, &world, now()).wake, Some(look));
    let renewal = now() + jiff::SignedDuration::from_mins(5);
    let token = &mut world.inputs.join.as_mut().unwrap().token;
    token.expires = renewal + jiff::SignedDuration::from_hours(4);
    assert_eq!(plan(&spec, &world, now()).wake, Some(renewal));
    world.inputs.join = None;
    let silent = plan(&spec, &world, now());
    assert_eq!(silent.wake, Some(soon));
    assert!(silent.changes.delete.is_empty(), "{silent}");
}

#[test]
fn every_kind_of_infrastructure_that_is_planned_is_one_that_is_looked_for() {
    for provider in providers().keys() {
        let spec = spec(provider, &json!({}));
        let kinds = spec.infrastructure.kinds();
        let version = format!("infrastructure.cluster.x-k8s.io/{}", kinds.version);
        for object in plan(&spec, &observed(), now()).objects {
            let id = object.id();
            if matches!(object, Object::Infrastructure(_)) {
                let is_seen = kinds.all().any(|kind| kind == id.kind);
                assert!(is_seen && id.api_version == version, "{provider}: {id}");
            }
        }
    }
}
