//! The way into a tenant cluster, for one look or one word.

use butler_capi::{
    names::Identity,
    plan::inside::{Held, Holder, Inside, held},
};
use butler_runtime::error::{ApiError, chain, is_not_found};
use butler_steward::{
    names::Part,
    tenant::client::{ClientError, connect},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{PersistentVolume, PersistentVolumeClaim, Service},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, ListParams, Preconditions},
};
use serde::de::DeserializeOwned;

use super::Controller;
use crate::tenant_addresses::services;

/// Why a tenant cluster could not be asked or told.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreached {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Controller {
    /// Nothing while Steward has written no kubeconfig.
    pub(super) async fn inside(&self, identity: &Identity) -> Result<Option<Client>, Unreached> {
        let (management, place) = (self.applier.client(), identity.tenant_namespace());
        let name = Part::AdminKubeconfig.name(identity.cluster());
        let held = services::kubeconfig_in(management, self.reach, &place, &name).await?;
        match held {
            Some((_, kubeconfig)) => Ok(Some(connect(&kubeconfig).await?)),
            None => Ok(None),
        }
    }

    /// What inside a cluster holds something outside of its machines. One without a kubeconfig never worked.
    pub(super) async fn look_inside(&self, identity: &Identity) -> Inside {
        match self.held_inside(identity).await {
            Ok(held) => Inside::Seen(held),
            Err(unreached) => Inside::Silent(chain(&unreached)),
        }
    }

    async fn held_inside(&self, identity: &Identity) -> Result<Vec<Held>, Unreached> {
        let Some(tenant) = self.inside(identity).await? else {
            return Ok(Vec::new());
        };
        let (all, name) = (ListParams::default(), identity.cluster());
        let balanced = ListParams::default().fields("spec.type=LoadBalancer");
        let services = Api::<Service>::all(tenant.clone());
        let services = services.list(&balanced).await;
        let services = services.map_err(ApiError::of("list", "Services of", name))?;
        let volumes = Api::<PersistentVolume>::all(tenant.clone());
        let volumes = volumes.list(&all).await;
        let volumes = volumes.map_err(ApiError::of("list", "PersistentVolumes of", name))?;
        let claims = Api::<PersistentVolumeClaim>::all(tenant);
        let claims = claims.list(&all).await;
        let claims = claims.map_err(ApiError::of("list", "PersistentVolumeClaims of", name))?;
        Ok(held(&services.items, &claims.items, &volumes.items))
    }

    /// Asks each to go. Who could not be asked is still there at the next look.
    pub(super) async fn ask_inside(&self, identity: &Identity, asked: &[Held]) {
        if asked.is_empty() {
            return;
        }
        if let Err(unreached) = self.delete_inside(identity, asked).await {
            tracing::warn!(
                error = chain(&unreached),
                "what is inside a cluster could not be asked to go"
            );
        }
    }

    async fn delete_inside(&self, identity: &Identity, asked: &[Held]) -> Result<(), Unreached> {
        let Some(tenant) = self.inside(identity).await? else {
            return Ok(());
        };
        for held in asked {
            match held.kind {
                Holder::Service => delete::<Service>(&tenant, held).await?,
                Holder::Claim => delete::<PersistentVolumeClaim>(&tenant, held).await?,
                // Who made it removes it.
                Holder::Volume => {}
            }
            tracing::info!(%held, "asked to go inside the cluster");
        }
        Ok(())
    }
}

/// Deletes exactly what was seen.
async fn delete<K>(tenant: &Client, held: &Held) -> Result<(), ApiError>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let namespace = held.namespace.as_deref().unwrap_or_default();
    let parameters = DeleteParams {
        preconditions: held.uid.clone().map(|uid| Preconditions {
            uid: Some(uid),
            resource_version: None,
        }),
        ..DeleteParams::background()
    };
    let api: Api<K> = Api::namespaced(tenant.clone(), namespace);
    match api.delete(&held.name, &parameters).await {
        Err(error) if !is_not_found(&error) => {
            Err(ApiError::of("delete", &K::kind(&()), &held.name)(error))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}
