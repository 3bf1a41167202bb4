//! `ManagementAddon`: a release of Helm on the management cluster itself.
//!
//! An addon is looked at as a `TenantAddon` of a cluster that is this one ([`view`]), so that both kinds resolve, wait,
//! install, heal and go in the same way. What differs is here: whose permissions Helm has ([`account`]), and what is told.

mod account;
mod end;
pub mod preview;
mod triggers;
mod view;

use std::sync::Arc;

use butler_api::{
    butler::{
        AddonDefinition, ManagementAddon, TenantAddon, addon_definition::AddonCategory,
        management_addon::ManagementAddonStatus, tenant_cluster::ManagementMode,
    },
    names::ADDON_FINALIZER,
};
use butler_runtime::{
    apply::Applier,
    clock::SharedClock,
    conditions,
    controller::{self, Bounds, Reconciler, Wake},
    error::ApiError,
    events::Events,
    finalizers,
    own_writes::OwnWrites,
    status,
};
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use self::account::Account;
use crate::{
    Feeds, MANAGER, Surroundings,
    addon_engine::{Engine, Trouble, catalogue},
    tenant_addon::{
        self, PassError, dependencies,
        observe::Place,
        say::{self, Hindrance, Report, Seen, hindered},
        secrets::{self, Asked},
    },
};

pub use self::account::{ACCOUNT, Management};

/// Reconciles addons of the management cluster.
pub struct Controller {
    feeds: Arc<Feeds>,
    applier: Applier,
    events: Events,
    clock: SharedClock,
    account: Account,
    addons: tenant_addon::Controller,
}

/// Runs until `shutdown`; without Helm it only waits for that.
pub(crate) async fn run(
    client: &Client,
    feeds: &Arc<Feeds>,
    surroundings: &Surroundings,
    shutdown: &CancellationToken,
) {
    let Some(settings) = &surroundings.addons else {
        return shutdown.cancelled().await;
    };
    let clock = || Arc::clone(&surroundings.clock);
    // Few addons, and none of them in a hurry: tenants have the other places.
    let started = Engine::start(settings, clock(), 1);
    let (engine, ended) = match started {
        Ok(started) => started,
        Err(error) => {
            tracing::error!(folder = %settings.folder.display(), %error, "addons have no folder to work in");
            return shutdown.cancelled().await;
        }
    };
    let addons = tenant_addon::Controller::new(client, feeds, surroundings, engine);
    let controller = Controller {
        feeds: Arc::clone(feeds),
        applier: Applier::new(client.clone(), MANAGER),
        events: Events::new(client.clone(), "management-addon", clock()),
        clock: clock(),
        account: Account::new(client.clone(), surroundings.management.clone(), clock()),
        addons,
    };
    controller::run(
        controller,
        &feeds.management_addons,
        triggers::all(feeds, ended),
        Bounds {
            concurrency: 2,
            ..Bounds::default()
        },
        surroundings.reconciles.clone(),
        shutdown.clone(),
    )
    .await;
}

impl Reconciler for Controller {
    type Object = ManagementAddon;
    type Error = PassError;
    const NAME: &'static str = "management-addon";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, addon: Arc<ManagementAddon>) -> Result<Wake, PassError> {
        if addon.metadata.deletion_timestamp.is_some() {
            return self.end(&addon).await;
        }
        if !finalizers::has(&*addon, ADDON_FINALIZER) {
            let api: Api<ManagementAddon> = Api::all(self.applier.client().clone());
            finalizers::add(&api, &addon, ADDON_FINALIZER).await?;
            // The write is seen as a change.
            return Ok(Wake::OnChange);
        }
        if self.addons.is_at_work(&view::tenant_addon(&addon)) {
            // Its end wakes the addon.
            return Ok(Wake::OnChange);
        }
        let report = self.look(&addon).await?;
        self.report(&addon, report).await
    }
}

/// What an addon asks for, and the addon as one of a tenant; or what stands in the way.
async fn asked(
    client: &Client,
    addon: &ManagementAddon,
    definition: Option<&AddonDefinition>,
) -> Result<Result<(TenantAddon, Asked), Trouble>, ApiError> {
    let shadow = view::with_version(view::tenant_addon(addon), definition);
    let asked = secrets::asked(client, &shadow, definition).await?;
    Ok(asked.map(|mut asked| {
        asked.request.release = view::release(addon, definition);
        (shadow, asked)
    }))
}

impl Controller {
    async fn look(&self, addon: &ManagementAddon) -> Result<Report, PassError> {
        if addon.spec.paused {
            return Ok(say::paused());
        }
        match self.place(addon).await? {
            Ok(place) => {
                let shadow = view::tenant_addon(addon);
                self.addons.advance(&shadow, &place).await
            }
            Err((at, trouble, wake)) => Ok(hindered(at, &trouble, wake)),
        }
    }

    /// What is installed and with which permissions; or what stands in the way.
    async fn place(
        &self,
        addon: &ManagementAddon,
    ) -> Result<Result<Place, (Hindrance, Trouble, Wake)>, PassError> {
        let later = Wake::After(say::ASK);
        let request_trouble = |trouble| Ok(Err((Hindrance::Request, trouble, later)));
        if let Some(trouble) = view::rival(&self.feeds, addon) {
            return request_trouble(trouble);
        }
        let definition = view::definition(&self.feeds, addon);
        let client = self.applier.client();
        let (shadow, asked) = match asked(client, addon, definition.as_deref()).await? {
            Ok(asked) => asked,
            Err(trouble) => return request_trouble(trouble),
        };
        let version = client.apiserver_version().await;
        let version = version.map_err(ApiError::of("ask", "API server", "its version"))?;
        let (chart, version) = (&asked.request.chart.version, &version.git_version);
        if let Err(trouble) = catalogue::compatible(definition.as_deref(), chart, version) {
            return request_trouble(trouble);
        }
        // A cluster that runs Butler has a network; who gives out addresses on it is nothing that Butler chose.
        let brings = |name: &str| {
            let category = catalogue::category(&self.feeds, name);
            matches!(
                category,
                Some(AddonCategory::Cni | AddonCategory::Loadbalancer)
            )
        };
        let all = view::entries(&self.feeds);
        if let Err(trouble) = dependencies::waits_for(&(Arc::new(shadow), definition), &all, brings)
        {
            return Ok(Err((Hindrance::Dependencies, trouble, Wake::OnChange)));
        }
        match self.account.get().await? {
            Ok((kubeconfig, client)) => Ok(Ok(Place {
                request: asked.request,
                access: asked.access,
                client,
                kubeconfig,
                mode: ManagementMode::Active,
            })),
            Err(trouble) => Ok(Err((Hindrance::Cluster, trouble, later))),
        }
    }

    async fn report(&self, addon: &ManagementAddon, report: Report) -> Result<Wake, PassError> {
        if let Some(note) = &report.note {
            self.events.tell(addon, note).await;
        }
        let held = addon.status.clone().unwrap_or_default();
        let seen = report.seen.unwrap_or(Seen {
            installed_version: held.installed_version,
            attempted_version: held.last_attempted_version,
            release: held.helm_release,
        });
        let (generation, now) = (addon.metadata.generation, self.clock.now());
        let mut verdicts = report.verdicts;
        // It is the cluster that all of this runs on.
        verdicts.retain(|verdict| verdict.type_ != "ClusterReady");
        let next = ManagementAddonStatus {
            observed_generation: generation,
            conditions: conditions::settle(&held.conditions, &verdicts, generation, now),
            phase: Some(view::phase(report.phase)),
            message: Some(report.message),
            installed_version: seen.installed_version,
            last_attempted_version: seen.attempted_version,
            helm_release: seen.release,
        };
        status::report(&self.applier, addon, addon.status.as_ref(), &next).await?;
        Ok(report.wake)
    }

    async fn let_go(&self, addon: &ManagementAddon) -> Result<Wake, PassError> {
        self.addons.forget(&view::tenant_addon(addon));
        let api: Api<ManagementAddon> = Api::all(self.applier.client().clone());
        finalizers::remove(&api, addon, ADDON_FINALIZER).await?;
        tracing::info!(addon = %addon.name_any(), "removed");
        Ok(Wake::OnChange)
    }
}
