use serde_json::json;

use super::*;

fn plane(value: &Value) -> TenantControlPlane {
    let mut plane = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1",
        "kind": "TenantControlPlane",
        "metadata": {"name": "blue", "namespace": "team-a", "labels": {"tier": "gold"}},
        "spec": {"controlPlane": {"service": {"serviceType": "ClusterIP"}}, "kubernetes": {"version": "v1.35.4"}},
    });
    json_patch::merge(&mut plane, value);
    serde_json::from_value(plane).unwrap()
}

fn spec(value: &Value) -> KubeconfigGeneratorSpec {
    let mut spec = json!({"user": {"stringValue": "viewer"}});
    json_patch::merge(&mut spec, value);
    serde_json::from_value(spec).unwrap()
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn named(user: &Value, groups: &Value) -> Result<Subject, SubjectError> {
    let spec = spec(&json!({"user": user, "groups": groups}));
    subject(&spec, &plane(&json!({})))
}

#[test]
fn both_selectors_must_hold_and_none_means_all() {
    let team = labels(&[("team", "a")]);
    let plane = plane(&json!({}));
    let cases = [
        (json!({}), true),
        (json!({"namespaceSelector": {}}), true),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}),
            true,
        ),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "b"}}}),
            false,
        ),
        (
            json!({"tenantControlPlaneSelector": {"matchLabels": {"tier": "gold"}}}),
            true,
        ),
        (
            json!({
                "namespaceSelector": {"matchLabels": {"team": "b"}},
                "tenantControlPlaneSelector": {"matchLabels": {"tier": "gold"}},
            }),
            false,
        ),
        (
            json!({"tenantControlPlaneSelector": {"matchExpressions": [
                {"key": "tier", "operator": "NotIn", "values": ["gold"]},
            ]}}),
            false,
        ),
    ];
    for (case, expected) in cases {
        let selection = Selection::of(&spec(&case)).unwrap();
        assert_eq!(selection.holds(&plane, Some(&team)), expected, "{case}");
    }
}

#[test]
fn a_namespace_that_is_not_known_yet_is_meant_only_by_those_who_mean_all() {
    let plane = plane(&json!({}));
    let all = Selection::of(&spec(&json!({}))).unwrap();
    let absent = json!({"namespaceSelector": {"matchExpressions": [
        {"key": "team", "operator": "DoesNotExist"},
    ]}});
    assert!(all.holds(&plane, None));
    assert!(!Selection::of(&spec(&absent)).unwrap().holds(&plane, None));
}

#[test]
fn a_control_plane_that_is_being_deleted_is_not_meant() {
    let going = plane(&json!({"metadata": {"deletionTimestamp": "2026-11-15T12:00:00Z"}}));
    let all = Selection::of(&spec(&json!({}))).unwrap();
    assert!(!all.holds(&going, None));
}

#[test]
fn users_and_groups_are_written_down_or_read_from_the_control_plane() {
    let found = named(
        &json!({"stringValue": null, "fromDefinition": ".metadata.name"}),
        &json!([{"stringValue": "ops"}, {"fromDefinition": "metadata.labels.tier"}, {"fromDefinition": "kind"}]),
    );
    let expected = Subject::new("blue", ["ops", "gold", "TenantControlPlane"]);
    assert_eq!(found.unwrap(), expected);
}

#[test]
fn a_field_that_is_no_text_or_not_there_is_named() {
    let read = |path: &str| {
        let groups = json!([{"fromDefinition": path}]);
        named(&json!({}), &groups).unwrap_err().to_string()
    };
    assert!(read("metadata.labels").contains("not a text"));
    for path in ["status.nothing.here", "metadata.name.deeper"] {
        let message = read(path);
        assert!(
            message.contains("does not have") && message.contains(path),
            "{message}"
        );
        assert!(message.contains("spec.groups[0]"), "{message}");
    }
}

#[test]
fn the_group_of_masters_is_refused_wherever_it_comes_from() {
    let written = named(&json!({}), &json!([{"stringValue": "system:masters"}]));
    assert_eq!(written, Err(SubjectError::Masters));
    let sneaky = plane(&json!({"metadata": {"annotations": {"group": "system:masters"}}}));
    let groups = json!({"groups": [{"fromDefinition": "metadata.annotations.group"}]});
    assert_eq!(subject(&spec(&groups), &sneaky), Err(SubjectError::Masters));
}

#[test]
fn a_text_that_no_certificate_can_hold_is_refused() {
    let long = plane(&json!({"metadata": {"annotations": {"who": "x".repeat(65)}}}));
    let spec =
        spec(&json!({"user": {"stringValue": null, "fromDefinition": "metadata.annotations.who"}}));
    let error = subject(&spec, &long).unwrap_err();
    assert!(error.to_string().contains("1 to 64"), "{error}");
}

#[test]
fn only_secrets_that_carry_the_generator_in_label_and_name_are_left_over() {
    let secret = |namespace: &str, name: &str, by: &str, plane: &str| {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels(&[
                (names::MANAGED_BY, by),
                (names::MANAGED_FOR, plane),
            ])),
            ..ObjectMeta::default()
        };
        k8s_openapi::api::core::v1::Secret {
            metadata,
            ..Default::default()
        }
    };
    let held = [
        secret("a", "blue-view", "view", "blue"),
        secret("a", "green-view", "view", "green"),
        secret("b", "blue-view", "view", "blue"),
        secret("a", "blue-edit", "edit", "blue"),
        secret("a", "passwords", "view", "blue"),
    ];
    let kept = BTreeSet::from([("a".to_owned(), "blue-view".to_owned())]);
    let left: Vec<_> = leftovers("view", &held, &kept)
        .into_iter()
        .map(butler_runtime::apply::full_name)
        .collect();
    assert_eq!(left, ["a/green-view", "b/blue-view"]);
}

#[test]
fn a_generator_cannot_be_called_like_an_object_of_control_planes() {
    for name in ["ca", "admin-kubeconfig", "x-ca", "datastore-config"] {
        assert!(reserved(name).is_some(), "{name}");
    }
    for name in ["africa", "viewers", "ca-readers"] {
        assert_eq!(reserved(name), None, "{name}");
    }
}

#[test]
fn what_the_control_plane_lacks_is_named() {
    let tenant = || Tenant {
        name: "blue".to_owned(),
        namespace: "team-a".to_owned(),
    };
    let try_with = |admin: &Content| {
        let subject = Subject::new("viewer", []);
        let made = wanted(
            "view",
            "admin.svc",
            tenant(),
            subject,
            &Content::default(),
            admin,
        );
        made.map(|_| ()).unwrap_err()
    };
    let mut admin = Content::default();
    assert_eq!(
        try_with(&admin),
        Obstacle::NoEndpoint {
            secret: "blue-admin-kubeconfig".to_owned(),
            key: "admin.svc".to_owned()
        }
    );
    admin
        .data
        .insert("admin.svc".to_owned(), b"garbage".to_vec());
    assert!(matches!(try_with(&admin), Obstacle::Endpoint { .. }));
}
