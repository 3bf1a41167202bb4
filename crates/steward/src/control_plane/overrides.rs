//! Resources that are kept in another store than the rest.
//!
//! An API server has one client certificate for all of its stores, and one prefix. So another store can be used exactly
//! when it has the same authority: then the tenant has the same name there, and a user that is limited to the same prefix.
//! With any other authority, one of the two stores would have to trust the other's; that is refused.

use std::collections::BTreeSet;

use super::{Controller, Error, progress::Progress};
use crate::{
    data_store::{self, Store},
    spec::{ControlPlane, DataStoreChoice},
    store::{Identity, setup},
    workload::StoreOverride,
};

impl Controller {
    /// The tenant has a place in every store that its spec names; none while it has not. `set_up` says that the places
    /// have yet to be made: they are never moved.
    pub(super) async fn overrides(
        &self,
        spec: &ControlPlane,
        (name, store): (&str, &Store),
        identity: &Identity,
        set_up: bool,
        progress: &mut Progress,
    ) -> Result<Option<Vec<StoreOverride>>, Error> {
        const STAGE: &str = "StoreReady";
        let mut found = Vec::new();
        for (resource, other) in &spec.data_store.overrides {
            let Some(entry) = self.directory.get(other) else {
                let message = format!(
                    "there is no DataStore {other}, which spec.dataStoreOverrides names for {resource}"
                );
                progress.stopped(STAGE, "StoreNotFound", message);
                return Ok(None);
            };
            let Some(usable) = entry.store.filter(|_| entry.verdict.is_ready()) else {
                let message = format!("DataStore {other}: {}", entry.verdict.message);
                progress.stopped(STAGE, entry.verdict.reason.as_str(), message);
                return Ok(None);
            };
            if entry.closing && set_up {
                let message = format!(
                    "DataStore {other} is being deleted, which spec.dataStoreOverrides names for {resource}"
                );
                progress.stopped(STAGE, "StoreDeleting", message);
                return Ok(None);
            }
            if let Err((reason, message)) = judge(spec, (name, store), (other, &usable)) {
                progress.stopped(STAGE, reason, message);
                return Ok(None);
            }
            if set_up {
                let tenancy = data_store::tenancy(usable.tenancy);
                setup::ensure(&usable.session, identity, tenancy).await?;
            }
            let endpoints = usable.endpoints.iter();
            found.push(StoreOverride {
                resource: resource.clone(),
                endpoints: endpoints.map(|host| format!("https://{host}")).collect(),
            });
        }
        Ok(Some(found))
    }

    /// The stores that hold something of a tenant, each once.
    pub(super) fn stores_of(choice: &DataStoreChoice, main: String) -> BTreeSet<String> {
        let others = choice.overrides.iter();
        others
            .map(|(_, store)| store.clone())
            .chain([main])
            .collect()
    }
}

/// Whether another store can be used beside the main one; why not, in a word and a sentence.
fn judge(
    spec: &ControlPlane,
    (name, store): (&str, &Store),
    (other, found): (&str, &Store),
) -> Result<(), (&'static str, String)> {
    let namespace = &spec.identity.namespace;
    let allowed = &found.allowed_namespaces;
    if !allowed.is_empty() && !allowed.contains(namespace) {
        let message = format!(
            "DataStore {other} is not for namespace {namespace}; add it to spec.allowedNamespaces there"
        );
        return Err(("NamespaceNotAllowed", message));
    }
    if found.authority.certificate() != store.authority.certificate() {
        let message = format!(
            "DataStore {other} has another certificate authority than DataStore {name}: an API server signs in to all of \
             its stores with one certificate, so stores that are used together must have the same"
        );
        return Err(("AuthoritiesDiffer", message));
    }
    Ok(())
}
