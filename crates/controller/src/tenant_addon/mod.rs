//! `TenantAddon`: a release of Helm on a tenant cluster. What comes next is decided by `butler-addons` over what the
//! cluster itself says; a step of Helm runs beside the passes and wakes its addon when it ends (ADR 0029).

mod addresses;
mod brought;
pub(crate) mod dependencies;
mod end;
pub mod export;
mod keep;
pub(crate) mod observe;
pub mod preview;
pub(crate) mod resolve;
pub(crate) mod say;
pub(crate) mod secrets;
mod triggers;

use std::sync::Arc;

use butler_addons::{
    plan::{self, Job, Step, World},
    request::Request,
};
use butler_api::{
    butler::{TenantAddon, tenant_addon::TenantAddonStatus},
    names::{self, ADDON_FINALIZER},
};
use butler_helm::{StepError, charts::Access, look, namespace, release};
use butler_runtime::{
    apply::Applier,
    clock::SharedClock,
    conditions,
    controller::{self, Bounds, Reconciler, Wake},
    error::{ApiError, Category, Classify, chain},
    events::Events,
    finalizers,
    own_writes::OwnWrites,
    status,
};
use butler_steward::Reach;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use self::{
    observe::Place,
    say::{Hindrance, Report, Seen, hindered},
};
use crate::{
    Feeds, MANAGER, Surroundings,
    addon_engine::{Engine, Key, Trouble, WORKERS},
};

/// Direct steps in one pass: a release that was left pending, put right, healthy and noted is four.
const STEPS: usize = 4;

/// What a step without Helm did.
enum Righted {
    /// There was nothing for it to do.
    Nothing,
    /// It noted something on the record, and in what was seen of it.
    Noted,
    /// It changed what has to be looked at again.
    Changed,
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The management cluster.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// What stands in the tenant.
    #[error(transparent)]
    Look(#[from] look::LookError),
}

impl Classify for PassError {
    fn category(&self) -> Category {
        match self {
            Self::Api(error) | Self::Look(look::LookError::Api(error)) => error.category(),
            Self::Look(_) => Category::Internal,
        }
    }
}

/// Reconciles addons of tenants.
pub struct Controller {
    feeds: Arc<Feeds>,
    applier: Applier,
    events: Events,
    clock: SharedClock,
    engine: Engine,
    reach: Reach,
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
    let clock = Arc::clone(&surroundings.clock);
    let (engine, ended) = match Engine::start(settings, clock, WORKERS) {
        Ok(started) => started,
        Err(error) => {
            tracing::error!(folder = %settings.folder.display(), %error, "addons have no folder to work in");
            return shutdown.cancelled().await;
        }
    };
    let controller = Controller::new(client, feeds, surroundings, engine);
    controller::run(
        controller,
        &feeds.addons,
        triggers::all(feeds, ended),
        Bounds {
            concurrency: 16,
            ..Bounds::default()
        },
        surroundings.reconciles.clone(),
        shutdown.clone(),
    )
    .await;
}

fn key(addon: &TenantAddon) -> Key {
    Key {
        uid: addon.uid().unwrap_or_default(),
        namespace: addon.namespace(),
        name: addon.name_any(),
    }
}

impl Reconciler for Controller {
    type Object = TenantAddon;
    type Error = PassError;
    const NAME: &'static str = "tenant-addon";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, addon: Arc<TenantAddon>) -> Result<Wake, PassError> {
        if addon.metadata.deletion_timestamp.is_some() {
            return self.end(&addon).await;
        }
        if !finalizers::has(&*addon, ADDON_FINALIZER) {
            let api: Api<TenantAddon> = self.applier.beside(&*addon);
            finalizers::add(&api, &addon, ADDON_FINALIZER).await?;
            // The write is seen as a change.
            return Ok(Wake::OnChange);
        }
        if self.is_at_work(&addon) {
            // Its end wakes the addon.
            return Ok(Wake::OnChange);
        }
        let report = self.look(&addon).await?;
        self.report(&addon, report).await
    }
}

impl Controller {
    pub(crate) fn new(
        client: &Client,
        feeds: &Arc<Feeds>,
        surroundings: &Surroundings,
        engine: Engine,
    ) -> Self {
        let clock = || Arc::clone(&surroundings.clock);
        Self {
            feeds: Arc::clone(feeds),
            applier: Applier::new(client.clone(), MANAGER),
            events: Events::new(client.clone(), "tenant-addon", clock()),
            clock: clock(),
            engine,
            reach: surroundings.reach,
        }
    }

    /// Whether a step for it is under way.
    pub(crate) fn is_at_work(&self, addon: &TenantAddon) -> bool {
        self.engine.pool.job(&key(addon)) == Job::Running
    }

    /// Forgets one that is gone.
    pub(crate) fn forget(&self, addon: &TenantAddon) {
        self.engine.pool.forget(&key(addon));
    }

    async fn report(&self, addon: &TenantAddon, report: Report) -> Result<Wake, PassError> {
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
        let since = match held.last_transition_time {
            Some(since) if held.phase == Some(report.phase) => since,
            _ => Time(now),
        };
        let next = TenantAddonStatus {
            observed_generation: generation,
            conditions: conditions::settle(&held.conditions, &report.verdicts, generation, now),
            phase: Some(report.phase),
            last_transition_time: Some(since),
            message: Some(report.message),
            installed_version: seen.installed_version,
            last_attempted_version: seen.attempted_version,
            helm_release: seen.release,
        };
        status::report(&self.applier, addon, addon.status.as_ref(), &next).await?;
        Ok(report.wake)
    }

    /// Observes, decides, and does what is next.
    async fn look(&self, addon: &Arc<TenantAddon>) -> Result<Report, PassError> {
        if addon.spec.paused {
            return Ok(say::paused());
        }
        let place = match self.place(addon).await? {
            Ok(place) => place,
            Err(report) => return Ok(*report),
        };
        match self.advance(addon, &place).await {
            Ok(report) => Ok(report),
            // The tenant's own trouble is no failure of ours: it is told, and looked at again.
            Err(PassError::Look(look::LookError::Api(error)))
                if error.category() == Category::Unavailable =>
            {
                let trouble = Trouble::new("ClusterUnreachable", chain(&error));
                Ok(hindered(
                    Hindrance::Cluster,
                    &trouble,
                    Wake::After(say::ASK),
                ))
            }
            Err(error) => Err(error),
        }
    }

    /// Looks at a release, and does or starts what is next.
    pub(crate) async fn advance(
        &self,
        addon: &TenantAddon,
        place: &Place,
    ) -> Result<Report, PassError> {
        let request = &place.request;
        let mut world = self.world(addon, place).await?;
        let mut step = plan::next(request, &world, self.clock.now());
        if say::is_left_alone(place.mode, &world) {
            return Ok(say::left_alone(request, &world, &step, place.mode));
        }
        for _ in 0..STEPS {
            match self.put_right(place, &mut world, &step).await {
                Ok(Righted::Nothing) => break,
                Ok(Righted::Noted) => {}
                Ok(Righted::Changed) => world = self.world(addon, place).await?,
                Err(error @ look::LookError::Refused { .. }) => {
                    return Ok(say::not_put_back(request, &world, &error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
            let next = plan::next(request, &world, self.clock.now());
            let stuck = next == step;
            step = next;
            if stuck {
                // Somebody changes it back as fast as we do: that is told, not fought.
                break;
            }
        }
        self.submit(addon, place, &step);
        if step == Step::Done
            && let Some(ranges) = addon.annotations().get(names::ADDRESS_RANGES)
        {
            addresses::give(place, ranges).await?;
        }
        Ok(say::installed(request, &world, &step, self.clock.now()))
    }

    /// Does what needs no Helm.
    async fn put_right(
        &self,
        place: &Place,
        world: &mut World,
        step: &Step,
    ) -> Result<Righted, look::LookError> {
        let (client, release) = (&place.client, &place.request.release);
        match (step, &world.latest) {
            (Step::RecoverPending(revision), _) => {
                tracing::info!(release = %release, revision, "a release was left pending");
                look::recover(client, release, *revision).await?;
            }
            (Step::MarkHealthy(revision), _) => {
                look::mark_healthy(client, release, *revision).await?;
                if let Some(last) = world.revisions.last_mut() {
                    last.healthy = true;
                }
                return Ok(Righted::Noted);
            }
            (Step::CorrectDrift(drifted), Some(record)) => {
                look::correct(client, &self.engine.kinds, release, record, drifted).await?;
            }
            _ => return Ok(Righted::Nothing),
        }
        Ok(Righted::Changed)
    }

    /// Hands a step to the pool.
    fn submit(&self, addon: &TenantAddon, place: &Place, step: &Step) {
        if !matches!(
            step,
            Step::Install | Step::Upgrade | Step::Rollback(_) | Step::Uninstall
        ) {
            return;
        }
        let (helm, charts) = (self.engine.helm.clone(), Arc::clone(&self.engine.charts));
        let (request, access) = (place.request.clone(), place.access.clone());
        let (kubeconfig, owner) = (place.kubeconfig.clone(), addon.uid().unwrap_or_default());
        let client = place.client.clone();
        let fingerprint = Some(request.fingerprint());
        let step = step.clone();
        self.engine
            .pool
            .submit(key(addon), fingerprint, async move {
                let target = release::Target {
                    kubeconfig: &kubeconfig,
                    owner: &owner,
                };
                carry_out(&helm, &charts, &client, &target, &request, &access, &step).await
            });
    }
}

async fn carry_out(
    helm: &butler_helm::process::Helm,
    charts: &butler_helm::charts::Charts,
    client: &Client,
    target: &release::Target<'_>,
    request: &Request,
    access: &Access,
    step: &Step,
) -> Result<(), StepError> {
    match step {
        Step::Rollback(to) => release::rollback(helm, target, request, *to).await,
        Step::Uninstall => {
            release::uninstall(helm, target, &request.release, request.timeout).await
        }
        _ => {
            let chart = charts.get(&request.chart, access).await?;
            if *step == Step::Install && request.create_namespace {
                namespace::make(client, &request.release.namespace).await?;
            }
            release::upgrade(helm, target, request, &chart).await
        }
    }
}
