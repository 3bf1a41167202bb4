//! Tells infrastructure clusters the address of the control plane, by whatever version of their kind is served.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use butler_api::infrastructure::contract::ApiEndpoint;
use butler_runtime::{
    apply::Applier,
    conditions::Verdict,
    error::{ApiError, is_not_found},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::ApiResource,
    discovery,
};

use super::{
    cluster::{Cluster, Reference},
    infrastructure,
    report::INFRASTRUCTURE,
};

/// Annotation of an infrastructure cluster that something other than its provider looks after.
const MANAGED_BY: &str = "cluster.x-k8s.io/managed-by";

/// What became of it.
pub(super) struct Told {
    pub(super) verdict: Verdict,
    /// Whether nothing has to be looked at again that is not watched.
    pub(super) settled: bool,
}

/// Finds and patches infrastructure clusters.
pub(super) struct Informer {
    client: Client,
    manager: &'static str,
    /// How kinds are served, as far as they were needed.
    served: Mutex<HashMap<String, ApiResource>>,
}

impl Informer {
    pub(super) fn new(applier: &Applier) -> Self {
        Self {
            client: applier.client().clone(),
            manager: applier.manager(),
            served: Mutex::default(),
        }
    }

    /// Writes the address where the kind wants it; nothing where the Cluster names no infrastructure.
    pub(super) async fn tell(
        &self,
        cluster: &Cluster,
        endpoint: &ApiEndpoint,
    ) -> Result<Option<Told>, ApiError> {
        let Some(reference) = &cluster.spec.infrastructure_ref else {
            return Ok(None);
        };
        let Reference {
            kind,
            name,
            api_group,
        } = reference;
        if !infrastructure::is_known(api_group, kind) {
            let message = format!("{kind} {name} is not known to want the address, and left alone");
            return Ok(Some(left("UnknownKind", message)));
        }
        let namespace = cluster.namespace().unwrap_or_default();
        let Some((api, live)) = self.read(reference, &namespace).await? else {
            return Ok(Some(open("NotFound", format!("there is no {kind} {name}"))));
        };
        if live.annotations().contains_key(MANAGED_BY) && !infrastructure::is_finished_here(kind) {
            let message =
                format!("{kind} {name} has the annotation {MANAGED_BY}, and is left alone");
            return Ok(Some(left("ExternallyManaged", message)));
        }
        let change = match infrastructure::change(kind, &live.data, endpoint) {
            Ok(change) => change,
            Err(why) => return Ok(Some(open("Mismatch", format!("{kind} {name}: {why}")))),
        };
        let params = PatchParams {
            field_manager: Some(self.manager.to_owned()),
            ..PatchParams::default()
        };
        if let Some(patch) = change.object {
            let patched = api.patch(name, &params, &Patch::Merge(&patch)).await;
            patched.map_err(ApiError::of("write the address to", kind, name))?;
        }
        if let Some(patch) = change.status {
            let patched = api.patch_status(name, &params, &Patch::Merge(&patch)).await;
            patched.map_err(ApiError::of("report the status of", kind, name))?;
        }
        let message = format!("{kind} {name} knows the address");
        Ok(Some(Told {
            verdict: Verdict::yes(INFRASTRUCTURE, "Patched", message),
            settled: true,
        }))
    }

    async fn read(
        &self,
        reference: &Reference,
        namespace: &str,
    ) -> Result<Option<(Api<DynamicObject>, DynamicObject)>, ApiError> {
        let Some(resource) = self.resource(reference).await? else {
            return Ok(None);
        };
        let Reference { kind, name, .. } = reference;
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &resource);
        let found = api.get_opt(name).await;
        let found = found.map_err(ApiError::of("get", kind, name))?;
        if found.is_none() {
            // It may be served in another version by now.
            self.served().remove(kind);
        }
        Ok(found.map(|live| (api, live)))
    }

    async fn resource(&self, reference: &Reference) -> Result<Option<ApiResource>, ApiError> {
        let Reference {
            kind, api_group, ..
        } = reference;
        if let Some(resource) = self.served().get(kind) {
            return Ok(Some(resource.clone()));
        }
        let group = match discovery::group(&self.client, api_group).await {
            Ok(group) => group,
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => {
                return Err(ApiError::of("find the API of", kind, &reference.name)(
                    error,
                ));
            }
        };
        let found = group.recommended_kind(kind).map(|(resource, _)| resource);
        if let Some(resource) = &found {
            self.served().insert(kind.clone(), resource.clone());
        }
        Ok(found)
    }

    fn served(&self) -> std::sync::MutexGuard<'_, HashMap<String, ApiResource>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It is not for us to tell.
fn left(reason: &'static str, message: String) -> Told {
    Told {
        verdict: Verdict::unknown(INFRASTRUCTURE, reason, message),
        settled: true,
    }
}

/// It has to be looked at again.
fn open(reason: &'static str, message: String) -> Told {
    Told {
        verdict: Verdict::no(INFRASTRUCTURE, reason, message),
        settled: false,
    }
}
