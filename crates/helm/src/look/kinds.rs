//! How objects of a kind are addressed: their plural, and whether they live in namespaces.

use std::{collections::HashMap, sync::Mutex};

use butler_addons::{manifest::ObjectId, request::ReleaseId};
use butler_runtime::{
    error::{ApiError, is_not_found},
    sync::lock,
};
use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
    discovery::{Scope, pinned_kind},
};

/// Groups whose kinds every API server serves itself.
const BUILT_IN: [&str; 11] = [
    "",
    "apps",
    "batch",
    "autoscaling",
    "policy",
    "rbac.authorization.k8s.io",
    "networking.k8s.io",
    "apiextensions.k8s.io",
    "admissionregistration.k8s.io",
    "apiregistration.k8s.io",
    "storage.k8s.io",
];

/// What was found out. Only kinds of Kubernetes itself are kept, which are the same everywhere: what one tenant says
/// about a kind of its own must not decide for another.
#[derive(Default)]
pub struct Kinds {
    known: Mutex<HashMap<GroupVersionKind, (ApiResource, bool)>>,
}

impl Kinds {
    /// Where an object of a release is found; nothing where its kind is not known to the cluster.
    pub(crate) async fn api(
        &self,
        client: &Client,
        release: &ReleaseId,
        id: &ObjectId,
    ) -> Result<Option<Api<DynamicObject>>, ApiError> {
        let Some((resource, namespaced)) = self.find(client, id).await? else {
            return Ok(None);
        };
        let namespace = id.namespace.as_deref().unwrap_or(&release.namespace);
        Ok(Some(if namespaced {
            Api::namespaced_with(client.clone(), namespace, &resource)
        } else {
            Api::all_with(client.clone(), &resource)
        }))
    }

    async fn find(
        &self,
        client: &Client,
        id: &ObjectId,
    ) -> Result<Option<(ApiResource, bool)>, ApiError> {
        let (group, version) = id
            .api_version
            .split_once('/')
            .unwrap_or(("", &id.api_version));
        let gvk = GroupVersionKind::gvk(group, version, &id.kind);
        if let Some(known) = lock(&self.known).get(&gvk) {
            return Ok(Some(known.clone()));
        }
        let (resource, capabilities) = match pinned_kind(client, &gvk).await {
            Ok(found) => found,
            Err(error) if is_not_found(&error) || matches!(error, kube::Error::Discovery(_)) => {
                return Ok(None);
            }
            Err(error) => return Err(ApiError::of("find", "kind", &id.kind)(error)),
        };
        let found = (resource, capabilities.scope == Scope::Namespaced);
        if BUILT_IN.contains(&group) {
            lock(&self.known).insert(gvk, found.clone());
        }
        Ok(Some(found))
    }
}
