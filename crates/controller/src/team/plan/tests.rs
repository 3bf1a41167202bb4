use butler_api::butler::team::Access;
use serde_json::json;

use super::*;

fn spec(deleting: bool) -> Spec {
    let access: Access = serde_json::from_value(json!({
        "users": [
            {"name": "a.b@example.com", "role": "operator"},
            {"name": "a-b@example.com", "role": "operator"},
            {"name": "boss@example.com", "role": "viewer"},
        ],
        "groups": [{"name": "crew", "role": "member"}],
    }))
    .unwrap();
    Spec {
        name: "rockets".parse().unwrap(),
        uid: "1234".to_owned(),
        display_name: "Rockets".to_owned(),
        members: Members::of(&access),
        deleting,
    }
}

fn world(namespace: Standing, clusters: &[&str]) -> World {
    World {
        namespace,
        clusters: clusters.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn ours() -> Standing {
    Standing::Ours(Box::new(namespace(&spec(false))))
}

fn reason(plan: &Plan) -> (&str, &str) {
    let ready = plan
        .verdicts
        .iter()
        .find(|verdict| verdict.type_ == "Ready")
        .unwrap();
    (ready.reason, ready.status.as_str())
}

#[test]
fn members_with_one_role_share_a_binding_and_similar_addresses_stay_apart() {
    let plan = plan(&spec(false), &world(Standing::Missing, &[]));
    let names: Vec<_> = plan
        .bindings
        .iter()
        .map(|held| held.metadata.name.as_deref().unwrap())
        .collect();
    assert_eq!(names, ["butler-team-viewer", "butler-team-operator"]);
    let subjects: Vec<_> = plan.bindings[1].subjects.iter().flatten().collect();
    let subjects: Vec<_> = subjects
        .iter()
        .map(|held| (held.kind.as_str(), held.name.as_str()))
        .collect();
    assert_eq!(
        subjects,
        [
            ("User", "a-b@example.com"),
            ("User", "a.b@example.com"),
            ("Group", "crew")
        ]
    );
}

#[test]
fn a_namespace_is_created_when_missing_and_kept_when_ours() {
    let fresh = plan(&spec(false), &world(Standing::Missing, &[]));
    assert!(matches!(fresh.namespace, NamespaceStep::Create(_)));
    let kept = plan(&spec(false), &world(ours(), &[]));
    assert!(matches!(kept.namespace, NamespaceStep::Apply(_)));
    assert_eq!(reason(&kept), ("Ready", "True"));
}

#[test]
fn a_foreign_namespace_gets_neither_labels_nor_bindings() {
    let plan = plan(&spec(false), &world(Standing::Foreign, &[]));
    assert_eq!(plan.namespace, NamespaceStep::Leave);
    assert!(plan.bindings.is_empty());
    assert_eq!(reason(&plan), ("NamespaceTaken", "False"));
    assert_eq!(plan.phase, TeamPhase::Failed);
}

#[test]
fn the_same_name_with_another_uid_is_somebody_else() {
    let mut earlier = spec(false);
    earlier.uid = "9999".to_owned();
    assert_eq!(
        Standing::of(Some(&namespace(&earlier)), "1234"),
        Standing::Foreign
    );
}

#[test]
fn deleting_waits_for_clusters_and_names_them() {
    let clusters = ["a", "b", "c", "d", "e", "f"];
    let plan = plan(&spec(true), &world(ours(), &clusters));
    assert!(!plan.release);
    assert_eq!(plan.namespace, NamespaceStep::Leave);
    assert!(
        !plan.bindings.is_empty(),
        "people keep their access meanwhile"
    );
    assert!(
        plan.verdicts[0]
            .message
            .ends_with("a, b, c, d, e and 1 more")
    );
}

#[test]
fn deleting_takes_the_namespace_then_lets_the_team_go() {
    assert_eq!(
        plan(&spec(true), &world(ours(), &[])).namespace,
        NamespaceStep::Delete
    );
    assert!(!plan(&spec(true), &world(Standing::Ending, &[])).release);
    assert!(plan(&spec(true), &world(Standing::Missing, &[])).release);
    assert!(
        plan(&spec(true), &world(Standing::Foreign, &[])).release,
        "not ours to delete"
    );
}
