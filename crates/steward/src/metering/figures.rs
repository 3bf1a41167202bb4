//! What is known of tenants and stores beyond what their objects say: for metrics, and for the next report.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use butler_api::steward::data_store::StorageUsage;
use jiff::Timestamp;

use super::steps::Measurement;
use crate::store::usage::Usage;

/// Figures of all tenants, by the UID of their control plane, and of all stores, by name.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    tenants: Mutex<HashMap<String, Tenant>>,
    stores: Mutex<HashMap<String, Usage>>,
}

/// Figures of one tenant.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tenant {
    /// What it holds in each of its stores.
    pub(crate) measured: BTreeMap<String, Measurement>,
    /// What it holds in all of them; nothing until each was measured.
    pub(crate) usage: Option<Usage>,
    /// What its status should say of that, where it says something else.
    pub(crate) news: Option<StorageUsage>,
    /// When the first of its certificates expires, authorities aside.
    pub(crate) expiry: Option<Timestamp>,
}

impl Figures {
    /// What is known of a tenant.
    pub(crate) fn tenant(&self, uid: &str) -> Tenant {
        self.tenants().get(uid).cloned().unwrap_or_default()
    }

    /// Records what a tenant holds in one of its stores; what it holds in all of them, once that is known.
    pub(crate) fn measured(
        &self,
        uid: &str,
        store: &str,
        measurement: Measurement,
        stores: &BTreeSet<String>,
    ) -> Option<Usage> {
        let mut tenants = self.tenants();
        let tenant = tenants.entry(uid.to_owned()).or_default();
        tenant.measured.insert(store.to_owned(), measurement);
        tenant.measured.retain(|store, _| stores.contains(store));
        if tenant.measured.len() == stores.len() {
            let mut total = Usage::default();
            for measurement in tenant.measured.values() {
                total += measurement.usage;
            }
            tenant.usage = Some(total);
        }
        tenant.usage
    }

    /// Records what the status of a tenant should say, where it says something else.
    pub(crate) fn tell(&self, uid: &str, news: Option<StorageUsage>) {
        self.tenants().entry(uid.to_owned()).or_default().news = news;
    }

    /// Records when the first certificate of a tenant expires.
    pub(crate) fn expires(&self, uid: &str, expiry: Option<Timestamp>) {
        self.tenants().entry(uid.to_owned()).or_default().expiry = expiry;
    }

    /// What all tenants of a store hold, where that is known.
    pub(crate) fn total(&self, store: &str) -> Option<Usage> {
        self.stores().get(store).copied()
    }

    /// Records what all tenants of a store hold.
    pub(crate) fn set_total(&self, store: &str, usage: Usage) {
        self.stores().insert(store.to_owned(), usage);
    }

    /// Forgets whoever is not there any more.
    pub(crate) fn keep(&self, tenants: &HashSet<String>, stores: &HashSet<String>) {
        self.tenants().retain(|uid, _| tenants.contains(uid));
        self.stores().retain(|name, _| stores.contains(name));
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<String, Tenant>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stores(&self) -> MutexGuard<'_, HashMap<String, Usage>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_of_two_stores_is_counted_once_both_were_measured() {
        let figures = Figures::default();
        let stores = BTreeSet::from(["main".to_owned(), "events".to_owned()]);
        let found = |keys, bytes| Measurement {
            usage: Usage { keys, bytes },
            at: Timestamp::UNIX_EPOCH,
        };
        let measured = |store, found| figures.measured("one", store, found, &stores);
        assert_eq!(measured("main", found(7, 700)), None);
        let both = Usage {
            keys: 9,
            bytes: 900,
        };
        assert_eq!(measured("events", found(2, 200)), Some(both));
        let less = Usage {
            keys: 3,
            bytes: 300,
        };
        assert_eq!(measured("main", found(1, 100)), Some(less));
        assert_eq!(figures.tenant("one").usage, Some(less));
    }
}
