//! Clusters to look at because something else changed.

use butler_api::{butler::TenantCluster, names};
use butler_runtime::watch::Feed;
use futures::{Stream, StreamExt as _, future, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt as _, runtime::reflector::ObjectRef};

use crate::Feeds;

/// Clusters to look at because something they are made of or from changed.
pub(super) fn of_parts<C, R>(
    feeds: &Feeds,
    of_children: C,
    of_all: R,
    clusters: &Feed<TenantCluster>,
) -> impl Stream<Item = ObjectRef<TenantCluster>> + Send + use<C, R>
where
    C: Stream<Item = String> + Send + 'static,
    R: Stream<Item = ()> + Send + 'static,
{
    // The tenant namespace names its cluster; it goes last, and its going is a change of its own.
    let spaces = feeds.namespaces.store();
    let of_children = of_children.filter_map(move |namespace| {
        let found = spaces.get(&ObjectRef::new(&namespace));
        future::ready(found.and_then(|namespace| source(&namespace)))
    });
    let of_namespaces = feeds
        .namespaces
        .subscribe()
        .filter_map(|change| future::ready(source(change.object())));
    // A provider, its credentials, the platform's defaults or Cluster API itself are behind every cluster.
    let store = clusters.store();
    let changes = stream::select(
        feeds.providers.subscribe().map(|_| ()),
        feeds.configs.subscribe().map(|_| ()),
    );
    let changes = stream::select(changes, of_all);
    let of_all = changes.flat_map(move |()| {
        let all = store.state();
        stream::iter(
            all.into_iter()
                .map(|cluster| ObjectRef::from_obj(&*cluster)),
        )
    });
    stream::select(of_all, stream::select(of_children, of_namespaces))
}

/// The cluster that a tenant namespace was made for.
fn source(namespace: &Namespace) -> Option<ObjectRef<TenantCluster>> {
    let label = |key: &str| namespace.labels().get(key);
    let name = label(names::SOURCE_NAME).or_else(|| label(names::TENANT))?;
    Some(ObjectRef::new(name).within(label(names::SOURCE_NAMESPACE)?))
}
