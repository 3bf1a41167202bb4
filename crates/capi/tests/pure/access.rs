//! Who of a team may see what of a cluster.

use butler_capi::{
    Object, Observed, Plan,
    access::{Access, Audience},
    plan,
};
use k8s_openapi::api::rbac::v1::Subject;
use serde_json::json;

use crate::common::{now, observed, spec};

fn person(name: &str) -> Subject {
    Subject {
        kind: "User".to_owned(),
        name: name.to_owned(),
        ..Subject::default()
    }
}

#[test]
fn members_may_have_exactly_the_kubeconfig_and_viewers_no_secret_at_all() {
    let mut world = observed();
    world.inputs.access = Audience::Team(Access {
        viewers: vec![person("vera"), person("ada")],
        operators: vec![person("ada")],
    });
    let plan = plan(&spec("nutanix", &json!({})), &world, now());
    let mut roles = plan.objects.iter().filter_map(|object| match object {
        Object::Role(role) => Some(role),
        _ => None,
    });
    let role = roles.next().unwrap();
    assert!(roles.next().is_none());
    assert_eq!(
        json!(role.rules),
        json!([{
            "apiGroups": [""], "resources": ["secrets"],
            "resourceNames": ["my-cluster-kubeconfig"], "verbs": ["get"],
        }])
    );
    let bound = plan.objects.iter().filter_map(|object| match object {
        Object::RoleBinding(binding) => {
            let subjects = binding.subjects.iter().flatten();
            let names = subjects.map(|subject| subject.name.as_str());
            Some((binding.role_ref.name.as_str(), names.collect::<Vec<_>>()))
        }
        _ => None,
    });
    assert_eq!(
        bound.collect::<Vec<_>>(),
        [
            ("butler-tenant-kubeconfig", vec!["ada"]),
            ("butler-tenant-viewer", vec!["vera", "ada"]),
        ]
    );
}

#[test]
fn access_that_is_not_known_is_left_as_it_stands() {
    let spec = spec("local", &json!({}));
    let mut world = observed();
    world.inputs.access = Audience::Team(Access::default());
    let with = plan(&spec, &world, now());
    crate::world::apply(&mut world, &with);
    crate::world::settle(&mut world);
    world.inputs.access = Audience::Unknown;
    let without = plan(&spec, &world, now());
    assert!(without.changes.delete.is_empty(), "{without}");
}

fn deleted(plan: &Plan) -> Vec<String> {
    let all = plan.changes.delete.iter();
    all.map(ToString::to_string).collect()
}

const ALL: [&str; 3] = [
    "Role butler-tenant-kubeconfig",
    "RoleBinding butler-tenant-kubeconfig",
    "RoleBinding butler-tenant-viewer",
];

/// A cluster whose team can see it.
fn seen() -> Observed {
    let mut world = observed();
    world.inputs.access = Audience::Team(Access {
        viewers: vec![person("vera")],
        operators: vec![person("vera")],
    });
    let with = plan(&spec("local", &json!({})), &world, now());
    crate::world::apply(&mut world, &with);
    crate::world::settle(&mut world);
    world
}

#[test]
fn access_ends_with_the_team_and_waits_for_nothing_else() {
    let mut world = seen();
    world.inputs.access = Audience::Nobody;
    let whole = spec("local", &json!({}));
    assert_eq!(deleted(&plan(&whole, &world, now())), ALL);
    // Something else cannot be planned yet: its machines wait for how to join.
    world.inputs.join = None;
    world.pools.clear();
    let partial = spec(
        "nutanix",
        &json!({"workers": {"machineTemplate": {"os": {"type": "talos"}}}}),
    );
    let plan = plan(&partial, &world, now());
    assert!(!plan.waits.is_empty(), "{plan}");
    assert_eq!(deleted(&plan), ALL);
}

#[test]
fn only_access_that_was_written_here_is_taken_away() {
    let mut world = seen();
    let mut ours: Vec<_> = world.objects.keys().cloned().collect();
    ours.retain(|id| id.kind == "RoleBinding");
    let mut other = ours.remove(0);
    other.name = "made-by-hand".to_owned();
    world.objects.insert(other.clone(), None);
    let wanted = spec("local", &json!({}));
    assert!(deleted(&plan(&wanted, &world, now())).is_empty());
    world
        .objects
        .insert(other, Some("an earlier plan".to_owned()));
    let plan = plan(&wanted, &world, now());
    assert_eq!(deleted(&plan), ["RoleBinding made-by-hand"]);
}
