//! What a control plane no longer wants is removed: by its name among what carries our label, and only where this very
//! control plane owns it. Keys and certificates that every control plane has are never touched here.

use k8s_openapi::api::core::v1::Secret;
use kube::{Resource, ResourceExt as _};

use super::{Controller, Error, owning};
use crate::{names::Part, spec::ControlPlane, workload::Objects};

/// `ConfigMap`s that only some specs have.
const CONFIG_MAPS: [Part; 3] = [
    Part::AuditPolicy,
    Part::Authentication,
    Part::EgressSelector,
];
/// Secrets that only some specs have.
pub(super) const SECRETS: [Part; 4] = [
    Part::AuditWebhook,
    Part::EncryptionConfig,
    Part::EncryptionKeys,
    Part::KonnectivityKubeconfig,
];

impl Controller {
    /// Removes what is not planned. The pods that mounted it are gone.
    pub(super) async fn prune(
        &self,
        spec: &ControlPlane,
        objects: &Objects,
        held: &[Secret],
    ) -> Result<(), Error> {
        let identity = &spec.identity;
        let namespace = Some(identity.namespace.as_str());
        for part in CONFIG_MAPS {
            let name = part.name(&identity.name);
            let planned = objects.config_maps.iter().any(|one| one.name_any() == name);
            let live = self.feeds.config_maps.get(namespace, &name);
            if let Some(live) = live.filter(|live| !planned && is_to_go(&**live, spec)) {
                self.applier.delete(&*live).await?;
            }
        }
        for secret in unwanted(spec, objects, held) {
            self.applier.delete(secret).await?;
        }
        let budget = self.feeds.budgets.get(namespace, &identity.name);
        let unplanned = objects.disruption_budget.is_none();
        if let Some(live) = budget.filter(|live| unplanned && is_to_go(&**live, spec)) {
            self.applier.delete(&*live).await?;
        }
        Ok(())
    }
}

/// Secrets of this control plane that its spec no longer asks for.
fn unwanted<'a>(
    spec: &'a ControlPlane,
    objects: &'a Objects,
    held: &'a [Secret],
) -> impl Iterator<Item = &'a Secret> {
    let encrypted = objects
        .secrets
        .iter()
        .any(|one| one.name_any() == Part::EncryptionConfig.name(&spec.identity.name));
    let wanted = move |part: Part| {
        let name = part.name(&spec.identity.name);
        match part {
            // Keys stay as long as anything may be encrypted with them.
            Part::EncryptionKeys => encrypted,
            Part::KonnectivityKubeconfig => spec.konnectivity.is_some(),
            _ => objects.secrets.iter().any(|one| one.name_any() == name),
        }
    };
    SECRETS
        .into_iter()
        .filter(move |part| !wanted(*part))
        .filter_map(move |part| {
            let name = part.name(&spec.identity.name);
            let ours = |held: &&Secret| held.name_any() == name && is_to_go(*held, spec);
            held.iter().find(ours)
        })
}

/// Whether this very control plane owns an object, which is not on its way out: another of the same name may have been
/// before.
fn is_to_go(object: &impl Resource, spec: &ControlPlane) -> bool {
    object.meta().deletion_timestamp.is_none() && owning::is_ours(object, &spec.identity)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::spec::fixture::plane;

    fn secret(name: &str, uid: &str) -> Secret {
        let owner =
            json!({"apiVersion": "x", "kind": "x", "name": "x", "uid": uid, "controller": true});
        let metadata = json!({"name": name, "ownerReferences": [owner]});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn only_what_this_control_plane_owns_and_no_longer_wants_goes() {
        let spec = plane(&json!({}));
        let objects = crate::workload::tests::objects_of(&spec);
        let held = [
            secret("prod-ca", "5e8c"),
            secret("prod-audit-webhook", "5e8c"),
            secret("prod-encryption", "of-another"),
            secret("prod-encryption-keys", "5e8c"),
            secret("prod-mine", "5e8c"),
        ];
        let gone: Vec<String> = unwanted(&spec, &objects, &held)
            .map(kube::ResourceExt::name_any)
            .collect();
        assert_eq!(gone, ["prod-audit-webhook", "prod-encryption-keys"]);
    }
}
