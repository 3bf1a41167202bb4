//! Wakes a store when a Secret that it refers to changes.
//!
//! There are many Secrets and few stores: each Secret that some store refers to is watched by itself, by its name and
//! without its content.

use std::collections::{BTreeSet, HashMap};

use butler_api::steward::DataStore;
use butler_runtime::{
    task::{self, Task},
    watch::Feed,
};
use futures::{
    Stream, StreamExt,
    channel::mpsc::{UnboundedSender, unbounded},
    future, stream,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        reflector::ObjectRef,
        watcher::{self, watcher},
    },
};

use super::resolve::{SecretName, references};

/// Stores that refer to a Secret which changed, appeared or went away.
pub(crate) fn changes(
    client: Client,
    stores: &Feed<DataStore>,
) -> impl Stream<Item = ObjectRef<DataStore>> + Send + use<> {
    let (sender, receiver) = unbounded();
    let (all, changes) = (stores.store(), stores.subscribe());
    let keeper = task::spawn("watch Secrets of stores", {
        let all = all.clone();
        let mut running = HashMap::<SecretName, Task>::new();
        changes.for_each(move |_| {
            let wanted: BTreeSet<_> = all.state().iter().flat_map(|s| references(s)).collect();
            running.retain(|secret, _| wanted.contains(secret));
            for secret in wanted {
                let (client, sender) = (&client, &sender);
                running
                    .entry(secret)
                    .or_insert_with_key(|secret| watch(client, secret.clone(), sender.clone()));
            }
            future::ready(())
        })
    });
    receiver.flat_map(move |secret| {
        // The keeper ends with the stream.
        let _ = &keeper;
        let refers = |store: &DataStore| references(store).contains(&secret);
        let found = all.state_filter(refers);
        stream::iter(found.into_iter().map(|store| ObjectRef::from_obj(&*store)))
    })
}

fn watch(client: &Client, secret: SecretName, changed: UnboundedSender<SecretName>) -> Task {
    let SecretName { namespace, name } = &secret;
    let api: Api<PartialObjectMeta<Secret>> = Api::namespaced(client.clone(), namespace);
    let this = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let label = format!("watch Secret {namespace}/{name}");
    task::spawn(
        &label,
        watcher(api, this).default_backoff().for_each(move |event| {
            match event {
                // What was there before the watch began may have changed since the store was looked at.
                Ok(
                    watcher::Event::Apply(_)
                    | watcher::Event::Delete(_)
                    | watcher::Event::InitApply(_),
                ) => {
                    // Nobody listens only when everything ends.
                    let _ = changed.unbounded_send(secret.clone());
                }
                Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
                Err(error) => {
                    tracing::warn!(secret = ?secret, %error, "a watch failed and starts again");
                }
            }
            future::ready(())
        }),
    )
}
