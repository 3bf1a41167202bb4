//! What is the control plane's own, and what only has the name of it: that is left alone, and said.

use butler_runtime::apply::Applicable;
use kube::{Resource, ResourceExt as _};

use super::{Controller, Error};
use crate::{names, spec::Identity};

/// An object of somebody else has a name that the control plane needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) kind: String,
    pub(super) name: String,
}

impl Taken {
    /// The name that this object was to have.
    pub(super) fn of<K: Resource<DynamicType = ()>>(planned: &K) -> Self {
        Self {
            kind: K::kind(&()).into_owned(),
            name: planned.name_any(),
        }
    }
}

impl Controller {
    /// Brings an object to its plan, unless somebody else's has its name. One that is not watched does not carry our label.
    pub(super) async fn own<K: Applicable>(
        &self,
        planned: &K,
        live: Option<&K>,
        identity: &Identity,
    ) -> Result<Result<(), Taken>, Error> {
        let ours = match live {
            None => self.applier.make_new(planned).await?,
            Some(live) if is_ours(live, identity) => {
                self.applier.apply(planned, Some(live)).await?;
                true
            }
            Some(_) => false,
        };
        Ok(ours.then_some(()).ok_or_else(|| Taken::of(planned)))
    }
}

/// Whether an object is the control plane's own.
pub(super) fn is_ours(object: &impl Resource, identity: &Identity) -> bool {
    is_of(object, &identity.name, &identity.uid)
}

/// The same, by name and UID of the control plane. One that lost its owner is known by its labels: an authority must not
/// be taken for a stranger's because somebody edited it.
pub(super) fn is_of(object: &impl Resource, name: &str, uid: &str) -> bool {
    let mut owners = object.owner_references().iter();
    let labelled = |key: &str, value: &str| {
        let held = object.labels().get(key);
        held.is_some_and(|held| held == value)
    };
    match owners.find(|owner| owner.controller == Some(true)) {
        Some(owner) => owner.uid == uid,
        None => labelled(names::PROJECT, names::STEWARD) && labelled(names::NAME, name),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_object_is_known_by_its_controller_and_one_without_by_its_labels() {
        let of = |metadata: Value| {
            let object: Secret = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            is_of(&object, "blue", "1")
        };
        let owner = |uid: &str, controller: bool| json!([{"apiVersion": "x", "kind": "x", "name": "x", "uid": uid, "controller": controller}]);
        let labels = names::labels("blue", "ca");
        assert!(of(json!({"ownerReferences": owner("1", true)})));
        assert!(of(json!({"labels": labels})));
        assert!(of(
            json!({"labels": labels, "ownerReferences": owner("2", false)})
        ));
        assert!(!of(
            json!({"labels": labels, "ownerReferences": owner("2", true)})
        ));
        assert!(!of(json!({"labels": names::labels("green", "ca")})));
        assert!(!of(json!({})));
    }
}
