//! The stores that are known, with their secrets read: one look at a `DataStore` serves all tenants in it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use butler_api::steward::data_store::{DeletionPolicy, Tenancy};
use butler_pki::Authority;
use futures::{Stream, stream};
use tokio::sync::{
    Notify,
    broadcast::{self, error::RecvError},
};

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
    /// It is being deleted: nobody new gets a place.
    pub closing: bool,
}

impl Entry {
    /// What tenants have to know: a store that works as before is no news to them, however many members answer.
    fn told(&self) -> Told {
        let store = self.store.as_ref().filter(|_| self.verdict.is_ready());
        match store {
            None => Told::Unusable(self.verdict.clone()),
            Some(store) => Told::Usable {
                fingerprint: store.fingerprint.clone(),
                allowed_namespaces: store.allowed_namespaces.clone(),
                tenancy: store.tenancy,
                closing: self.closing,
            },
        }
    }
}

#[derive(PartialEq, Eq)]
enum Told {
    Unusable(Verdict),
    Usable {
        fingerprint: String,
        allowed_namespaces: Vec<String>,
        tenancy: Tenancy,
        closing: bool,
    },
}

/// The stores by name; whoever asks is told of changes.
pub struct Directory {
    entries: Mutex<HashMap<String, Entry>>,
    changes: broadcast::Sender<String>,
    disturbed: Notify,
}

impl Default for Directory {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            changes: broadcast::Sender::new(BACKLOG),
            disturbed: Notify::new(),
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
        let (next, disturbed) = (entry.told(), is_disturbed(&entry));
        let before = self.lock().insert(name.to_owned(), entry);
        if before.as_ref().map(Entry::told) != Some(next) {
            // Nobody listening is no failure.
            let _ = self.changes.send(name.to_owned());
        }
        if disturbed {
            self.disturbed.notify_one();
        }
    }

    /// Waits until somebody else changed users or roles in a store that can be used; all such stores.
    pub async fn disturbed(&self) -> Vec<Arc<Store>> {
        self.disturbed.notified().await;
        let entries = self.lock();
        let disturbed = entries.values().filter(|entry| is_disturbed(entry));
        disturbed.filter_map(|entry| entry.store.clone()).collect()
    }

    /// Forgets a store that is gone.
    pub fn forget(&self, name: &str) {
        if self.lock().remove(name).is_some() {
            let _ = self.changes.send(name.to_owned());
        }
    }

    /// Names of stores that change from now on. Whoever is too slow loses none: nothing stands for all of them.
    pub fn changes(&self) -> impl Stream<Item = Option<String>> + Send + use<> {
        stream::unfold(self.changes.subscribe(), |mut changes| async move {
            match changes.recv().await {
                Ok(store) => Some((Some(store), changes)),
                Err(RecvError::Lagged(_)) => Some((None, changes)),
                Err(RecvError::Closed) => None,
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_disturbed(entry: &Entry) -> bool {
    let store = entry.store.as_ref().filter(|_| entry.verdict.is_ready());
    store.is_some_and(|store| store.session.is_disturbed())
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;
    use crate::store::health::Reason;

    fn unusable() -> Entry {
        let verdict = Verdict {
            reason: Reason::Unreachable,
            message: String::new(),
        };
        Entry {
            store: None,
            verdict,
            closing: false,
        }
    }

    #[tokio::test]
    async fn whoever_is_too_slow_is_told_to_look_at_everything() {
        let directory = Directory::default();
        let mut quick = Box::pin(directory.changes());
        directory.put("first", unusable());
        assert_eq!(quick.next().await, Some(Some("first".to_owned())));
        let mut slow = Box::pin(directory.changes());
        for store in 0..=BACKLOG {
            directory.put(&store.to_string(), unusable());
        }
        assert_eq!(slow.next().await, Some(None));
    }
}
