//! Who of a team may see what of a cluster.

use butler_capi::{Object, access::Access, plan};
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
    world.inputs.access = Some(Access {
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
    world.inputs.access = Some(Access::default());
    let with = plan(&spec, &world, now());
    crate::world::apply(&mut world, &with, now());
    crate::world::settle(&mut world);
    world.inputs.access = None;
    let without = plan(&spec, &world, now());
    assert!(without.changes.delete.is_empty(), "{without}");
}
