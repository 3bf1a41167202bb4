//! What this process wrote and its watches have not told of yet.
//!
//! A pass over a view from before our own report would report the same again, and a busy API server tells of a
//! write only after other events have asked for the next pass. So a pass waits until its object is at least as new as
//! what we ourselves wrote; the watch asks for it again in that moment.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use kube::{Resource, ResourceExt};

use crate::{apply::full_name, sync::lock};

/// A watch that is further behind than this is in trouble of its own, and an old view is better than none.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Versions of objects that we wrote, until they were seen.
#[derive(Debug, Default)]
pub struct OwnWrites {
    awaited: Mutex<HashMap<Key, Awaited>>,
}

type Key = (Box<str>, Box<str>);

#[derive(Clone, Copy, Debug)]
struct Awaited {
    version: u64,
    since: Instant,
}

impl OwnWrites {
    /// Remembers that we made the object what `written` is.
    pub(crate) fn record<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        written: &impl Resource,
    ) {
        if let Some(version) = version(written) {
            let since = Instant::now();
            lock(&self.awaited).insert(key(object), Awaited { version, since });
        }
    }

    /// Whether the object as it was seen is from before what we wrote ourselves.
    pub(crate) fn is_behind<K: Resource<DynamicType = ()>>(&self, seen: &K) -> bool {
        let mut awaited = lock(&self.awaited);
        if awaited.is_empty() {
            return false;
        }
        let key = key(seen);
        let behind = awaited.get(&key).is_some_and(|awaited| {
            let older = version(seen).is_some_and(|seen| seen < awaited.version);
            older && awaited.since.elapsed() < PATIENCE
        });
        if !behind {
            awaited.remove(&key);
        }
        behind
    }

    /// The object is gone: nobody will ask for it again.
    pub(crate) fn forget<K: Resource<DynamicType = ()>>(&self, object: &K) {
        lock(&self.awaited).remove(&key(object));
    }
}

fn key<K: Resource<DynamicType = ()>>(object: &K) -> Key {
    (K::kind(&()).into(), full_name(object).into())
}

/// Versions of one kind are numbers that grow; what is not a number is not compared.
fn version(object: &impl Resource) -> Option<u64> {
    object.resource_version()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn at(version: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("a".to_owned());
        object.metadata.resource_version = Some(version.to_owned());
        object
    }

    #[test]
    fn a_view_from_before_our_write_is_behind_until_the_write_is_seen() {
        let own = OwnWrites::default();
        assert!(!own.is_behind(&at("7")));
        own.record(&at("7"), &at("10"));
        assert!(own.is_behind(&at("9")));
        assert!(!own.is_behind(&at("10")));
        assert!(lock(&own.awaited).is_empty());
    }

    #[test]
    fn an_object_that_is_newer_than_our_write_or_gone_is_not_waited_for() {
        let own = OwnWrites::default();
        own.record(&at("7"), &at("10"));
        assert!(!own.is_behind(&at("100")));
        own.record(&at("7"), &at("10"));
        own.forget(&at("9"));
        assert!(!own.is_behind(&at("9")));
    }
}
