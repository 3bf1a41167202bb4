//! The credentials of providers, each watched by its name from the moment that a cluster needs it: what is rotated
//! reaches clusters that run.

use std::collections::BTreeMap;

use butler_api::{butler::ProviderConfig, names};
use butler_capi::secret::Hidden;
use butler_runtime::{packed::Packed, watch::Feed};
use futures::Stream;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt as _, runtime::watcher};

use super::on_demand::OnDemand;

/// The watches.
pub(super) struct Credentials {
    client: Client,
    watches: OnDemand<(String, String), Packed<Secret>>,
}

impl Credentials {
    /// The stream has an item for every change of any credentials.
    pub(super) fn new(client: &Client) -> (Self, impl Stream<Item = String> + Send + use<>) {
        let (watches, changes) = OnDemand::new();
        let client = client.clone();
        (Self { client, watches }, changes)
    }

    /// What the Secret of a provider holds; nothing when there is no such Secret. Values that are no text cannot be
    /// credentials of any provider.
    pub(super) async fn of(&self, provider: &ProviderConfig) -> BTreeMap<String, Hidden> {
        let Some(reference) = &provider.spec.credentials_ref else {
            return BTreeMap::new();
        };
        let own = || provider.namespace();
        let namespace = reference.namespace.clone().or_else(own);
        let namespace = namespace.unwrap_or_else(|| names::SYSTEM_NAMESPACE.to_owned());
        let name = &reference.name;
        let watched = self.watches.watched((namespace.clone(), name.clone()), || {
            let api = Api::namespaced(self.client.clone(), &namespace);
            let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
            Feed::start(api, only)
        });
        if !watched.is_known().await {
            return BTreeMap::new();
        }
        let secret = watched.feed.open(Some(&namespace), name);
        let data = secret.and_then(|secret| secret.data.clone());
        let texts = data
            .unwrap_or_default()
            .into_iter()
            .filter_map(|(key, value)| Some((key, Hidden::new(String::from_utf8(value.0).ok()?))));
        texts.collect()
    }
}
