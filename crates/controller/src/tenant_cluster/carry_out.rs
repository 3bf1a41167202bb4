//! Carrying out a plan: whole objects by server-side apply, and nothing sent that stands already.

use std::collections::BTreeMap;

use butler_capi::{Object, ObjectId, core::INFRASTRUCTURE, provider::Kinds};
use butler_runtime::{
    apply::{Applier, Target},
    error::{ApiError, is_not_found},
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use super::observe;

/// Objects as they stand, by what they are.
pub(super) type Standing = BTreeMap<ObjectId, Value>;

/// Kinds that a deletion waits for.
pub(super) const WAITED_FOR: [(&str, &str); 4] = [
    (
        "controlplane.cluster.x-k8s.io/v1alpha1",
        "StewardControlPlane",
    ),
    ("cluster.x-k8s.io/v1beta2", "Cluster"),
    ("cluster.x-k8s.io/v1beta2", "MachineDeployment"),
    ("cluster.x-k8s.io/v1beta2", "Machine"),
];

/// One tenant namespace, read and written.
pub(super) struct Place<'a> {
    pub(super) applier: &'a Applier,
    pub(super) namespace: &'a str,
    /// Where the `TenantCluster` is, and its addons beside it.
    pub(super) home: &'a str,
}

impl Place<'_> {
    /// Sends an object unless all of it stands.
    pub(super) async fn apply(
        &self,
        object: &Object,
        live: Option<&Value>,
    ) -> Result<(), ApiError> {
        let id = object.id();
        let (kind, namespace) = self.place(&id.api_version, &id.kind);
        let target = Target::new(&kind, namespace, &id.name, object.to_value());
        self.applier.apply_body(&target, live).await.map(drop)
    }

    /// Has Cluster API go on with what was paused.
    pub(super) async fn resume(&self, id: &ObjectId) -> Result<(), ApiError> {
        let change = Patch::Merge(json!({"spec": {"paused": false}}));
        let api = self.api(&id.api_version, &id.kind);
        match api.patch(&id.name, &PatchParams::default(), &change).await {
            Err(error) if !is_not_found(&error) => {
                Err(ApiError::of("resume", &id.kind, &id.name)(error))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Deletes exactly the object that was seen.
    pub(super) async fn delete(&self, id: &ObjectId, live: Option<&Value>) -> Result<(), ApiError> {
        let uid = live.and_then(observe::uid);
        let parameters = DeleteParams {
            preconditions: uid.map(|uid| Preconditions {
                uid: Some(uid),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        let api = self.api(&id.api_version, &id.kind);
        match api.delete(&id.name, &parameters).await {
            Err(error) if !is_not_found(&error) => {
                Err(ApiError::of("delete", &id.kind, &id.name)(error))
            }
            Ok(_) | Err(_) => {
                tracing::info!(kind = id.kind, name = id.name, "deleted");
                Ok(())
            }
        }
    }

    /// Objects of a provider's kinds, which are not watched: there are too many providers.
    pub(super) async fn infrastructure(&self, kinds: Kinds) -> Result<Vec<Value>, ApiError> {
        let version = format!("{INFRASTRUCTURE}/{}", kinds.version);
        let mut found = Vec::new();
        for kind in kinds.all() {
            found.extend(self.list(&version, kind).await?);
        }
        Ok(found)
    }

    /// Everything of a kind that is here now. A kind that nobody installed has no objects.
    pub(super) async fn list(&self, api_version: &str, kind: &str) -> Result<Vec<Value>, ApiError> {
        let api = self.api(api_version, kind);
        let listed = match api.list(&ListParams::default()).await {
            Err(error) if is_not_found(&error) => return Ok(Vec::new()),
            listed => listed.map_err(ApiError::of("list", kind, self.namespace))?,
        };
        let described = listed.items.into_iter().map(|mut object| {
            object.metadata.managed_fields = None;
            let value = serde_json::to_value(object).unwrap_or_default();
            observe::described(value, api_version, kind)
        });
        Ok(described.collect())
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let client = self.applier.client().clone();
        let (kind, namespace) = self.place(api_version, kind);
        let resource = ApiResource::from_gvk(&kind);
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        }
    }

    /// Everything but the namespace itself and addons is in it.
    fn place(&self, api_version: &str, kind: &str) -> (GroupVersionKind, Option<&str>) {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let namespace = match kind {
            "Namespace" => None,
            "TenantAddon" => Some(self.home),
            _ => Some(self.namespace),
        };
        (GroupVersionKind::gvk(group, version, kind), namespace)
    }
}

/// By what they are.
pub(super) fn index(objects: Vec<Value>) -> Standing {
    let named = objects
        .into_iter()
        .map(|object| (observe::id(&object), object));
    named.collect()
}
