//! One session per store, kept between reconciles.
//!
//! It knows which settings a session was made from, and nothing of what sessions are used for.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    auth::AuthChanges,
    error::Error,
    session::{Session, Settings},
};

/// The sessions of a process.
#[derive(Debug, Default)]
pub struct Sessions {
    stores: Mutex<HashMap<String, Entry>>,
}

#[derive(Debug)]
struct Entry {
    fingerprint: String,
    session: Arc<Session>,
    /// Outlives the session.
    auth_changes: Arc<AuthChanges>,
}

impl Sessions {
    /// The session of a store: the one there is, or a new one when addresses or credentials changed.
    ///
    /// An old session closes when the last request that uses it is done.
    ///
    /// # Errors
    /// When an address or the credentials cannot be used at all; nothing is asked of the store here.
    pub fn get(&self, settings: &Settings) -> Result<Arc<Session>, Error> {
        let fingerprint = settings.fingerprint();
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        let held = stores.get(&settings.store);
        if let Some(entry) = held.filter(|entry| entry.fingerprint == fingerprint) {
            return Ok(Arc::clone(&entry.session));
        }
        let auth_changes = held.map_or_else(Arc::default, |entry| Arc::clone(&entry.auth_changes));
        let session = Session::new(settings.clone(), Arc::clone(&auth_changes))?;
        let session = Arc::new(session);
        let entry = Entry {
            fingerprint,
            session: Arc::clone(&session),
            auth_changes,
        };
        stores.insert(settings.store.clone(), entry);
        Ok(session)
    }

    /// Closes the session of a store that is gone.
    pub fn forget(&self, store: &str) {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.remove(store);
    }
}
