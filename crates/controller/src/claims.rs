//! Claims on addresses by the cluster that they were made for: a platform has as many as clusters, and looking through all
//! of them for one cluster would take ever longer.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use butler_api::{butler::IPAllocation, names};
use butler_runtime::{
    sync::lock,
    watch::{Change, Feed},
};
use kube::ResourceExt as _;

/// Namespaces and names of claims, by the UID of their cluster. What they are by now is said by the watch.
#[derive(Default)]
pub(crate) struct Claims(Mutex<HashMap<String, BTreeSet<(String, String)>>>);

impl Claims {
    /// Everything that is there, before anybody looks for anything.
    pub(crate) fn fill(&self, feed: &Feed<IPAllocation>) {
        for claim in feed.store().state() {
            self.note(&Change::Present(claim));
        }
    }

    /// Whoever hears of a change notes it before anybody is told to look: then what they look for is here.
    pub(crate) fn note(&self, change: &Change<IPAllocation>) {
        let claim = change.object();
        let Some(uid) = claim.labels().get(names::OWNER_UID) else {
            return;
        };
        let key = (claim.namespace().unwrap_or_default(), claim.name_any());
        let mut claims = lock(&self.0);
        match change {
            Change::Present(_) => {
                claims.entry(uid.clone()).or_default().insert(key);
            }
            Change::Gone(_) => {
                let held = claims.get_mut(uid);
                if held.is_some_and(|held| held.remove(&key) && held.is_empty()) {
                    claims.remove(uid);
                }
            }
        }
    }

    /// The claims of one cluster, as they stand, in the order of their names.
    pub(crate) fn of(&self, feed: &Feed<IPAllocation>, uid: &str) -> Vec<Arc<IPAllocation>> {
        let claims = lock(&self.0);
        let held = claims.get(uid).into_iter().flatten();
        let found = held.filter_map(|(namespace, name)| feed.get(Some(namespace), name));
        let is_its = |claim: &Arc<IPAllocation>| {
            let owner = claim.labels().get(names::OWNER_UID);
            owner.map(String::as_str) == Some(uid)
        };
        found.filter(is_its).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(name: &str, owner: &str) -> Arc<IPAllocation> {
        let claim = json!({
            "metadata": {"name": name, "namespace": "butler-system", "labels": {names::OWNER_UID: owner}},
            "spec": {"poolRef": {"name": "ten"}, "type": "loadbalancer",
                "tenantClusterRef": {"name": "blue", "namespace": "team"}},
        });
        Arc::new(serde_json::from_value(claim).unwrap())
    }

    fn count(claims: &Claims, uid: &str) -> usize {
        lock(&claims.0).get(uid).map_or(0, BTreeSet::len)
    }

    #[test]
    fn claims_are_found_by_their_cluster_and_forgotten_when_they_go_in_any_order() {
        let claims = Claims::default();
        let (one, two) = (claim("one", "a"), claim("two", "a"));
        for change in [Change::Present(Arc::clone(&one)), Change::Present(two)] {
            claims.note(&change);
            // Two who hear of the same change both note it.
            claims.note(&change);
        }
        claims.note(&Change::Present(claim("one", "b")));
        assert_eq!((count(&claims, "a"), count(&claims, "b")), (2, 1));
        claims.note(&Change::Gone(Arc::clone(&one)));
        claims.note(&Change::Gone(one));
        assert_eq!((count(&claims, "a"), count(&claims, "b")), (1, 1));
        claims.note(&Change::Gone(claim("two", "a")));
        assert!(!lock(&claims.0).contains_key("a"), "nothing is left of it");
    }
}
