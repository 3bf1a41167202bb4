//! Spreads a new version of a catalogue entry over the `TenantAddon`s that follow it. How far it may go is decided by
//! `butler-addons`; who may have which version is an annotation of the addon, so that a restart forgets nothing.

mod view;

use std::sync::Arc;

use butler_addons::rollout;
use butler_api::{
    butler::{AddonDefinition, TenantAddon},
    names::CATALOGUE_VERSION,
};
use butler_runtime::{
    apply::Applier,
    clock::SharedClock,
    conditions,
    controller::{self, Bounds, Reconciler, Wake},
    error::{ApiError, is_not_found},
    own_writes::OwnWrites,
    status,
};
use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::reflector::ObjectRef,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{Feeds, MANAGER, Surroundings};

/// Reconciles rollouts of catalogue entries.
pub struct Controller {
    feeds: Arc<Feeds>,
    applier: Applier,
    clock: SharedClock,
}

/// Runs until `shutdown`.
pub(crate) async fn run(
    client: &Client,
    feeds: &Arc<Feeds>,
    surroundings: &Surroundings,
    shutdown: &CancellationToken,
) {
    let controller = Controller {
        feeds: Arc::clone(feeds),
        applier: Applier::new(client.clone(), MANAGER),
        clock: Arc::clone(&surroundings.clock),
    };
    controller::run(
        controller,
        &feeds.definitions,
        triggers(feeds),
        // One look counts a whole fleet: changes of many addons are gathered.
        Bounds {
            concurrency: 2,
            debounce: std::time::Duration::from_millis(500),
            ..Bounds::default()
        },
        surroundings.reconciles.clone(),
        shutdown.clone(),
    )
    .await;
}

/// The entry of every addon that changes.
fn triggers(feeds: &Arc<Feeds>) -> impl Stream<Item = ObjectRef<AddonDefinition>> + Send + use<> {
    feeds.addons.subscribe().flat_map(|change| {
        let entry = change.object().spec.addon.as_deref().map(ObjectRef::new);
        stream::iter(entry)
    })
}

impl Reconciler for Controller {
    type Object = AddonDefinition;
    type Error = ApiError;
    const NAME: &'static str = "addon-rollout";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, entry: Arc<AddonDefinition>) -> Result<Wake, ApiError> {
        let Some((version, policy)) = view::policy(&entry) else {
            return Ok(Wake::OnChange);
        };
        let addons = self.followers(&entry.name_any());
        let members: Vec<_> = addons
            .iter()
            .map(|addon| {
                let namespace = addon.namespace();
                let name = &addon.spec.cluster_ref.name;
                let cluster = self.feeds.clusters.get(namespace.as_deref(), name);
                view::member(addon, cluster.as_deref())
            })
            .collect();
        let plan = rollout::plan(version, &policy, &members);
        for (id, version) in &plan.grants {
            let addon = addons.iter().find(|addon| view::id(addon) == *id);
            if let Some(addon) = addon {
                self.grant(addon, version).await?;
            }
        }
        let held = entry.status.clone().unwrap_or_default();
        let (generation, now) = (entry.metadata.generation, self.clock.now());
        let mut next = view::status(version, &plan.progress);
        let verdict = view::verdict(version, &plan.progress);
        next.observed_generation = generation;
        next.conditions = conditions::settle(&held.conditions, &[verdict], generation, now);
        status::report(&self.applier, &*entry, entry.status.as_ref(), &next).await?;
        Ok(Wake::OnChange)
    }
}

impl Controller {
    /// The addons that take the version of the catalogue, whatever it is.
    fn followers(&self, entry: &str) -> Vec<Arc<TenantAddon>> {
        let store = self.feeds.addons.store();
        store.state_filter(|addon: &TenantAddon| {
            let follows = addon.spec.version.as_ref().is_none_or(String::is_empty);
            addon.spec.addon.as_deref() == Some(entry)
                && follows
                && addon.metadata.deletion_timestamp.is_none()
        })
    }

    async fn grant(&self, addon: &TenantAddon, version: &str) -> Result<(), ApiError> {
        let name = addon.name_any();
        let namespace = addon.namespace().unwrap_or_default();
        let api: Api<TenantAddon> = Api::namespaced(self.applier.client().clone(), &namespace);
        // One of the same name that came since has its own turn.
        let change = json!({"metadata": {
            "uid": addon.uid(), "annotations": {CATALOGUE_VERSION: version},
        }});
        let granted = api
            .patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&change))
            .await;
        match granted {
            Ok(_) => {
                tracing::info!(addon = %view::id(addon), version, "may have this version");
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(ApiError::of("change", "TenantAddon", &name)(error)),
        }
    }
}
