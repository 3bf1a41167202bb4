//! The address of a machine: of a pool by a claim that goes with the machine, or one that the network chooses.

use std::net::IpAddr;

use butler_api::infrastructure::LocalMachine;
use butler_runtime::{finalizers, watch::Watchable};
use futures::{Stream, StreamExt as _, future, stream};
use kube::{ResourceExt as _, core::ObjectMeta, runtime::reflector::ObjectRef};

use super::{
    super::{
        Attachment, Error, FINALIZER, Feeds, capi,
        claims::{claim, granted, owned_by},
    },
    Controller, id, on_network,
};

/// Where an address comes from, once it is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Address {
    /// The network chooses.
    Any,
    /// The pool gave it.
    Granted(IpAddr),
}

/// Machines to look at because their claim or their address came or went.
pub(super) fn triggers(
    feeds: &Feeds,
) -> impl Stream<Item = ObjectRef<LocalMachine>> + Send + use<> {
    let machines = feeds.local_machines.store();
    let claims = feeds
        .claims
        .subscribe()
        .map(|change| named(&**change.object()));
    let addresses = feeds
        .addresses
        .subscribe()
        .map(|change| named(&**change.object()));
    stream::select(claims, addresses).filter_map(move |(namespace, name)| {
        let machine = ObjectRef::new(&name).within(&namespace);
        future::ready(machines.get(&machine).map(|_| machine))
    })
}

fn named(object: &impl Watchable) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

impl Controller {
    /// The address of a machine, asked for if it was not; none while it is waited for.
    pub(super) async fn address(&self, raw: &LocalMachine) -> Result<Option<Address>, Error> {
        let Some(pool) = &self.settings.pool else {
            return Ok(Some(Address::Any));
        };
        let (namespace, name) = (raw.namespace(), raw.name_any());
        let place = namespace.as_deref();
        if let Some(held) = self.feeds.claims.get(place, &name) {
            let address = self.feeds.addresses.get(place, &name);
            // One of an earlier machine of this name goes with it.
            let owners = held.owner_references();
            let ours = owners
                .iter()
                .any(|owner| Some(&owner.uid) == raw.metadata.uid.as_ref());
            let given = granted(&held, address.as_deref()).filter(|_| ours);
            return Ok(given.map(Address::Granted));
        }
        if finalizers::has(raw, FINALIZER) {
            let cluster = raw.labels().get(capi::CLUSTER_NAME).cloned();
            let metadata = ObjectMeta {
                name: Some(name),
                namespace,
                owner_references: Some(vec![owned_by(raw)]),
                ..ObjectMeta::default()
            };
            self.applier.create(&claim(metadata, cluster, pool)).await?;
        }
        Ok(None)
    }

    pub(super) async fn attach(
        &self,
        raw: &LocalMachine,
        network: &str,
        address: Option<Address>,
    ) -> Result<Attachment, Error> {
        let address = match address {
            Some(Address::Granted(address)) => Some(address),
            Some(Address::Any) | None => None,
        };
        let attached = self.network.attach(&id(raw), network, address).await;
        attached.map_err(on_network("attach", raw))
    }
}
