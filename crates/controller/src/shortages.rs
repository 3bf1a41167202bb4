//! Clusters that want more addresses than can be had. Whoever draws addresses finds out; whoever reports on a cluster
//! says so.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use butler_api::butler::TenantCluster;
use butler_capi::addresses::Shortage;
use butler_runtime::sync::lock;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Why clusters have no more, each by its UID.
#[derive(Clone)]
pub(crate) struct Shortages {
    known: Arc<Mutex<HashMap<String, Shortage>>>,
    tell: UnboundedSender<ObjectRef<TenantCluster>>,
}

/// Clusters of which something else is known than before.
pub(crate) type News = UnboundedReceiver<ObjectRef<TenantCluster>>;

impl Shortages {
    /// Nothing is known yet.
    pub(crate) fn new() -> (Self, News) {
        let (tell, news) = unbounded_channel();
        let known = Arc::default();
        (Self { known, tell }, news)
    }

    /// Notes why a cluster has no more, or that it has all it wants.
    pub(crate) fn note(&self, uid: &str, cluster: ObjectRef<TenantCluster>, why: Option<Shortage>) {
        let mut known = lock(&self.known);
        if known.get(uid).copied() == why {
            return;
        }
        match why {
            Some(why) => known.insert(uid.to_owned(), why),
            None => known.remove(uid),
        };
        // Nobody listens any more when everything ends.
        let _ = self.tell.send(cluster);
    }

    /// Why a cluster has no more.
    pub(crate) fn of(&self, uid: &str) -> Option<Shortage> {
        lock(&self.known).get(uid).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_told_of_when_something_else_is_known_of_it_and_not_before() {
        let (shortages, mut news) = Shortages::new();
        let mut noted = |why| {
            shortages.note("1", ObjectRef::new("demo").within("team-a"), why);
            (news.try_recv().is_ok(), shortages.of("1"))
        };
        let full = Some(Shortage::NoRoom(2));
        assert_eq!(noted(None), (false, None), "nothing was ever known");
        assert_eq!(noted(full), (true, full));
        assert_eq!(noted(full), (false, full));
        assert_eq!(noted(None), (true, None));
    }
}
