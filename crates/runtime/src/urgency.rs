//! Who is looked at first when many wait: those whose spec nobody has looked at yet.
//!
//! A crowd of new objects brings a crowd of events about what is made for them. Mixed, everybody waits for everybody
//! else's details; one after the other, all get what they need before anybody is told about it.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Mutex,
    time::Duration,
};

use kube::Resource;

use crate::sync::lock;

/// When somebody who has to wait for a few, or for a crowd, is looked for again.
const SOON: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_secs(2);
/// More than this is a crowd.
const FEW: usize = 32;

/// Which specs were looked at, by hashes: thousands of names would be much to remember.
#[derive(Debug, Default)]
pub(crate) struct Urgency {
    looks: Mutex<Looks>,
}

#[derive(Debug, Default)]
struct Looks {
    /// The spec that was last looked at, for each object.
    done: HashMap<u64, u64>,
    /// Objects with a spec that was not.
    waiting: HashSet<u64>,
}

impl Urgency {
    /// An object is there, new or changed.
    pub(crate) fn seen<K: Resource>(&self, object: &K) {
        let (key, spec) = (key(object), spec(object));
        let mut looks = lock(&self.looks);
        if looks.done.get(&key) != Some(&spec) {
            looks.waiting.insert(key);
        }
    }

    /// How long a look at the object must wait for others; if it need not, it counts as looked at.
    pub(crate) fn wait<K: Resource>(&self, object: &K) -> Option<Duration> {
        let (key, spec) = (key(object), spec(object));
        let mut looks = lock(&self.looks);
        looks.waiting.remove(&key);
        let is_new = looks.done.insert(key, spec) != Some(spec);
        match looks.waiting.len() {
            0 => None,
            _ if is_new => None,
            1..=FEW => Some(SOON),
            _ => Some(LATER),
        }
    }

    /// The object is gone.
    pub(crate) fn forget<K: Resource>(&self, object: &K) {
        let key = key(object);
        let mut looks = lock(&self.looks);
        looks.done.remove(&key);
        looks.waiting.remove(&key);
    }
}

fn key<K: Resource>(object: &K) -> u64 {
    let metadata = object.meta();
    let name = metadata.name.as_deref().unwrap_or_default();
    hash(&(metadata.namespace.as_deref(), name))
}

/// Another object of the same name has another spec too, and being deleted is part of one.
fn spec<K: Resource>(object: &K) -> u64 {
    let metadata = object.meta();
    let deleted = metadata.deletion_timestamp.is_some();
    hash(&(&metadata.uid, metadata.generation, deleted))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(name: &str, generation: i64) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some(name.to_owned());
        object.metadata.generation = Some(generation);
        object
    }

    #[test]
    fn new_specs_are_looked_at_before_the_details_of_those_that_were() {
        let urgency = Urgency::default();
        let (old, new) = (object("old", 1), object("new", 1));
        urgency.seen(&old);
        assert_eq!(urgency.wait(&old), None, "it is new itself");
        urgency.seen(&new);
        assert_eq!(urgency.wait(&old), Some(SOON));
        assert_eq!(urgency.wait(&object("old", 2)), None, "it was changed");
        for number in 0..FEW {
            urgency.seen(&object(&format!("new-{number}"), 1));
        }
        assert_eq!(urgency.wait(&object("old", 2)), Some(LATER));
        assert_eq!(urgency.wait(&new), None);
        for number in 0..FEW {
            assert_eq!(urgency.wait(&object(&format!("new-{number}"), 1)), None);
        }
        assert_eq!(
            urgency.wait(&object("old", 2)),
            None,
            "nobody waits any more"
        );
    }

    #[test]
    fn nobody_waits_for_what_is_gone() {
        let urgency = Urgency::default();
        assert_eq!(urgency.wait(&object("old", 1)), None);
        urgency.seen(&object("new", 1));
        urgency.forget(&object("new", 1));
        assert_eq!(urgency.wait(&object("old", 1)), None);
    }
}
