//! Addons to look at because something else changed.

use std::sync::Arc;

use butler_api::butler::ManagementAddon;
use futures::{Stream, StreamExt, stream};
use kube::{ResourceExt, runtime::reflector::ObjectRef};

use crate::{Feeds, addon_engine::Key};

/// Steps that ended, and changes of the catalogue and of addons that others wait for.
pub(super) fn all<E: Stream<Item = Key> + Send + 'static>(
    feeds: &Arc<Feeds>,
    ended: E,
) -> impl Stream<Item = ObjectRef<ManagementAddon>> + Send + use<E> {
    let ended = ended.map(|key| ObjectRef::new(&key.name));
    let store = feeds.management_addons.store();
    let definitions = feeds.definitions.subscribe().flat_map(move |change| {
        let name = change.object().name_any();
        named(&store.state_filter(|addon: &ManagementAddon| addon.spec.addon == name))
    });
    let (store, catalogue) = (feeds.management_addons.store(), feeds.definitions.store());
    let others = feeds.management_addons.subscribe().flat_map(move |change| {
        let changed = change.object().spec.addon.clone();
        named(&store.state_filter(|addon: &ManagementAddon| {
            let definition = catalogue.get(&ObjectRef::new(&addon.spec.addon));
            let needs = definition.is_some_and(|entry| entry.spec.depends_on.contains(&changed));
            // One that is going may wait for those that need it.
            needs || addon.metadata.deletion_timestamp.is_some()
        }))
    });
    stream::select(ended, stream::select(definitions, others))
}

fn named(
    addons: &[Arc<ManagementAddon>],
) -> impl Stream<Item = ObjectRef<ManagementAddon>> + Send + use<> {
    let named: Vec<_> = addons
        .iter()
        .map(|addon| ObjectRef::from_obj(&**addon))
        .collect();
    stream::iter(named)
}
