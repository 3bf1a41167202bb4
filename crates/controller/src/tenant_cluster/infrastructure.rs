//! The kinds of infrastructure providers, watched from the moment that the first cluster needs them: there are too
//! many providers to watch them all, and most are not installed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use butler_api::names;
use butler_capi::{
    core::{INFRASTRUCTURE, Kind},
    provider::Kinds,
};
use butler_runtime::{
    packed::Packed,
    sync::lock,
    task::{self, Task},
    watch::Feed,
};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, Client, ResourceExt as _,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::Value;
use tokio::sync::{
    OnceCell,
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use super::{live::Live, observe};

/// How long the first cluster of a provider waits for its kinds to be known. They may not even be installed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Any kind of an infrastructure provider.
#[derive(Clone, Debug, Default)]
pub(super) struct Thing;

impl Kind for Thing {
    const GROUP: &'static str = INFRASTRUCTURE;
    const KIND: &'static str = "Infrastructure";
    const PLURAL: &'static str = "infrastructures";
}

/// The watch of one kind.
struct Watched {
    feed: Feed<Packed<Live<Thing>>>,
    known: OnceCell<bool>,
    api_version: String,
    kind: &'static str,
    _forward: Task,
}

/// The watches.
pub(super) struct Infrastructure {
    client: Client,
    open: Mutex<BTreeMap<&'static str, Arc<Watched>>>,
    tell: UnboundedSender<String>,
}

impl Infrastructure {
    /// Nothing is watched yet. The stream names tenant namespaces in which something changed.
    pub(super) fn new(client: &Client) -> (Self, impl Stream<Item = String> + Send + use<>) {
        let (tell, news) = unbounded_channel();
        let new = Self {
            client: client.clone(),
            open: Mutex::default(),
            tell,
        };
        let next = |mut news: UnboundedReceiver<String>| async move {
            news.recv().await.map(|place| (place, news))
        };
        (new, stream::unfold(news, next))
    }

    /// Everything of a provider's kinds in one namespace; `None` while that is not known.
    pub(super) async fn objects(&self, kinds: Kinds, namespace: &str) -> Option<Vec<Value>> {
        let mut found = Vec::new();
        for kind in [kinds.cluster, kinds.template] {
            let watched = self.watched(kinds.version, kind);
            if !watched.is_known().await {
                return None;
            }
            for packed in watched.feed.all_in(namespace) {
                let value = serde_json::to_value(packed.unpack()).unwrap_or_default();
                found.push(observe::described(value, &watched.api_version, kind));
            }
        }
        Some(found)
    }

    fn watched(&self, version: &str, kind: &'static str) -> Arc<Watched> {
        let mut open = lock(&self.open);
        let start = || Arc::new(Watched::start(&self.client, version, kind, &self.tell));
        Arc::clone(open.entry(kind).or_insert_with(start))
    }
}

impl Watched {
    fn start(
        client: &Client,
        version: &str,
        kind: &'static str,
        tell: &UnboundedSender<String>,
    ) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(INFRASTRUCTURE, version, kind));
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let ours = watcher::Config::default().labels(names::OWNER_UID);
        let events = watcher(api, ours.streaming_lists())
            .default_backoff()
            .try_filter_map(|event| std::future::ready(Ok(packed(event))));
        let feed = Feed::follow(&resource.plural, events);
        let (changes, tell) = (feed.subscribe(), tell.clone());
        let forward = changes.for_each(move |change| {
            // Whoever listens ends after us.
            let _ = tell.send(change.object().namespace().unwrap_or_default());
            std::future::ready(())
        });
        Self {
            feed,
            known: OnceCell::new(),
            api_version: resource.api_version.clone(),
            kind,
            _forward: task::spawn("infrastructure", forward),
        }
    }

    /// Whether everything that is there was seen. Waits once.
    async fn is_known(&self) -> bool {
        let wait = || async {
            tokio::time::timeout(PATIENCE, self.feed.ready())
                .await
                .is_ok()
        };
        if *self.known.get_or_init(wait).await {
            return true;
        }
        let now = tokio::time::timeout(Duration::ZERO, self.feed.ready()).await;
        if now.is_err() {
            tracing::warn!(
                kind = self.kind,
                "objects of an infrastructure provider are not known"
            );
        }
        now.is_ok()
    }
}

/// The same event about an object that is kept as text. What cannot be written as text was never read from one.
fn packed(event: watcher::Event<DynamicObject>) -> Option<watcher::Event<Packed<Live<Thing>>>> {
    let pack = |object: DynamicObject| {
        let value = serde_json::to_value(object).ok()?;
        Packed::pack(serde_json::from_value(value).ok()?).ok()
    };
    Some(match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(pack(object)?),
        watcher::Event::Delete(object) => watcher::Event::Delete(pack(object)?),
        watcher::Event::InitApply(object) => watcher::Event::InitApply(pack(object)?),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitDone => watcher::Event::InitDone,
    })
}
