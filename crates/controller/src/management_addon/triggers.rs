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
        named(
            &store.state_filter(|addon: &ManagementAddon| addon.spec.addon.as_ref() == Some(&name)),
        )
    });
    let (store, catalogue) = (feeds.management_addons.store(), feeds.definitions.store());
    let others = feeds.management_addons.subscribe().flat_map(move |change| {
        let (changed, name) = (
            change.object().spec.addon.clone(),
            change.object().name_any(),
        );
        named(&store.state_filter(|addon: &ManagementAddon| {
            let own = addon.spec.addon.as_deref();
            let definition = own.and_then(|own| catalogue.get(&ObjectRef::new(own)));
            let by_catalogue = definition.zip(changed.as_ref());
            let by_catalogue = by_catalogue
                .is_some_and(|(entry, changed)| entry.spec.depends_on.contains(changed));
            let mut named = addon.spec.depends_on.iter();
            let needs = by_catalogue || named.any(|needed| needed.name == name);
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
