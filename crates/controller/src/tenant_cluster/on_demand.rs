//! Watches that begin with the first cluster that needs them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use butler_runtime::{
    sync::lock,
    task::{self, Task},
    watch::{Feed, Watchable},
};
use futures::{Stream, StreamExt as _, stream};
use kube::ResourceExt as _;
use tokio::sync::{
    OnceCell,
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

/// How long the first who asks waits for everything to be known. What is watched may not even be installed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches by what they watch.
pub(super) struct OnDemand<Q, K: Watchable> {
    open: Mutex<BTreeMap<Q, Arc<Watched<K>>>>,
    tell: UnboundedSender<String>,
}

/// One watch.
pub(super) struct Watched<K: Watchable> {
    pub(super) feed: Feed<K>,
    known: OnceCell<bool>,
    _forward: Task,
}

impl<Q: Ord, K: Watchable> OnDemand<Q, K> {
    /// Nothing is watched yet. The stream names namespaces in which something changed.
    pub(super) fn new() -> (Self, impl Stream<Item = String> + Send + use<Q, K>) {
        let (tell, news) = unbounded_channel();
        let new = Self {
            open: Mutex::default(),
            tell,
        };
        let next = |mut news: UnboundedReceiver<String>| async move {
            news.recv().await.map(|place| (place, news))
        };
        (new, stream::unfold(news, next))
    }

    /// The watch of this, begun now if there is none.
    pub(super) fn watched(&self, what: Q, start: impl FnOnce() -> Feed<K>) -> Arc<Watched<K>> {
        let mut open = lock(&self.open);
        let begin = || Arc::new(Watched::over(start(), self.tell.clone()));
        Arc::clone(open.entry(what).or_insert_with(begin))
    }
}

impl<K: Watchable> Watched<K> {
    fn over(feed: Feed<K>, tell: UnboundedSender<String>) -> Self {
        let forward = feed.subscribe().for_each(move |change| {
            // Whoever listens ends after us.
            let _ = tell.send(change.object().namespace().unwrap_or_default());
            std::future::ready(())
        });
        Self {
            _forward: task::spawn("watch on demand", forward),
            feed,
            known: OnceCell::new(),
        }
    }

    /// Whether everything that is there was seen. Waits once.
    pub(super) async fn is_known(&self) -> bool {
        let ready = |patience| tokio::time::timeout(patience, self.feed.ready());
        let first = || async { ready(PATIENCE).await.is_ok() };
        *self.known.get_or_init(first).await || ready(Duration::ZERO).await.is_ok()
    }
}
