//! The first stage: a store that is there, may be used, and has a place for the tenant.

use std::sync::Arc;

use butler_api::steward::{TenantControlPlane, tenant_control_plane::status::StorageSetup};
use butler_runtime::conditions::Verdict;
use k8s_openapi::api::core::v1::Service;

use super::{Controller, Error, progress::Progress, report::Facts};
use crate::{
    data_store::{self, Store},
    spec::{ControlPlane, DataStoreChoice, Identity},
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
        let name = self.store_name(raw, &spec.data_store);
        tell_of_move(&name, &spec.data_store, progress);
        let Some(entry) = self.directory.get(&name) else {
            if self.feeds.stores.get(None, &name).is_some() {
                // After a start the stores are looked at first; their change brings us back.
                progress.hold();
            } else {
                let instead = match kept_in(raw) {
                    Some(_) => "the control plane has its data there, so bring it back",
                    None => "make it, or name another in spec.dataStore",
                };
                let message = format!("there is no DataStore {name}; {instead}");
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
        let identity = identity(raw, &spec.identity, &spec.data_store, &name)?;
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

    /// What was recorded wins: data does not move because a default changed, nor because another name is asked for.
    pub(super) fn store_name(&self, raw: &TenantControlPlane, choice: &DataStoreChoice) -> String {
        let asked = || choice.name.clone();
        let name = kept_in(raw).map(str::to_owned).or_else(asked);
        name.unwrap_or_else(|| self.settings.default_store.clone())
    }
}

/// Says so where another store is asked for than the one that has the data.
fn tell_of_move(name: &str, choice: &DataStoreChoice, progress: &mut Progress) {
    let Some(asked) = choice.name.as_deref().filter(|asked| *asked != name) else {
        return;
    };
    let message = format!(
        "the data is in DataStore {name} and is served from there; moving it to {asked} is not supported: set spec.dataStore back to {name}"
    );
    progress.also(Verdict::no(
        "StoreAsWanted",
        "MigrationNotSupported",
        message,
    ));
}

/// The tenant's names in its store; those that were recorded count only for the store they were recorded in.
pub(super) fn identity(
    raw: &TenantControlPlane,
    identity: &Identity,
    choice: &DataStoreChoice,
    store: &str,
) -> Result<store::Identity, Error> {
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
        schema: choice.schema.clone(),
        user: choice.username.clone(),
    };
    let found = store::Identity::of(owner, &recorded, &asked);
    found.map_err(|error| Error::Store(error.into()))
}

/// The store that has the data, as it was reported.
fn kept_in(raw: &TenantControlPlane) -> Option<&str> {
    data_store::users::store_of(raw)
}

/// What was set up in this store, as it was reported.
pub(super) fn recorded(raw: &TenantControlPlane, store: &str) -> Option<StorageSetup> {
    let storage = raw.status.as_ref()?.storage.as_ref()?;
    let same = storage.data_store_name.as_deref() == Some(store);
    storage.setup.clone().filter(|_| same)
}
