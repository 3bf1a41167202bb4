use serde_json::json;

use super::*;

fn workload(kind: &str, spec: &Value, status: &Value) -> State {
    assess(&json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": "x", "generation": 2}, "spec": spec, "status": status,
    }))
}

fn is_waiting(state: &State, why: &str) -> bool {
    matches!(state, State::Progressing(said) if said.contains(why))
}

#[test]
fn a_deployment_is_ready_when_every_replica_is_new_and_available() {
    let spec = json!({"replicas": 2});
    let done = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
    assert_eq!(workload("Deployment", &spec, &done), State::Ready);
    for (field, value, why) in [
        ("observedGeneration", 1, "not seen it yet"),
        ("updatedReplicas", 1, "1 of 2 replicas are updated"),
        ("availableReplicas", 1, "1 of 2 replicas are available"),
        ("replicas", 3, "old replicas"),
    ] {
        let mut status = done.clone();
        status[field] = value.into();
        let state = workload("Deployment", &spec, &status);
        assert!(is_waiting(&state, why), "{field}: {state:?}");
    }
    let none = workload(
        "Deployment",
        &json!({"replicas": 0}),
        &json!({"observedGeneration": 2}),
    );
    assert_eq!(none, State::Ready);
}

#[test]
fn a_deployment_past_its_deadline_has_failed_unless_it_was_changed_since() {
    let conditions = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "no luck"}]);
    let late = json!({"observedGeneration": 2, "conditions": conditions});
    assert_eq!(
        workload("Deployment", &json!({}), &late),
        State::Failed("no luck".to_owned())
    );
    let before = json!({"observedGeneration": 1, "conditions": conditions});
    assert!(is_waiting(
        &workload("Deployment", &json!({}), &before),
        "seen"
    ));
}

#[test]
fn stateful_sets_and_daemon_sets_count_what_their_strategy_lets_them_update() {
    let status = json!({"observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": 1});
    let rolling = json!({"replicas": 3});
    assert!(is_waiting(
        &workload("StatefulSet", &rolling, &status),
        "1 of 3 replicas are updated"
    ));
    let part = json!({"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}});
    assert_eq!(workload("StatefulSet", &part, &status), State::Ready);
    let by_hand = json!({"replicas": 3, "updateStrategy": {"type": "OnDelete"}});
    assert_eq!(workload("StatefulSet", &by_hand, &status), State::Ready);
    let daemons = json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 2});
    assert!(is_waiting(
        &workload("DaemonSet", &json!({}), &daemons),
        "2 of 3 nodes"
    ));
}

#[test]
fn other_kinds_have_rules_of_their_own() {
    let of = |kind: &str, api: &str, rest: Value| {
        let mut object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x"}});
        crate::values::lay_over(&mut object, &rest);
        assess(&object)
    };
    assert_eq!(of("ConfigMap", "v1", json!({})), State::Ready);
    assert_eq!(
        of("Service", "v1", json!({"spec": {"type": "ClusterIP"}})),
        State::Ready
    );
    assert!(is_waiting(
        &of("Service", "v1", json!({"spec": {"type": "LoadBalancer"}})),
        "address"
    ));
    let given = json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}});
    assert_eq!(of("Service", "v1", given), State::Ready);
    assert!(is_waiting(
        &of(
            "PersistentVolumeClaim",
            "v1",
            json!({"status": {"phase": "Pending"}})
        ),
        "bound"
    ));
    assert!(is_waiting(
        &of(
            "CustomResourceDefinition",
            "apiextensions.k8s.io/v1",
            json!({})
        ),
        "Established"
    ));
    let failed = json!({"status": {"conditions": [{"type": "Failed", "status": "True", "message": "thrice"}]}});
    assert_eq!(
        of("Job", "batch/v1", failed),
        State::Failed("thrice".to_owned())
    );
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "soon"}]}});
    assert!(is_waiting(
        &of("Certificate", "cert-manager.io/v1", unready),
        "soon"
    ));
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert!(is_waiting(&of("ConfigMap", "v1", going), "deleted"));
}

#[test]
fn a_pod_without_its_image_names_the_image() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
        "status": {"phase": "Pending", "containerStatuses": [
            {"image": "quay.io/a/b:1", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
        ]},
    });
    assert!(is_waiting(
        &assess(&pod),
        "ImagePullBackOff (image quay.io/a/b:1)"
    ));
}

#[test]
fn the_summary_counts_and_names_what_failed_first() {
    let id = |name: &str| ObjectId {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: None,
        name: name.to_owned(),
    };
    let health = Health::of([
        (id("a"), State::Ready),
        (id("b"), State::Missing),
        (id("c"), State::Failed("no".to_owned())),
    ]);
    assert_eq!(health.summary(), "1 of 3 ready; Pod c: no");
    assert!(health.has_failed() && !health.is_ready());
}

#[test]
fn the_rules_of_a_catalogue_judge_kinds_that_nobody_else_knows() {
    let rules = [
        Rule {
            group: "monitoring.coreos.com".to_owned(),
            kind: "Prometheus".to_owned(),
            wants: Wants::Condition("Available".to_owned()),
        },
        Rule {
            group: "operator.victoriametrics.com".to_owned(),
            kind: "VMSingle".to_owned(),
            wants: Wants::Field {
                path: "status.updateStatus".to_owned(),
                equals: "operational".to_owned(),
            },
        },
    ];
    let prometheus = |status: &str| {
        json!({
            "apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus",
            "status": {"conditions": [{"type": "Available", "status": status, "message": "no pods"}]},
        })
    };
    assert_eq!(
        assess(&prometheus("False")),
        State::Ready,
        "by the usual rules"
    );
    assert!(is_waiting(
        &assess_by(&rules, &prometheus("False")),
        "no pods"
    ));
    assert_eq!(assess_by(&rules, &prometheus("True")), State::Ready);
    let single = |status: &str| {
        json!({
            "apiVersion": "operator.victoriametrics.com/v1beta1", "kind": "VMSingle",
            "status": {"updateStatus": status},
        })
    };
    let state = assess_by(&rules, &single("expanding"));
    assert!(
        is_waiting(&state, "is expanding, not operational"),
        "{state:?}"
    );
    assert_eq!(assess_by(&rules, &single("operational")), State::Ready);
    let other = json!({"apiVersion": "example.com/v1", "kind": "Prometheus"});
    assert_eq!(assess_by(&rules, &other), State::Ready, "another group");
}

#[test]
fn what_flux_says_of_the_latest_change_counts_though_it_notes_only_those_that_went_well() {
    let rules = [Rule {
        group: "source.toolkit.fluxcd.io".to_owned(),
        kind: "GitRepository".to_owned(),
        wants: Wants::Condition("Ready".to_owned()),
    }];
    let repository = |status: &str, about: i64| {
        json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": "x", "generation": 2},
            "status": {"observedGeneration": -1, "conditions": [
                {"type": "Ready", "status": status, "observedGeneration": about, "message": "no such token"},
            ]},
        })
    };
    let usual: &dyn Fn(&Value) -> State = &assess;
    let by_rules: &dyn Fn(&Value) -> State = &|object| assess_by(&rules, object);
    for by in [usual, by_rules] {
        assert!(is_waiting(&by(&repository("False", 2)), "no such token"));
        for before in [repository("False", 1), repository("True", 2)] {
            assert!(is_waiting(&by(&before), "has not seen its latest change"));
        }
    }
}
