//! Addons to look at because something else changed.

use std::sync::Arc;

use butler_api::butler::TenantAddon;
use butler_runtime::watch::Change;
use futures::{Stream, StreamExt, stream};
use kube::{ResourceExt, runtime::reflector::ObjectRef};

use crate::{Feeds, addon_engine::Key};

/// Steps that ended, and changes of the catalogue, of clusters, and of addons that others wait for.
pub(super) fn all<E: Stream<Item = Key> + Send + 'static>(
    feeds: &Arc<Feeds>,
    ended: E,
) -> impl Stream<Item = ObjectRef<TenantAddon>> + Send + use<E> {
    let ended = ended.map(|key| {
        let addon = ObjectRef::new(&key.name);
        match key.namespace {
            Some(namespace) => addon.within(&namespace),
            None => addon,
        }
    });
    let store = feeds.addons.store();
    let definitions = feeds.definitions.subscribe().flat_map(move |change| {
        let name = change.object().name_any();
        named(store.state_filter(|addon: &TenantAddon| addon.spec.addon.as_ref() == Some(&name)))
    });
    let all = Arc::clone(feeds);
    let clusters = feeds.clusters.subscribe().flat_map(move |change| {
        let (namespace, name) = (change.object().namespace(), change.object().name_any());
        let mut addons = all.addons.all_in(&namespace.unwrap_or_default());
        addons.retain(|addon| addon.spec.cluster_ref.name == name);
        named(addons)
    });
    let (all, catalogue) = (Arc::clone(feeds), feeds.definitions.store());
    let others = feeds.addons.subscribe().flat_map(move |change| {
        let other = change.object();
        let gone = matches!(change, Change::Gone(_));
        let mut addons = all.addons.all_in(&other.namespace().unwrap_or_default());
        addons.retain(|addon| {
            let same = addon.spec.cluster_ref == other.spec.cluster_ref
                && addon.name_any() != other.name_any();
            let name = other.name_any();
            let needs = || {
                addon
                    .spec
                    .depends_on
                    .iter()
                    .any(|needed| needed.name == name)
            };
            let by_catalogue = || {
                let definition = addon
                    .spec
                    .addon
                    .as_ref()
                    .and_then(|name| catalogue.get(&ObjectRef::new(name)));
                definition.is_some_and(|definition| {
                    let wanted = &definition.spec.depends_on;
                    other
                        .spec
                        .addon
                        .as_ref()
                        .is_some_and(|addon| wanted.contains(addon))
                })
            };
            // One that is gone may have had the release that another wants.
            same && (gone || needs() || by_catalogue())
        });
        named(addons)
    });
    stream::select(
        stream::select(ended, definitions),
        stream::select(clusters, others),
    )
}

fn named(addons: Vec<Arc<TenantAddon>>) -> impl Stream<Item = ObjectRef<TenantAddon>> + Send {
    stream::iter(
        addons
            .into_iter()
            .map(|addon| ObjectRef::from_obj(&*addon))
            .collect::<Vec<_>>(),
    )
}
