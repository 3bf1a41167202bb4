//! What this process knows of a pool beyond what its watches show. Without I/O.
//!
//! An epoch begins with a live read of the pool and, after it, of its claims. It goes on as long as every write to the
//! status of the pool is ours, which the version of the pool proves at each of them: so every grant since is one that
//! we know of, however far behind our watches are. Any other writer ends the epoch with a conflict. See ADR-0017.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use butler_api::{
    butler::{IPAllocation, NetworkPool},
    types::AddressRange,
};
use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};

use super::plan::Recorded;

/// How long a claim may be missing from the watch before it is looked for.
pub(super) const LAG: SignedDuration = SignedDuration::from_secs(10);

/// One epoch of one pool.
#[derive(Clone, Debug)]
pub(super) struct Epoch {
    /// The pool as it was last read or written by us.
    pub(super) pool: NetworkPool,
    /// Claims that we have seen newer than the watch shows them, and since when.
    ahead: HashMap<String, (Arc<IPAllocation>, Timestamp)>,
}

impl Epoch {
    /// Begins with what was read live: the pool first, then its claims.
    pub(super) fn begin(pool: NetworkPool, claims: Vec<IPAllocation>, now: Timestamp) -> Self {
        let mut epoch = Self {
            pool,
            ahead: HashMap::new(),
        };
        for claim in claims {
            epoch.note(Arc::new(claim), now);
        }
        epoch
    }

    /// Notes a claim as it was answered to us.
    pub(super) fn note(&mut self, claim: Arc<IPAllocation>, now: Timestamp) {
        self.ahead
            .insert(claim.uid().unwrap_or_default(), (claim, now));
    }

    /// Forgets a claim that is known to be gone.
    pub(super) fn forget(&mut self, uid: &str) {
        self.ahead.remove(uid);
    }

    /// The claims: of the watch and what we know, whichever is newer. What the watch has caught up with is forgotten.
    pub(super) fn merge(&mut self, watched: Vec<Arc<IPAllocation>>) -> Vec<Arc<IPAllocation>> {
        let mut claims: HashMap<String, Arc<IPAllocation>> = watched
            .into_iter()
            .map(|claim| (claim.uid().unwrap_or_default(), claim))
            .collect();
        self.ahead.retain(|uid, (ahead, _)| {
            claims
                .get(uid)
                .is_none_or(|watched| version(&**watched) < version(&**ahead))
        });
        for (uid, (ahead, _)) in &self.ahead {
            claims.insert(uid.clone(), Arc::clone(ahead));
        }
        claims.into_values().collect()
    }

    /// Since when the watch has been behind.
    pub(super) fn behind_since(&self) -> Option<Timestamp> {
        self.ahead.values().map(|(_, since)| *since).min()
    }
}

/// The grants that the status of a pool records.
pub(super) fn recorded(pool: &NetworkPool) -> Vec<Recorded> {
    let grants = pool.status.iter().flat_map(|status| &status.grants);
    grants
        .map(|grant| Recorded {
            name: grant.name.clone(),
            uid: grant.uid.clone(),
            ranges: grant
                .ranges
                .iter()
                .filter_map(|text| text.parse::<AddressRange>().ok())
                .collect(),
        })
        .collect()
}

/// Versions of one kind on one server can be compared (KEP-5504).
pub(super) fn version<K: Resource>(object: &K) -> u64 {
    let text = object.resource_version();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The epochs of all pools, by the UID of the pool.
#[derive(Clone, Default)]
pub(super) struct Epochs(Arc<Mutex<HashMap<String, Epoch>>>);

impl Epochs {
    /// Takes an epoch out: whoever does not put it back has ended it.
    pub(super) fn take(&self, pool: &str) -> Option<Epoch> {
        self.lock().remove(pool)
    }

    /// Puts an epoch back.
    pub(super) fn put(&self, pool: String, epoch: Epoch) {
        self.lock().insert(pool, epoch);
    }

    /// Forgets a claim that is gone, in whichever epoch it is. An epoch that is in use just now finds out itself.
    pub(super) fn claim_gone(&self, uid: &str) {
        for epoch in self.lock().values_mut() {
            epoch.forget(uid);
        }
    }

    /// Forgets a pool that is gone.
    pub(super) fn pool_gone(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Epoch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use kube::api::ObjectMeta;

    use super::*;

    fn claim(uid: &str, version: u32) -> Arc<IPAllocation> {
        Arc::new(IPAllocation {
            metadata: ObjectMeta {
                uid: Some(uid.to_owned()),
                resource_version: Some(version.to_string()),
                ..ObjectMeta::default()
            },
            ..IPAllocation::default()
        })
    }

    fn versions(mut claims: Vec<Arc<IPAllocation>>) -> Vec<u64> {
        claims.sort_by_key(|claim| claim.uid());
        claims.iter().map(|claim| version(&**claim)).collect()
    }

    #[test]
    fn a_watch_that_is_behind_does_not_hide_what_we_wrote() {
        let now = Timestamp::UNIX_EPOCH;
        let mut epoch = Epoch::begin(NetworkPool::default(), Vec::new(), now);
        epoch.note(claim("a", 9), now);
        epoch.note(claim("b", 10), now);
        assert_eq!(versions(epoch.merge(vec![claim("a", 8)])), [9, 10]);
        assert_eq!(
            versions(epoch.merge(vec![claim("a", 9), claim("b", 99)])),
            [9, 99]
        );
        assert_eq!(epoch.behind_since(), None);
        assert_eq!(versions(epoch.merge(vec![claim("b", 99)])), [99]);
    }
}
