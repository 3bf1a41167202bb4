//! The stores that are known, with their secrets read: one look at a `DataStore` serves all tenants in it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use butler_api::steward::data_store::{DeletionPolicy, Tenancy};
use butler_pki::Authority;
use tokio::sync::broadcast;

use crate::store::{Session, health::Verdict};

/// How many changes a listener may lag behind before it is told to look at everything.
const BACKLOG: usize = 64;

/// A store that tenants can be put in.
#[derive(Clone)]
pub struct Store {
    /// The connection to it.
    pub session: Arc<Session>,
    /// Signs the tenants' client certificates.
    pub authority: Authority,
    /// The authority's certificate, as tenants verify the store with it.
    pub endpoints: Vec<String>,
    /// Namespaces that may use it; empty means all.
    pub allowed_namespaces: Vec<String>,
    /// Whether tenants share it.
    pub tenancy: Tenancy,
    /// What becomes of the data of deleted tenants.
    pub deletion_policy: DeletionPolicy,
    /// Changes when addresses or credentials do.
    pub fingerprint: String,
}

/// What is known of a store.
#[derive(Clone)]
pub struct Entry {
    /// The store, where its settings could be used.
    pub store: Option<Arc<Store>>,
    /// How it was when last looked at.
    pub verdict: Verdict,
}

/// The stores by name; whoever asks is told of changes.
pub struct Directory {
    entries: Mutex<HashMap<String, Entry>>,
    changes: broadcast::Sender<String>,
}

impl Default for Directory {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            changes: broadcast::Sender::new(BACKLOG),
        }
    }
}

impl Directory {
    /// What is known of a store; `None` before the first look.
    pub fn get(&self, name: &str) -> Option<Entry> {
        self.lock().get(name).cloned()
    }

    /// Records a look; tells listeners when it says something new.
    pub fn put(&self, name: &str, entry: Entry) {
        let told = |entry: &Entry| {
            (
                entry.verdict.clone(),
                entry.store.as_ref().map(|store| store.fingerprint.clone()),
            )
        };
        let next = told(&entry);
        let before = self.lock().insert(name.to_owned(), entry);
        if before.as_ref().map(told) != Some(next) {
            // Nobody listening is no failure.
            let _ = self.changes.send(name.to_owned());
        }
    }

    /// Forgets a store that is gone.
    pub fn forget(&self, name: &str) {
        if self.lock().remove(name).is_some() {
            let _ = self.changes.send(name.to_owned());
        }
    }

    /// Names of stores that change from now on.
    pub fn changes(&self) -> broadcast::Receiver<String> {
        self.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
