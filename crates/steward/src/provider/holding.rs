//! Lets a hosted control plane stand still, and takes over one that a move restored here: the writes that follow from
//! [`custody`].

use butler_api::{controlplane::StewardControlPlane, steward::TenantControlPlane};
use butler_runtime::error::ApiError;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{Controller, FIELD_MANAGER, custody, is_ours};
use crate::names;

impl Controller {
    /// The hosted control plane stands still as long as its Cluster is paused.
    pub(super) async fn hold(&self, raw: &StewardControlPlane) -> Result<(), ApiError> {
        let tenant = self.tenant(raw).await?;
        let Some(tenant) = tenant.filter(|tenant| is_ours(tenant, raw)) else {
            return Ok(());
        };
        if custody::is_held(&tenant) || custody::is_leaving(&*tenant) {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "uid": tenant.metadata.uid,
            "annotations": {names::WORKED_ON_FOR: custody::NOBODY},
        }});
        self.patch_tenant("hold", &tenant, &patch).await
    }

    /// A copy that was restored here belongs to the mover, field by field, until its spec is made ours.
    pub(super) async fn take_over(&self, live: &TenantControlPlane) -> Result<(), ApiError> {
        let (namespace, name) = (live.namespace().unwrap_or_default(), live.name_any());
        let api: Api<TenantControlPlane> =
            Api::namespaced(self.applier.client().clone(), &namespace);
        // Watches leave the managers of fields out.
        let found = api.get_metadata_opt(&name).await;
        let found = found.map_err(ApiError::of("get", "TenantControlPlane", &name))?;
        let Some(metadata) = found.map(|found| found.metadata) else {
            return Ok(());
        };
        let fields = metadata.managed_fields.unwrap_or_default();
        let Some(next) = custody::taken_over(&fields, FIELD_MANAGER) else {
            return Ok(());
        };
        let patch = json!({"metadata": {
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "managedFields": next,
        }});
        self.patch_tenant("take over", live, &patch).await
    }

    async fn patch_tenant(
        &self,
        verb: &'static str,
        tenant: &TenantControlPlane,
        patch: &Value,
    ) -> Result<(), ApiError> {
        let (namespace, name) = (tenant.namespace().unwrap_or_default(), tenant.name_any());
        let api: Api<TenantControlPlane> =
            Api::namespaced(self.applier.client().clone(), &namespace);
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = api
            .patch_metadata(&name, &params, &Patch::Merge(patch))
            .await;
        patched.map_err(ApiError::of(verb, "TenantControlPlane", &name))?;
        Ok(())
    }
}
