//! What is known of tenants and stores beyond what their objects say: for metrics, and for the next report.

use std::{
    collections::{HashMap, HashSet},
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
    /// What it holds in its store.
    pub(crate) measured: Option<Measurement>,
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

    /// Records a measurement, and what to report of it.
    pub(crate) fn measured(&self, uid: &str, measurement: Measurement, news: Option<StorageUsage>) {
        let mut tenants = self.tenants();
        let tenant = tenants.entry(uid.to_owned()).or_default();
        tenant.measured = Some(measurement);
        tenant.news = news;
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
