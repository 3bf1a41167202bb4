//! What an addon's pass reads: the catalogue, Secrets, its cluster, and what stands there.

use std::sync::Arc;

use butler_addons::{plan::World, record::Status, request::Request};
use butler_api::{
    butler::{AddonDefinition, TenantAddon, tenant_cluster::ManagementMode},
    names::ADDON_ROLE,
};
use butler_helm::{charts::Access, look};
use butler_runtime::{controller::Wake, error::chain};
use butler_steward::tenant::client::connect;
use kube::{Client, ResourceExt};

use super::{
    Controller, PassError, brought,
    dependencies::{self, Entry},
    key, resolve,
    say::{ASK, Hindrance, Report, SOON, hindered},
    secrets,
};
use crate::{
    addon_engine::{Trouble, catalogue},
    slim::ClusterSummary,
    tenant_addresses::{
        provider::provider,
        services::{early_kubeconfig, kubeconfig},
    },
};

/// Everything that is needed to look at a release and to change it.
pub(crate) struct Place {
    pub(crate) request: Request,
    pub(crate) access: Access,
    pub(crate) client: Client,
    pub(crate) kubeconfig: Vec<u8>,
    /// How far the release is ours to change.
    pub(crate) mode: ManagementMode,
}

impl Controller {
    pub(super) fn definition(&self, addon: &TenantAddon) -> Option<Arc<AddonDefinition>> {
        let name = addon.spec.addon.as_deref()?;
        self.feeds.definitions.get(None, name)
    }

    /// The addons of the same cluster, this one among them.
    pub(super) fn siblings(&self, addon: &TenantAddon) -> Vec<Entry> {
        let namespace = addon.namespace().unwrap_or_default();
        let all = self.feeds.addons.all_in(&namespace).into_iter();
        let here = all.filter(|other| other.spec.cluster_ref == addon.spec.cluster_ref);
        here.map(|other| {
            let definition = self.definition(&other);
            (other, definition)
        })
        .collect()
    }

    pub(super) fn cluster(&self, addon: &TenantAddon) -> Option<Arc<ClusterSummary>> {
        let namespace = addon.namespace();
        self.feeds
            .clusters
            .get(namespace.as_deref(), &addon.spec.cluster_ref.name)
    }

    /// Where the addon is installed and what; or what to report instead.
    pub(super) async fn place(
        &self,
        addon: &Arc<TenantAddon>,
    ) -> Result<Result<Place, Box<Report>>, PassError> {
        let stop = |at, trouble: &Trouble, wake| Ok(Err(Box::new(hindered(at, trouble, wake))));
        let definition = self.definition(addon);
        let entry = (Arc::clone(addon), definition.clone());
        let siblings = self.siblings(addon);
        let claim = |(addon, definition): &Entry| {
            dependencies::claim(&**addon, resolve::release(addon, definition.as_deref()))
        };
        let claims: Vec<_> = siblings.iter().map(claim).collect();
        if let Some(trouble) = dependencies::rival("TenantAddon", &claim(&entry), &claims) {
            return stop(Hindrance::Request, &trouble, Wake::OnChange);
        }
        let management = self.applier.client();
        let asked = match secrets::asked(management, addon, definition.as_deref()).await? {
            Ok(asked) => asked,
            Err(trouble) if trouble.reason == resolve::WAITS_FOR_ROLLOUT => {
                return stop(Hindrance::Dependencies, &trouble, Wake::OnChange);
            }
            Err(trouble) => return stop(Hindrance::Request, &trouble, Wake::After(ASK)),
        };
        let Some(cluster) = self.cluster(addon) else {
            let name = &addon.spec.cluster_ref.name;
            let trouble = Trouble::new(
                "ClusterNotFound",
                format!("there is no TenantCluster {name}"),
            );
            return stop(Hindrance::Cluster, &trouble, Wake::OnChange);
        };
        let (chart, kubernetes) = (&asked.request.chart.version, cluster.kubernetes());
        if let Err(trouble) = catalogue::compatible(definition.as_deref(), chart, kubernetes) {
            return stop(Hindrance::Request, &trouble, Wake::OnChange);
        }
        let found = if addon.labels().contains_key(ADDON_ROLE) {
            early_kubeconfig(management, self.reach, &cluster).await?
        } else {
            kubeconfig(management, self.reach, &cluster).await?
        };
        let Some((_, kubeconfig)) = found else {
            let phase = cluster.status.phase.as_deref().unwrap_or("new");
            let trouble = Trouble::new(
                "ClusterNotReady",
                format!("the cluster is not ready: it is {phase}"),
            );
            // Its Secret is not watched, and comes a moment after its name.
            let is_named = cluster.status.kubeconfig_secret_ref.is_some();
            let wake = if is_named { SOON } else { ASK };
            return stop(Hindrance::Cluster, &trouble, Wake::After(wake));
        };
        let brings = |name: &str| {
            let category = catalogue::category(&self.feeds, name);
            category.is_some_and(|category| {
                let provider = provider(&self.feeds, &cluster);
                brought::brings(&cluster, provider.as_deref(), category)
            })
        };
        if let Err(trouble) = dependencies::waits_for(&entry, &siblings, brings) {
            return stop(Hindrance::Dependencies, &trouble, Wake::OnChange);
        }
        match connect(&kubeconfig).await {
            Ok(client) => Ok(Ok(Place {
                request: asked.request,
                access: asked.access,
                client,
                kubeconfig,
                mode: cluster.spec.management_policy.mode,
            })),
            Err(error) => {
                let trouble = Trouble::new("ClusterUnreachable", chain(&error));
                stop(Hindrance::Cluster, &trouble, Wake::After(ASK))
            }
        }
    }

    /// What stands in the tenant, while no step is under way.
    pub(super) async fn world(
        &self,
        addon: &TenantAddon,
        place: &Place,
    ) -> Result<World, PassError> {
        let release = &place.request.release;
        let records = look::records(&place.client, release).await?;
        let mut world = World {
            revisions: records.revisions,
            latest: records.latest,
            owner: addon.uid().unwrap_or_default(),
            adopt: resolve::adopts(addon.annotations()),
            job: self.engine.pool.job(&key(addon)),
            ..World::default()
        };
        world.adopt |= self.inherits(addon, &world);
        let stands = world.revisions.last().is_some_and(|last| {
            last.status == Status::Deployed && last.owner.as_ref() == Some(&world.owner)
        });
        if let (true, Some(record)) = (stands, &world.latest) {
            let kinds = &self.engine.kinds;
            let objects = look::objects(&place.client, kinds, &place.request, record).await?;
            world.health = Some(objects.health);
            world.drifted = objects.drifted;
        }
        Ok(world)
    }
}
