//! What has to be done so that a tenant cluster becomes what is planned. Pure.

use std::collections::BTreeMap;

use butler_runtime::drift;
use serde_json::Value;

use super::objects::{Kind, ObjectKey, TenantObject, TenantPlan};

/// Objects of ours as they were just read.
pub(super) type Live = BTreeMap<ObjectKey, Value>;

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Send these fields.
    Apply(Value),
    /// Delete what was seen, then send these fields: the difference is in a field that cannot be changed.
    Replace { seen: Seen, body: Value },
    /// Delete what was seen.
    Remove(Seen),
}

/// Exactly the object that was read, not another of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) uid: Option<String>,
}

/// Compares the plan with what was read; what is already so is left out.
pub(super) fn steps<'a>(plan: &'a TenantPlan, live: &Live) -> Vec<Step<'a>> {
    let wanted = plan.objects.iter().filter_map(|object| {
        let action = compare(object, live.get(&object.key))?;
        Some(Step {
            key: &object.key,
            action,
        })
    });
    let unwanted = plan.retired.iter().filter_map(|key| {
        let held = live.get(key)?;
        let leaving = held.pointer("/metadata/deletionTimestamp").is_some();
        (!leaving).then(|| Step {
            key,
            action: Action::Remove(Seen::of(held)),
        })
    });
    wanted.chain(unwanted).collect()
}

/// What to do about one planned object; `None` when it stands.
pub(super) fn compare(object: &TenantObject, held: Option<&Value>) -> Option<Action> {
    let mut body = Value::Object(object.body.clone());
    drift::stamp(&mut body);
    let Some(held) = held else {
        return Some(Action::Apply(body));
    };
    // After the stamp, which so does not depend on what the tenant has there.
    for path in object.kept {
        if let (Some(ours), Some(theirs)) = (body.pointer_mut(path), held.pointer(path)) {
            ours.clone_from(theirs);
        }
    }
    if stands(&body, held) {
        None
    } else if must_be_made_anew(object.key.kind, &body, held) {
        Some(Action::Replace {
            seen: Seen::of(held),
            body,
        })
    } else {
        Some(Action::Apply(body))
    }
}

/// Whether the fields that we own stand in the object, whatever others have beside them.
pub(super) fn stands(planned: &Value, held: &Value) -> bool {
    drift::stands_in(planned, &counterpart(planned, held))
}

/// The object with its lists of named items reduced to the items that are planned.
///
/// The API server merges such lists item by item, so a container, volume or variable that the tenant adds is not taken away
/// by an apply; taken for a difference, it would be applied against for ever.
fn counterpart(planned: &Value, held: &Value) -> Value {
    let (Value::Object(planned), Value::Object(held)) = (planned, held) else {
        return held.clone();
    };
    let field = |(name, held): (&String, &Value)| {
        let held = match (planned.get(name), held) {
            (None, held) => held.clone(),
            (Some(Value::Array(planned)), Value::Array(held)) => {
                Value::Array(counterparts(item_key(name), planned, held))
            }
            (Some(planned), held) => counterpart(planned, held),
        };
        (name.clone(), held)
    };
    Value::Object(held.iter().map(field).collect())
}

fn counterparts(key: &[&str], planned: &[Value], held: &[Value]) -> Vec<Value> {
    if key.is_empty() {
        return held.to_vec();
    }
    let same =
        |planned: &Value, held: &Value| key.iter().all(|part| planned.get(part) == held.get(part));
    let pairs = planned.iter().filter_map(|planned| {
        let held = held.iter().find(|held| same(planned, held))?;
        Some(counterpart(planned, held))
    });
    pairs.collect()
}

/// What tells the items of a list apart; nothing for lists that are one value.
fn item_key(list: &str) -> &'static [&'static str] {
    match list {
        "containers" | "volumes" | "env" => &["name"],
        "volumeMounts" => &["mountPath"],
        "ports" => &["containerPort", "port", "protocol"],
        _ => &[],
    }
}

fn must_be_made_anew(kind: Kind, planned: &Value, held: &Value) -> bool {
    let sealed = held.get("immutable") == Some(&Value::Bool(true));
    let differs = |path: &&str| match (planned.pointer(path), held.pointer(path)) {
        (Some(planned), Some(held)) => !drift::stands_in(planned, held),
        (_, _) => false,
    };
    sealed || kind.fixed_fields().iter().any(differs)
}

impl Seen {
    fn of(held: &Value) -> Self {
        let uid = held.pointer("/metadata/uid").and_then(Value::as_str);
        Self {
            uid: uid.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::objects::{plan, tests::settings},
        *,
    };

    /// A tenant in which everything stands as planned.
    fn settled(plan: &TenantPlan) -> Live {
        let stand = |object: &TenantObject| {
            let mut body = Value::Object(object.body.clone());
            drift::stamp(&mut body);
            body["metadata"]["uid"] = format!("uid of {}", object.key).into();
            (object.key.clone(), body)
        };
        plan.objects.iter().map(stand).collect()
    }

    fn key(kind: Kind, namespace: Option<&str>, name: &str) -> ObjectKey {
        ObjectKey::new(kind, namespace, name)
    }

    #[test]
    fn nothing_is_done_when_everything_stands() {
        let plan = plan(&settings()).unwrap();
        assert_eq!(steps(&plan, &settled(&plan)), []);
    }

    #[test]
    fn an_empty_tenant_gets_everything_once_and_in_order() {
        let plan = plan(&settings()).unwrap();
        let live = Live::new();
        let steps = steps(&plan, &live);
        let sent: Vec<_> = steps.iter().map(|step| step.key).collect();
        assert_eq!(
            sent,
            plan.objects
                .iter()
                .map(|object| &object.key)
                .collect::<Vec<_>>()
        );
        assert!(
            steps
                .iter()
                .all(|step| matches!(step.action, Action::Apply(_)))
        );
    }

    #[test]
    fn the_number_of_name_servers_is_the_tenants_and_their_image_is_ours() {
        let plan = plan(&settings()).unwrap();
        let mut live = settled(&plan);
        let coredns = live
            .get_mut(&key(Kind::Deployment, Some("kube-system"), "coredns"))
            .unwrap();
        coredns["spec"]["replicas"] = 5.into();
        assert_eq!(steps(&plan, &live), []);
        let coredns = live
            .get_mut(&key(Kind::Deployment, Some("kube-system"), "coredns"))
            .unwrap();
        coredns["spec"]["template"]["spec"]["containers"][0]["image"] = "mine".into();
        let steps = steps(&plan, &live);
        let [
            Step {
                action: Action::Apply(body),
                ..
            },
        ] = steps.as_slice()
        else {
            panic!("{steps:?}")
        };
        assert_eq!(body["spec"]["replicas"], 5);
    }

    #[test]
    fn a_container_or_volume_that_the_tenant_adds_is_no_difference_and_a_changed_one_of_ours_is() {
        let plan = plan(&settings()).unwrap();
        let mut live = settled(&plan);
        let coredns = key(Kind::Deployment, Some("kube-system"), "coredns");
        let pod = &mut live.get_mut(&coredns).unwrap()["spec"]["template"]["spec"];
        let containers = pod["containers"].as_array_mut().unwrap();
        containers.insert(0, json!({ "name": "sidecar", "image": "mine" }));
        pod["volumes"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "name": "mine", "emptyDir": {} }));
        assert_eq!(steps(&plan, &live), []);
        let pod = &mut live.get_mut(&coredns).unwrap()["spec"]["template"]["spec"];
        pod["containers"][1]["ports"][0]["containerPort"] = 5353.into();
        assert_eq!(steps(&plan, &live).len(), 1);
    }

    #[test]
    fn a_binding_to_another_role_is_made_anew() {
        let plan = plan(&settings()).unwrap();
        let mut live = settled(&plan);
        let admins = key(Kind::ClusterRoleBinding, None, "kubeadm:cluster-admins");
        live.get_mut(&admins).unwrap()["roleRef"]["name"] = "view".into();
        let steps = steps(&plan, &live);
        assert!(
            matches!(
                steps.as_slice(),
                [Step {
                    action: Action::Replace { .. },
                    ..
                }]
            ),
            "{steps:?}"
        );
    }

    #[test]
    fn a_config_map_that_was_sealed_is_made_anew_only_when_it_differs() {
        let plan = plan(&settings()).unwrap();
        let mut live = settled(&plan);
        let corefile = key(Kind::ConfigMap, Some("kube-system"), "coredns");
        live.get_mut(&corefile).unwrap()["immutable"] = true.into();
        assert_eq!(steps(&plan, &live), []);
        live.get_mut(&corefile).unwrap()["data"]["Corefile"] = "mine".into();
        let steps = steps(&plan, &live);
        assert!(
            matches!(
                steps.as_slice(),
                [Step {
                    action: Action::Replace { .. },
                    ..
                }]
            ),
            "{steps:?}"
        );
    }

    #[test]
    fn signatures_beside_the_kubeconfig_are_no_difference() {
        let plan = plan(&settings()).unwrap();
        let mut live = settled(&plan);
        let info = key(Kind::ConfigMap, Some("kube-public"), "cluster-info");
        live.get_mut(&info).unwrap()["data"]["jws-kubeconfig-abcdef"] = "e..s".into();
        assert_eq!(steps(&plan, &live), []);
    }

    #[test]
    fn an_addon_that_was_turned_off_is_removed_unless_it_is_leaving_already() {
        let mut settings = settings();
        let mut live = settled(&plan(&settings).unwrap());
        settings.kube_proxy = None;
        let plan = plan(&settings).unwrap();
        let removed = |live: &Live| {
            let steps = steps(&plan, live);
            steps
                .iter()
                .filter(|step| matches!(step.action, Action::Remove(_)))
                .count()
        };
        assert_eq!(removed(&live), 6);
        let daemon_set = key(Kind::DaemonSet, Some("kube-system"), "kube-proxy");
        live.get_mut(&daemon_set).unwrap()["metadata"]["deletionTimestamp"] =
            json!("2026-01-01T00:00:00Z");
        assert_eq!(removed(&live), 5);
    }
}
