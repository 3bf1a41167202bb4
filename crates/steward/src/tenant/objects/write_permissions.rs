//! Writes that the tenant cluster refuses for now: an admission policy of its own API server, so that it works without
//! anything else being up, and refuses in every replica as soon as that has read it.
//!
//! What only asks, such as a review of a token, is let through although it is a create. So are the leases by which nodes
//! and controllers show that they live: refusing those would end the controllers, and they hold nothing to keep. The API
//! server itself and Steward write on.

use serde_json::{Value, json};

use super::{Kind, TenantObject};
use crate::tenant::settings::RefusedWrites;

const NAME: &str = "steward-write-permissions";

/// Who Steward is in the tenant cluster, and who the API server is to itself.
const EXEMPT: &str =
    "!(request.userInfo.username in ['kubernetes-super-admin', 'system:apiserver'])";

const NOT_A_SIGN_OF_LIFE: &str = "!(request.resource.group == 'coordination.k8s.io' \
    && request.resource.resource == 'leases' \
    && (request.namespace == 'kube-system' \
        || (request.namespace == 'kube-node-lease' && request.operation == 'UPDATE')))";

pub(super) fn objects(refused: RefusedWrites) -> Vec<TenantObject> {
    let (operations, words) = operations(refused);
    let message = format!(
        "the platform lets nobody {words} anything in this cluster for now (spec.writePermissions of its \
         TenantControlPlane)"
    );
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "resourceRules": rules(&operations, refused),
            "excludeResourceRules": [
                rule(&["authentication.k8s.io", "authorization.k8s.io"], &["*"], &["*/*"]),
                rule(&[""], &["CREATE"], &["serviceaccounts/token"]),
            ],
        },
        "matchConditions": [
            { "name": "not-the-platform-itself", "expression": EXEMPT },
            { "name": "not-a-sign-of-life", "expression": NOT_A_SIGN_OF_LIFE },
        ],
        "validations": [{ "expression": "false", "message": message, "reason": "Forbidden" }],
    });
    let binding = json!({ "policyName": NAME, "validationActions": ["Deny"] });
    vec![
        TenantObject::new(Kind::ValidatingAdmissionPolicy, None, NAME).with("spec", spec),
        TenantObject::new(Kind::ValidatingAdmissionPolicyBinding, None, NAME).with("spec", binding),
    ]
}

/// The operations, and the same in a sentence.
fn operations(refused: RefusedWrites) -> (Vec<&'static str>, String) {
    let RefusedWrites {
        creation,
        update,
        deletion,
    } = refused;
    let all = [
        (creation, "CREATE", "create"),
        (update, "UPDATE", "change"),
        (deletion, "DELETE", "delete"),
    ];
    let on = all.into_iter().filter(|(on, ..)| *on);
    let (names, words): (Vec<_>, Vec<_>) = on.map(|(_, name, word)| (name, word)).unzip();
    (names, words.join(" or "))
}

fn rules(operations: &[&str], refused: RefusedWrites) -> Vec<Value> {
    let mut rules = vec![rule(&["*"], operations, &["*/*"])];
    // An eviction is the creation of something that deletes a pod.
    if refused.deletion && !refused.creation {
        rules.push(rule(&[""], &["CREATE"], &["pods/eviction"]));
    }
    rules
}

fn rule(groups: &[&str], operations: &[&str], resources: &[&str]) -> Value {
    json!({
        "apiGroups": groups,
        "apiVersions": ["*"],
        "operations": operations,
        "resources": resources,
        "scope": "*",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(refused: RefusedWrites) -> Value {
        Value::Object(objects(refused)[0].body.clone())
    }

    #[test]
    fn exactly_the_kinds_of_writes_that_are_named_are_refused() {
        let only_updates = body(RefusedWrites {
            update: true,
            ..RefusedWrites::default()
        });
        let rules = &only_updates["spec"]["matchConstraints"]["resourceRules"];
        assert_eq!(rules[0]["operations"], json!(["UPDATE"]));
        assert_eq!(rules[1], Value::Null);
        let message = only_updates["spec"]["validations"][0]["message"]
            .as_str()
            .unwrap();
        assert!(message.contains("lets nobody change anything"), "{message}");
    }

    #[test]
    fn an_eviction_counts_as_a_deletion() {
        let policy = body(RefusedWrites {
            deletion: true,
            ..RefusedWrites::default()
        });
        let rules = &policy["spec"]["matchConstraints"]["resourceRules"];
        assert_eq!(rules[1]["resources"], json!(["pods/eviction"]));
    }
}
