//! The kinds of infrastructure providers, watched from the moment that the first cluster needs them: there are too
//! many providers to watch them all, and most are not installed.

use butler_api::names;
use butler_capi::{
    core::{INFRASTRUCTURE, Kind},
    provider::Kinds,
};
use butler_runtime::{packed::Packed, watch::Feed};
use futures::{Stream, TryStreamExt as _};
use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::Value;

use super::{live::Live, observe, on_demand::OnDemand};

/// Any kind of an infrastructure provider.
#[derive(Clone, Debug, Default)]
pub(super) struct Thing;

impl Kind for Thing {
    const GROUP: &'static str = INFRASTRUCTURE;
    const KIND: &'static str = "Infrastructure";
    const PLURAL: &'static str = "infrastructures";
}

type Things = Feed<Packed<Live<Thing>>>;

/// The watches.
pub(super) struct Infrastructure {
    client: Client,
    watches: OnDemand<&'static str, Packed<Live<Thing>>>,
}

impl Infrastructure {
    /// The stream names tenant namespaces in which something changed.
    pub(super) fn new(client: &Client) -> (Self, impl Stream<Item = String> + Send + use<>) {
        let (watches, changes) = OnDemand::new();
        let client = client.clone();
        (Self { client, watches }, changes)
    }

    /// Everything of a provider's kinds in one namespace; `None` while that is not known.
    pub(super) async fn objects(&self, kinds: Kinds, namespace: &str) -> Option<Vec<Value>> {
        let version = format!("{INFRASTRUCTURE}/{}", kinds.version);
        let mut found = Vec::new();
        for kind in kinds.all() {
            let start = || watch(&self.client, kinds.version, kind);
            let watched = self.watches.watched(kind, start);
            if !watched.is_known().await {
                return None;
            }
            for packed in watched.feed.all_in(namespace) {
                let value = serde_json::to_value(packed.unpack()).unwrap_or_default();
                found.push(observe::described(value, &version, kind));
            }
        }
        Some(found)
    }
}

fn watch(client: &Client, version: &str, kind: &str) -> Things {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(INFRASTRUCTURE, version, kind));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let ours = watcher::Config::default().labels(names::OWNER_UID);
    let events = watcher(api, ours.streaming_lists())
        .default_backoff()
        .try_filter_map(|event| std::future::ready(Ok(packed(event))));
    Feed::follow(&resource.plural, events)
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
