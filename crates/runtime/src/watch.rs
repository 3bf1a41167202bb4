//! Watches: one per kind and process, slim, shared by everybody who wants to know.
//!
//! kube's shared streams tell subscribers of objects that appear or change, not of those that go. Counting
//! and releasing need the going as well, so the fan-out is here; store and watcher are kube's.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Debug,
    hash::Hash,
    sync::{Arc, Mutex},
};

use futures::{Stream, StreamExt, TryStreamExt, future};
use kube::{
    Api, Resource, ResourceExt,
    api::ObjectMeta,
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, Store, store::Writer},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::{
    sync::{lock, received},
    task::{self, Task},
};

/// A kind that can be watched.
pub trait Watchable:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}
impl<K> Watchable for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// What happened to an object.
#[derive(Debug)]
pub enum Change<K> {
    /// It is there, new or changed.
    Present(Arc<K>),
    /// It is gone; this is how it was last seen.
    Gone(Arc<K>),
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Present(object) => Self::Present(Arc::clone(object)),
            Self::Gone(object) => Self::Gone(Arc::clone(object)),
        }
    }
}

impl<K> Change<K> {
    /// The object, there or gone.
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Present(object) | Self::Gone(object) => object,
        }
    }
}

/// One watch of one kind: a store of what is there, and a stream of changes for each subscriber.
pub struct Feed<K: Watchable>
where
    K::DynamicType: Hash + Eq,
{
    store: Store<K>,
    audience: Arc<Audience<K>>,
    _driver: Task,
}

/// Those who are told of changes.
struct Audience<K> {
    subscribers: Mutex<Vec<UnboundedSender<Change<K>>>>,
    /// Names by namespace, where somebody looks for objects by their namespace.
    places: Option<Mutex<Places>>,
}

type Places = HashMap<Box<str>, BTreeSet<Box<str>>>;

impl<K: Watchable> Audience<K> {
    fn new(places: Option<Mutex<Places>>) -> Arc<Self> {
        Arc::new(Self {
            subscribers: Mutex::default(),
            places,
        })
    }

    /// Keeps the names by namespace, then tells everybody.
    fn tell(&self, subscribers: &mut Vec<UnboundedSender<Change<K>>>, change: &Change<K>) {
        if let Some(places) = &self.places {
            note(&mut lock(places), change);
        }
        subscribers.retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }
}

fn note<K: Resource>(places: &mut Places, change: &Change<K>) {
    let metadata = change.object().meta();
    let place = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    match change {
        Change::Present(_) => {
            if let Some(names) = places.get_mut(place) {
                if !names.contains(name) {
                    names.insert(name.into());
                }
            } else {
                places.insert(place.into(), BTreeSet::from([name.into()]));
            }
        }
        Change::Gone(_) => {
            let names = places.get_mut(place);
            if names.is_some_and(|names| names.remove(name) && names.is_empty()) {
                places.remove(place);
            }
        }
    }
}

impl<K: Watchable> Feed<K> {
    /// Starts watching; the watch ends when the feed is dropped.
    pub fn start(api: Api<K>, config: watcher::Config) -> Self {
        Self::run(api, config, None)
    }

    /// The same, for objects that are looked for by their namespace.
    pub fn start_by_namespace(api: Api<K>, config: watcher::Config) -> Self {
        Self::run(api, config, Some(Mutex::default()))
    }

    fn run(api: Api<K>, config: watcher::Config, places: Option<Mutex<Places>>) -> Self {
        let events = watcher(api, config.streaming_lists())
            .default_backoff()
            .modify(|object| strip(object.meta_mut()));
        Self::over(&K::plural(&()), events, places)
    }

    /// Over the events of somebody else's watch, for objects that are looked for by their namespace: kinds that are
    /// known only at run time become known ones on the way.
    pub fn follow(
        what: &str,
        events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
    ) -> Self {
        Self::over(what, events, Some(Mutex::default()))
    }

    fn over(
        what: &str,
        events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
        places: Option<Mutex<Places>>,
    ) -> Self {
        let writer = Writer::<K>::default();
        let store = writer.as_reader();
        let audience = Audience::new(places);
        let name = format!("watch {what}");
        let driver = task::spawn(
            &name,
            drive(events, writer, store.clone(), Arc::clone(&audience)),
        );
        Self {
            store,
            audience,
            _driver: driver,
        }
    }

    /// What is there.
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// One object, if it is there. The namespace of cluster-scoped kinds is `None`.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<K>> {
        let mut key = ObjectRef::new(name);
        if let Some(namespace) = namespace {
            key = key.within(namespace);
        }
        self.store.get(&key)
    }

    /// Everything in one namespace. Looks through all objects unless the feed was started for this.
    pub fn all_in(&self, namespace: &str) -> Vec<Arc<K>> {
        let Some(places) = &self.audience.places else {
            let here = |object: &K| object.meta().namespace.as_deref() == Some(namespace);
            return self.store.state_filter(here);
        };
        let places = lock(places);
        let names = places.get(namespace).into_iter().flatten();
        names
            .filter_map(|name| self.get(Some(namespace), name))
            .collect()
    }

    /// Waits until the first list is complete.
    pub async fn ready(&self) {
        // The writer lives as long as the driver, which lives as long as `self`.
        if let Err(error) = self.store.wait_until_ready().await {
            tracing::error!(kind = %K::kind(&()), %error, "a watch ended before its first list");
            future::pending::<()>().await;
        }
        // The driver holds this until names are kept by namespace and everybody was told.
        drop(lock(&self.audience.subscribers));
    }

    /// Everything that is there now, then every change.
    pub fn subscribe(&self) -> impl Stream<Item = Change<K>> + Send + use<K> {
        let (sender, receiver) = unbounded_channel();
        let mut subscribers = lock(&self.audience.subscribers);
        for object in self.store.state() {
            // The receiver is held right here.
            let _ = sender.send(Change::Present(object));
        }
        subscribers.push(sender);
        received(receiver)
    }

    /// Only the objects that are there, as one who only looks for them wants them.
    pub fn present(&self) -> impl Stream<Item = Arc<K>> + Send + use<K> {
        self.subscribe().filter_map(|change| {
            future::ready(match change {
                Change::Present(object) => Some(object),
                Change::Gone(_) => None,
            })
        })
    }
}

/// Drops what no controller reads and what costs most of an object's memory.
pub(crate) fn strip(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

async fn drive<K: Watchable>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send,
    mut writer: Writer<K>,
    store: Store<K>,
    audience: Arc<Audience<K>>,
) {
    let events = events.inspect_err(|error| {
        tracing::warn!(kind = %K::kind(&()), %error, "a watch failed and starts again");
    });
    let mut events = std::pin::pin!(events.filter_map(|event| future::ready(event.ok())));
    while let Some(event) = events.next().await {
        let mut subscribers = lock(&audience.subscribers);
        let before = held_before(&store, &event);
        writer.apply_watcher_event(&event);
        for change in changes(&store, &event, before) {
            audience.tell(&mut subscribers, &change);
        }
    }
}

/// What the store held before the event, as far as it is needed to tell what went away.
fn held_before<K: Watchable>(
    store: &Store<K>,
    event: &watcher::Event<K>,
) -> HashMap<ObjectRef<K>, Arc<K>> {
    match event {
        watcher::Event::InitDone => store
            .state()
            .into_iter()
            .map(|object| (ObjectRef::from_obj(&*object), object))
            .collect(),
        watcher::Event::Apply(_)
        | watcher::Event::Delete(_)
        | watcher::Event::Init
        | watcher::Event::InitApply(_) => HashMap::new(),
    }
}

/// The changes that an event means. A fresh list says what is there; what it leaves out is gone, and what
/// it repeats unchanged is no news.
fn changes<K: Watchable>(
    store: &Store<K>,
    event: &watcher::Event<K>,
    mut before: HashMap<ObjectRef<K>, Arc<K>>,
) -> Vec<Change<K>> {
    match event {
        watcher::Event::Apply(object) => {
            let held = store.get(&ObjectRef::from_obj(object));
            held.map(Change::Present).into_iter().collect()
        }
        watcher::Event::Delete(object) => vec![Change::Gone(Arc::new(object.clone()))],
        watcher::Event::Init | watcher::Event::InitApply(_) => Vec::new(),
        watcher::Event::InitDone => {
            let mut changes = Vec::new();
            for object in store.state() {
                let old = before.remove(&ObjectRef::from_obj(&*object));
                if old.is_none_or(|old| old.resource_version() != object.resource_version()) {
                    changes.push(Change::Present(object));
                }
            }
            changes.extend(before.into_values().map(Change::Gone));
            changes
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    /// Enough for names to be kept for a while after the list is complete.
    const MANY: usize = 5_000;

    fn object(number: usize) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some("demo".to_owned()),
                namespace: Some(format!("n{number}")),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn whoever_waited_for_a_watch_finds_everything_by_its_namespace() {
        for _ in 0..5 {
            let list = (0..MANY).map(|number| watcher::Event::InitApply(object(number)));
            let events = std::iter::once(watcher::Event::Init)
                .chain(list)
                .chain([watcher::Event::InitDone]);
            let events = stream::iter(events.map(Ok)).chain(stream::pending());
            let feed = Feed::<ConfigMap>::follow("configmaps", events);
            feed.ready().await;
            let missing = (0..MANY).find(|number| feed.all_in(&format!("n{number}")).is_empty());
            assert_eq!(missing, None);
        }
    }
}
