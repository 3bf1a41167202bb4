//! The first stage: a store that is there, may be used, and has a place for the tenant.

use std::sync::Arc;

use butler_api::steward::{TenantControlPlane, tenant_control_plane::status::StorageSetup};
use k8s_openapi::api::core::v1::Service;

use super::{Controller, Error, progress::Progress, report::Facts};
use crate::{
    data_store::{self, Store},
    spec::ControlPlane,
    store::{self, setup},
    workload::StoreOverride,
};

/// A tenant's place among the stores.
pub(super) struct Placed {
    pub(super) store: Arc<Store>,
    pub(super) identity: store::Identity,
    /// Resources that are kept elsewhere.
    pub(super) overrides: Vec<StoreOverride>,
    /// The Service, if it was made meanwhile.
    pub(super) service: Option<Arc<Service>>,
}

impl Controller {
    /// The store is there, may be used, and has a place for the tenant.
    pub(super) async fn store(
        &self,
        raw: &TenantControlPlane,
        spec: &ControlPlane,
        progress: &mut Progress,
        facts: &mut Facts,
    ) -> Result<Option<Placed>, Error> {
        const STAGE: &str = "StoreReady";
        let name = self.store_name(raw, spec);
        let Some(entry) = self.directory.get(&name) else {
            if self.feeds.stores.get(None, &name).is_some() {
                // After a start the stores are looked at first; their change brings us back.
                progress.hold();
            } else {
                let message = format!(
                    "there is no DataStore {name}; make it, or name another in spec.dataStore"
                );
                progress.stopped(STAGE, "StoreNotFound", message);
            }
            return Ok(None);
        };
        let Some(store) = entry.store.filter(|_| entry.verdict.is_ready()) else {
            let message = format!("DataStore {name}: {}", entry.verdict.message);
            progress.stopped(STAGE, entry.verdict.reason.as_str(), message);
            return Ok(None);
        };
        if entry.closing && recorded(raw, &name).is_none() {
            let message =
                format!("DataStore {name} is being deleted; name another in spec.dataStore");
            progress.stopped(STAGE, "StoreDeleting", message);
            return Ok(None);
        }
        let namespace = &spec.identity.namespace;
        if !store.allowed_namespaces.is_empty() && !store.allowed_namespaces.contains(namespace) {
            let message = format!(
                "DataStore {name} is not for namespace {namespace}; add it to spec.allowedNamespaces there"
            );
            progress.stopped(STAGE, "NamespaceNotAllowed", message);
            return Ok(None);
        }
        let identity = identity(raw, spec, &name)?;
        let new =
            recorded(raw, &name).and_then(|setup| setup.checksum) != Some(identity.checksum());
        // Before the main place, which is what gets recorded.
        let overrides = self
            .overrides(spec, (&name, &store), &identity, new, progress)
            .await?;
        let Some(overrides) = overrides else {
            return Ok(None);
        };
        let mut service = None;
        if new {
            // A load balancer takes its time to give an address, and so does a store.
            let tenancy = data_store::tenancy(store.tenancy);
            let place = setup::ensure(&store.session, &identity, tenancy);
            let (placed, made) = tokio::join!(place, self.service(spec));
            placed?;
            service = made?;
        }
        progress.passed(STAGE, "Ready", format!("has a place in DataStore {name}"));
        facts.store = Some((name, identity.clone()));
        facts.usage = self.figures.tenant(&spec.identity.uid).news;
        Ok(Some(Placed {
            store,
            identity,
            overrides,
            service,
        }))
    }

    /// What was recorded wins: data does not move because a default changed.
    pub(super) fn store_name(&self, raw: &TenantControlPlane, spec: &ControlPlane) -> String {
        let recorded = raw
            .status
            .as_ref()
            .and_then(|status| status.storage.as_ref());
        spec.data_store
            .name
            .clone()
            .or_else(|| recorded.and_then(|storage| storage.data_store_name.clone()))
            .unwrap_or_else(|| self.settings.default_store.clone())
    }
}

/// The tenant's names in its store; those that were recorded count only for the store they were recorded in.
pub(super) fn identity(
    raw: &TenantControlPlane,
    spec: &ControlPlane,
    store: &str,
) -> Result<store::Identity, Error> {
    let identity = &spec.identity;
    let owner = store::Owner {
        namespace: identity.namespace.clone(),
        name: identity.name.clone(),
        uid: identity.uid.clone(),
    };
    let setup = recorded(raw, store).unwrap_or_default();
    let recorded = store::Chosen {
        schema: setup.schema,
        user: setup.user,
    };
    let asked = store::Chosen {
        schema: spec.data_store.schema.clone(),
        user: spec.data_store.username.clone(),
    };
    let found = store::Identity::of(owner, &recorded, &asked);
    found.map_err(|error| Error::Store(error.into()))
}

/// What was set up in this store, as it was reported.
pub(super) fn recorded(raw: &TenantControlPlane, store: &str) -> Option<StorageSetup> {
    let storage = raw.status.as_ref()?.storage.as_ref()?;
    let same = storage.data_store_name.as_deref() == Some(store);
    storage.setup.clone().filter(|_| same)
}
