//! Who uses a store, and how it is told that this changed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use butler_api::steward::{DataStore, TenantControlPlane, data_store::StorageUsage};
use butler_runtime::{
    apply::full_name,
    sync::gather,
    watch::{Change, Feed},
};
use futures::{Stream, StreamExt, stream};
use kube::{ResourceExt, runtime::reflector::ObjectRef};

use crate::store::{Chosen, Identity, Owner};

/// Users that a status names; the others are only counted.
const NAMED: usize = 100;
/// How long changes of users are gathered: a store is not told of each of a thousand new tenants.
const GATHER: Duration = Duration::from_millis(500);

/// The users of one store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Users {
    /// How many.
    pub(super) count: usize,
    /// `namespace/name` of the first of them, in order.
    pub(super) named: Vec<String>,
}

impl Users {
    /// Counts those that have a place in the store.
    pub(super) fn of<'a>(
        store: &str,
        planes: impl IntoIterator<Item = &'a TenantControlPlane>,
    ) -> Self {
        let uses = |plane: &&TenantControlPlane| stores_of(plane).contains(store);
        let names: BTreeSet<String> = planes.into_iter().filter(uses).map(full_name).collect();
        Self {
            count: names.len(),
            named: names.into_iter().take(NAMED).collect(),
        }
    }
}

/// A tenant that has a place in a store.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    /// Its control plane.
    pub(crate) plane: ObjectRef<TenantControlPlane>,
    /// Its names in the store.
    pub(crate) identity: Identity,
    /// No pods of it run.
    pub(crate) asleep: bool,
    /// It is being deleted.
    pub(crate) leaving: bool,
    /// What was last reported of its size.
    pub(crate) usage: Option<StorageUsage>,
    /// All stores that hold something of it.
    pub(crate) stores: BTreeSet<String>,
}

impl Tenant {
    /// UID of its control plane.
    pub(crate) fn uid(&self) -> &str {
        &self.identity.owner().uid
    }

    fn of(plane: &TenantControlPlane) -> Option<Self> {
        let storage = plane.status.as_ref()?.storage.as_ref()?;
        let setup = storage.setup.clone()?;
        let owner = Owner {
            namespace: plane.namespace()?,
            name: plane.name_any(),
            uid: plane.uid()?,
        };
        let recorded = Chosen {
            schema: Some(setup.schema?),
            user: Some(setup.user?),
        };
        Some(Self {
            plane: ObjectRef::from_obj(plane),
            identity: Identity::of(owner, &recorded, &Chosen::default()).ok()?,
            asleep: plane.spec.control_plane.deployment.replicas == 0,
            leaving: plane.metadata.deletion_timestamp.is_some(),
            usage: storage.usage.clone(),
            stores: stores_of(plane).into_iter().map(str::to_owned).collect(),
        })
    }
}

/// All tenants that have a place, by the names of their stores: in each of them they have the same names.
pub(crate) fn tenants(planes: &[Arc<TenantControlPlane>]) -> BTreeMap<String, Vec<Tenant>> {
    let mut stores = BTreeMap::<String, Vec<Tenant>>::new();
    for tenant in planes.iter().filter_map(|plane| Tenant::of(plane)) {
        for store in &tenant.stores {
            stores
                .entry(store.clone())
                .or_default()
                .push(tenant.clone());
        }
    }
    stores
}

/// The store that a control plane has a place in, as was reported.
pub(crate) fn store_of(plane: &TenantControlPlane) -> Option<&str> {
    let storage = plane.status.as_ref()?.storage.as_ref()?;
    storage.data_store_name.as_deref()
}

/// All stores that hold something of a control plane: it has a place in each of them once it has one in the main one.
pub(super) fn stores_of(plane: &TenantControlPlane) -> BTreeSet<&str> {
    let Some(main) = store_of(plane) else {
        return BTreeSet::new();
    };
    let others = plane.spec.data_store_overrides.iter();
    let others = others.map(|other| other.data_store.as_str());
    others.chain([main]).collect()
}

/// Stores that got or lost a user.
pub(crate) fn changes(
    planes: &Feed<TenantControlPlane>,
) -> impl Stream<Item = ObjectRef<DataStore>> + Send + use<> {
    let moves = planes
        .subscribe()
        .scan(HashMap::new(), |places, change| {
            std::future::ready(Some(stream::iter(moved(places, &change))))
        })
        .flatten();
    gather(moves, GATHER).map(|store| ObjectRef::new(&store))
}

/// Where control planes are remembered to have their places.
type Places = HashMap<ObjectRef<TenantControlPlane>, BTreeSet<String>>;

/// The stores that a change is about: none where a control plane stays where it was.
fn moved(places: &mut Places, change: &Change<TenantControlPlane>) -> Vec<String> {
    let key = ObjectRef::from_obj(&**change.object());
    let after: BTreeSet<String> = match change {
        Change::Present(plane) => stores_of(plane).into_iter().map(str::to_owned).collect(),
        Change::Gone(_) => BTreeSet::new(),
    };
    let before = if after.is_empty() {
        places.remove(&key)
    } else {
        places.insert(key, after.clone())
    };
    let before = before.unwrap_or_default();
    before.symmetric_difference(&after).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plane(name: &str, store: Option<&str>) -> TenantControlPlane {
        let mut plane = json!({
            "apiVersion": "steward.butlerlabs.dev/v1alpha1",
            "kind": "TenantControlPlane",
            "metadata": {"namespace": "a", "name": name, "uid": name},
            "spec": {"controlPlane": {"service": {"serviceType": "ClusterIP"}}, "kubernetes": {"version": "v1.35.4"}},
        });
        if let Some(store) = store {
            plane["status"] = json!({"storage": {
                "dataStoreName": store,
                "setup": {"schema": "s", "user": "u"},
            }});
        }
        serde_json::from_value(plane).unwrap()
    }

    #[test]
    fn a_store_with_many_users_names_a_hundred_and_counts_all() {
        let planes: Vec<_> = (0..250)
            .rev()
            .map(|at| plane(&format!("t{at:03}"), Some("one")))
            .chain([plane("elsewhere", Some("two")), plane("nowhere", None)])
            .collect();
        let users = Users::of("one", &planes);
        assert_eq!((users.count, users.named.len()), (250, 100));
        assert_eq!(users.named.first().map(String::as_str), Some("a/t000"));
        assert_eq!(Users::of("three", &planes), Users::default());
    }

    #[test]
    fn a_store_is_told_of_users_that_come_and_go_and_not_of_what_they_do() {
        let mut places = Places::new();
        let mut tell = |change| moved(&mut places, &change);
        let present = |store| Change::Present(Arc::new(plane("x", store)));
        assert_eq!(tell(present(None)), [""; 0]);
        assert_eq!(tell(present(Some("one"))), ["one"]);
        assert_eq!(tell(present(Some("one"))), [""; 0]);
        assert_eq!(tell(present(Some("two"))), ["one", "two"]);
        let gone = Change::Gone(Arc::new(plane("x", Some("two"))));
        assert_eq!(tell(gone.clone()), ["two"]);
        assert_eq!(tell(gone), [""; 0]);
    }

    #[test]
    fn a_store_that_keeps_only_some_resources_is_used_as_well() {
        let mut events = plane("x", Some("one"));
        let other = json!([{"resource": "/events", "dataStore": "two"}]);
        events.spec.data_store_overrides = serde_json::from_value(other).unwrap();
        assert_eq!(Users::of("two", [&events]).named, ["a/x"]);
        let events = Arc::new(events);
        let told = moved(&mut Places::new(), &Change::Present(Arc::clone(&events)));
        assert_eq!(told, ["one", "two"]);
        let stores = tenants(&[events]);
        assert_eq!(stores["one"][0].identity, stores["two"][0].identity);
    }

    #[test]
    fn tenants_are_found_by_what_was_recorded() {
        let planes = [plane("x", Some("one")), plane("y", None)].map(Arc::new);
        let stores = tenants(&planes);
        assert_eq!(stores.len(), 1);
        let tenant = &stores["one"][0];
        assert_eq!((tenant.uid(), tenant.identity.schema()), ("x", "s"));
        assert!(!tenant.asleep && !tenant.leaving);
    }
}
