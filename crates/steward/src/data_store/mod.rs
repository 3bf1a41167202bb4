//! `DataStore`: looks at each store now and then, says how it is and who uses it, and keeps the connection
//! that all its tenants share.

mod directory;
mod resolve;

use std::{collections::HashMap, sync::Arc, time::Duration};

use butler_api::steward::{
    DataStore, TenantControlPlane,
    data_store::{DataStoreStatus, Tenancy},
};
use butler_runtime::{
    apply::Applier,
    clock::SharedClock,
    conditions::{self, Verdict},
    controller::{Reconciler, Wake},
    error::{ApiError, Classify, chain},
    status,
    watch::{Change, Feed},
};
pub use directory::{Directory, Entry, Store};
use futures::{StreamExt, future};
use kube::{Client, ResourceExt, runtime::reflector::ObjectRef};
use resolve::resolve;

use crate::{
    names,
    store::{self, Sessions, health, setup},
};

/// How often a store that nothing is told about is looked at: a Secret that was renewed is noticed by then.
const LOOK: Duration = Duration::from_mins(1);

/// Reconciles stores.
pub struct Controller {
    pub(crate) applier: Applier,
    pub(crate) clock: SharedClock,
    pub(crate) directory: Arc<Directory>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) control_planes: Arc<Feed<TenantControlPlane>>,
}

impl Controller {
    pub(crate) fn new(
        client: &Client,
        clock: SharedClock,
        directory: Arc<Directory>,
        control_planes: Arc<Feed<TenantControlPlane>>,
    ) -> Self {
        Self {
            applier: Applier::new(client.clone(), names::FIELD_MANAGER),
            clock,
            directory,
            sessions: Arc::default(),
            control_planes,
        }
    }

    /// Forgets stores that are deleted, for as long as it is polled: a controller is not told of what is gone.
    pub(crate) fn forget_gone(&self, stores: &Feed<DataStore>) -> impl Future<Output = ()> + use<> {
        let (directory, sessions) = (Arc::clone(&self.directory), Arc::clone(&self.sessions));
        stores.subscribe().for_each(move |change| {
            if let Change::Gone(store) = change {
                directory.forget(&store.name_any());
                sessions.forget(&store.name_any());
            }
            future::ready(())
        })
    }

    /// Reads the store's settings and asks it how it is.
    async fn look(&self, raw: &DataStore) -> Entry {
        let resolved = match resolve(self.applier.client(), raw).await {
            Ok(resolved) => resolved,
            Err(error) => return unusable(&error),
        };
        let session = match self.sessions.get(&resolved.settings) {
            Ok(session) => session,
            Err(error) => return unusable(&error),
        };
        let report = health::probe(&session).await;
        let verdict = health::judge(&report, tenancy(raw.spec.tenancy));
        let store = Store {
            session,
            authority: resolved.authority,
            endpoints: raw.spec.endpoints.clone(),
            allowed_namespaces: raw.spec.allowed_namespaces.clone(),
            tenancy: raw.spec.tenancy,
            deletion_policy: raw.spec.deletion_policy,
            fingerprint: resolved.settings.fingerprint(),
        };
        Entry {
            store: Some(Arc::new(store)),
            verdict,
        }
    }

    fn used_by(&self, name: &str) -> Vec<String> {
        let uses = |plane: &TenantControlPlane| {
            let storage = plane
                .status
                .as_ref()
                .and_then(|status| status.storage.as_ref());
            storage.and_then(|storage| storage.data_store_name.as_deref()) == Some(name)
        };
        let mut found: Vec<String> = self
            .control_planes
            .store()
            .state_filter(uses)
            .iter()
            .map(|plane| butler_runtime::apply::full_name(&**plane))
            .collect();
        found.sort();
        found
    }
}

impl Reconciler for Controller {
    type Object = DataStore;
    type Error = ApiError;
    const NAME: &'static str = "datastore";

    async fn reconcile(&self, raw: Arc<DataStore>) -> Result<Wake, ApiError> {
        let name = raw.name_any();
        let entry = self.look(&raw).await;
        let verdict = condition(&entry.verdict);
        self.directory.put(&name, entry);
        let held = raw.status.as_ref();
        let conditions = held
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let generation = raw.metadata.generation;
        let next = DataStoreStatus {
            observed_generation: generation,
            conditions: conditions::settle(conditions, &[verdict], generation, self.clock.now()),
            used_by: self.used_by(&name),
        };
        status::report(&self.applier, &*raw, held, &next).await?;
        Ok(Wake::After(LOOK))
    }
}

/// The stores that won or lost a user by this change; `used` is who used what before it.
pub(crate) fn moved(
    used: &mut HashMap<ObjectRef<TenantControlPlane>, ObjectRef<DataStore>>,
    change: &Change<TenantControlPlane>,
) -> Vec<ObjectRef<DataStore>> {
    let plane = ObjectRef::from_obj(&**change.object());
    let now = match change {
        Change::Present(object) => store_of(object),
        Change::Gone(_) => None,
    };
    let before = match &now {
        Some(store) => used.insert(plane, store.clone()),
        None => used.remove(&plane),
    };
    if before == now {
        return Vec::new();
    }
    before.into_iter().chain(now).collect()
}

/// The store that holds a control plane's data.
pub(crate) fn store_of(plane: &TenantControlPlane) -> Option<ObjectRef<DataStore>> {
    let storage = plane.status.as_ref()?.storage.as_ref()?;
    storage.data_store_name.as_deref().map(ObjectRef::new)
}

/// The words of the API for whether tenants share a store.
pub(crate) fn tenancy(tenancy: Tenancy) -> setup::Tenancy {
    match tenancy {
        Tenancy::Shared => setup::Tenancy::Shared,
        Tenancy::Dedicated => setup::Tenancy::Dedicated,
    }
}

fn unusable(error: &(impl Classify + 'static)) -> Entry {
    Entry {
        store: None,
        verdict: health::Verdict {
            reason: health::Reason::CredentialsRefused,
            message: chain(error),
        },
    }
}

fn condition(verdict: &store::health::Verdict) -> Verdict {
    if verdict.is_ready() {
        Verdict::yes("Ready", verdict.reason.as_str(), verdict.message.clone())
    } else {
        Verdict::no("Ready", verdict.reason.as_str(), verdict.message.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plane(store: Option<&str>) -> Arc<TenantControlPlane> {
        let plane = json!({
            "apiVersion": "steward.butlerlabs.dev/v1alpha1",
            "kind": "TenantControlPlane",
            "metadata": {"name": "blue", "namespace": "tenants"},
            "spec": {"controlPlane": {"service": {"serviceType": "ClusterIP"}}, "kubernetes": {"version": "v1.35.4"}},
            "status": {"storage": {"dataStoreName": store}},
        });
        Arc::new(serde_json::from_value(plane).unwrap())
    }

    #[test]
    fn a_store_is_told_of_users_that_come_and_go_and_of_nothing_else() {
        let mut used = HashMap::new();
        let mut told = |change| {
            let stores = moved(&mut used, &change);
            stores
                .into_iter()
                .map(|store| store.name)
                .collect::<Vec<_>>()
        };
        assert!(told(Change::Present(plane(None))).is_empty());
        assert_eq!(told(Change::Present(plane(Some("a")))), ["a"]);
        assert!(told(Change::Present(plane(Some("a")))).is_empty());
        assert_eq!(told(Change::Present(plane(Some("b")))), ["a", "b"]);
        assert_eq!(told(Change::Gone(plane(Some("b")))), ["b"]);
    }
}
