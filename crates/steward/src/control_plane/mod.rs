//! `TenantControlPlane`: brings a hosted control plane to its spec, stage by stage, and says how far it is.
//!
//! Spec, store, endpoint, certificates, workload, tenant: each stage needs what the one before it found, so a
//! stage that has to wait ends the pass, and the conditions say which one and for what.

mod authority;
mod certificates;
mod encryption;
mod ending;
mod error;
mod judgements;
mod notes;
mod overrides;
mod owning;
mod progress;
mod pruning;
mod reaching;
mod report;
mod settings;
mod storing;
mod tenants;
mod workload;

use std::{sync::Arc, time::Duration};

use authority::Brought;
use butler_api::{
    steward::{TenantControlPlane, tenant_control_plane::TenantControlPlaneStatus},
    types::KubeVersion,
};
use butler_pki::SecretKind;
use butler_runtime::{
    apply::{Applier, Outcome},
    clock::SharedClock,
    conditions,
    controller::{Reconciler, Wake},
    error::{Classify, chain},
    events::Events,
    finalizers,
    own_writes::OwnWrites,
    status,
};
use certificates::{CertificateError, Certificates, Known};
pub use error::Error;
use jiff::Timestamp;
use judgements::Judgements;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, Resource as _, ResourceExt};
use progress::Progress;
use report::Facts;
use storing::Placed;
use tenants::Tenants;

use crate::{
    Feeds,
    data_store::{Directory, Store},
    endpoint::Endpoint,
    metering::Figures,
    names,
    provider::custody,
    spec::{ControlPlane, validate},
    store,
};

/// How soon something that no watch tells of, such as a host name, is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// What the platform decides for all control planes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `DataStore` of control planes that name none.
    pub default_store: String,
    /// DNS domain of the management cluster.
    pub management_domain: String,
    /// How Steward itself reaches tenants.
    pub reach: Reach,
}

/// How Steward itself reaches the API servers of tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By their Services: Steward runs in the management cluster.
    Service,
    /// By their endpoints: Steward runs outside.
    Endpoint,
}

impl Reach {
    /// The kubeconfig to use.
    fn kubeconfig(self) -> &'static str {
        match self {
            Self::Service => "super-admin.svc",
            Self::Endpoint => "super-admin.conf",
        }
    }
}

/// Reconciles control planes.
pub struct Controller {
    applier: Applier,
    clock: SharedClock,
    feeds: Arc<Feeds>,
    directory: Arc<Directory>,
    figures: Arc<Figures>,
    settings: Settings,
    tenants: Tenants,
    judgements: Judgements,
    events: Events,
}

impl Controller {
    pub(crate) fn new(
        client: &Client,
        clock: SharedClock,
        feeds: Arc<Feeds>,
        directory: Arc<Directory>,
        figures: Arc<Figures>,
        settings: Settings,
    ) -> Self {
        let applier = Applier::new(client.clone(), names::FIELD_MANAGER);
        let events = Events::new(client.clone(), names::FIELD_MANAGER, Arc::clone(&clock));
        Self {
            applier,
            events,
            clock,
            feeds,
            directory,
            figures,
            settings,
            tenants: Tenants::default(),
            judgements: Judgements::default(),
        }
    }

    fn deployment(&self, spec: &ControlPlane) -> Option<Arc<Deployment>> {
        let identity = &spec.identity;
        self.feeds
            .deployments
            .open(Some(&identity.namespace), &identity.name)
    }

    /// Goes through the stages until one has to wait.
    async fn advance(
        &self,
        raw: &TenantControlPlane,
        spec: &ControlPlane,
        progress: &mut Progress,
        facts: &mut Facts,
    ) -> Result<Wake, Error> {
        let Some(placed) = self.store(raw, spec, progress, facts).await? else {
            return Ok(Wake::OnChange);
        };
        let Placed {
            store,
            identity,
            overrides,
            service,
        } = placed;
        let Some(endpoint) = self.endpoint(spec, service, progress, facts).await? else {
            return Ok(Wake::After(ASK_AGAIN));
        };
        let Some(certificates) = self
            .certificates(raw, spec, &endpoint, &store, &identity, progress, facts)
            .await?
        else {
            return Ok(Wake::After(ASK_AGAIN));
        };
        let Some(held) = self.optional_secrets(spec, progress).await? else {
            return Ok(Wake::After(ASK_AGAIN));
        };
        let Some(mut prepared) = self.settings(raw, spec, &held, progress).await? else {
            return Ok(Wake::After(ASK_AGAIN));
        };
        prepared.overrides = overrides;
        let running = self
            .workload(
                raw,
                spec,
                &endpoint,
                &store,
                &identity,
                &certificates,
                &prepared,
                &held,
                progress,
                facts,
            )
            .await?;
        if progress.is_taken() {
            return Ok(Wake::After(ASK_AGAIN));
        }
        let mut next_look = None;
        if let Some(running) = running {
            next_look = self
                .tenant(spec, running, &endpoint, &certificates, progress, facts)
                .await?;
            let rewriting = self.rewrite(spec, &prepared.encryption, &held, &certificates);
            if let Some((words, wait)) = rewriting.await? {
                progress.add_to("Encrypted", &words);
                let again = self.clock.now() + wait;
                next_look = Some(next_look.map_or(again, |next| next.min(again)));
            }
        }
        Ok(self.wake([certificates.next_renewal, next_look, prepared.again]))
    }

    /// Keys, certificates and kubeconfigs are in place.
    #[expect(
        clippy::too_many_arguments,
        reason = "a stage takes what the earlier ones found"
    )]
    async fn certificates(
        &self,
        raw: &TenantControlPlane,
        spec: &ControlPlane,
        endpoint: &Endpoint,
        store: &Store,
        identity: &store::Identity,
        progress: &mut Progress,
        facts: &mut Facts,
    ) -> Result<Option<Certificates>, Error> {
        const STAGE: &str = "CertificatesReady";
        let owner = raw.controller_owner_ref(&()).ok_or(Error::Identity)?;
        let held = certificates::watched(&self.feeds.secrets, &spec.identity);
        let own = SecretKind::Ca.name(&spec.identity.name);
        let stands = held.iter().any(|held| held.name_any() == own);
        let (authority, problem) = match self.authority(spec, stands).await? {
            Brought::Nothing => (None, None),
            Brought::Usable(authority) => (Some(*authority), None),
            Brought::Unusable {
                problem,
                stands: true,
            } => (None, Some(problem)),
            Brought::Unusable {
                problem,
                stands: false,
            } => {
                progress.stopped(STAGE, "AuthorityMissing", problem);
                return Ok(None);
            }
        };
        let wanted = certificates::wanted(raw, spec, endpoint, store, identity.user(), authority);
        // The finalizer is the first write: what lacks it has nothing else yet.
        let known = if finalizers::has(raw, names::FINALIZER) {
            Known::Watched
        } else {
            Known::Nothing
        };
        let now = self.clock.now();
        let ensured = certificates::ensure(
            &self.applier,
            &self.judgements,
            &wanted,
            held,
            known,
            &owner,
            now,
        );
        let certificates = match ensured.await {
            Err(CertificateError::Taken(name)) => {
                progress.taken(STAGE, "Secret", &name);
                return Ok(None);
            }
            ensured => ensured?,
        };
        let blocked = problem.iter().chain(&certificates.blocked);
        let blocked: Vec<&str> = blocked.map(String::as_str).collect();
        if blocked.is_empty() {
            progress.passed(STAGE, "Ready", "everything is signed and in date");
        } else {
            progress.stopped(STAGE, "Blocked", blocked.join("; "));
        }
        facts.contents = Some(Arc::clone(&certificates.contents));
        self.figures.expires(&owner.uid, certificates.first_expiry);
        Ok(Some(certificates))
    }

    /// What nodes and people find in the tenant cluster stands.
    async fn tenant(
        &self,
        spec: &ControlPlane,
        running: KubeVersion,
        endpoint: &Endpoint,
        certificates: &Certificates,
        progress: &mut Progress,
        facts: &mut Facts,
    ) -> Result<Option<Timestamp>, Error> {
        const STAGE: &str = "TenantReady";
        let Some((kubeconfig, plan)) =
            workload::tenant_plan(spec, running, endpoint, certificates, self.settings.reach)?
        else {
            progress.stopped(
                STAGE,
                "NoKubeconfig",
                "there is no kubeconfig to reach the tenant with",
            );
            return Ok(None);
        };
        let uid = &spec.identity.uid;
        let found = self
            .tenants
            .look(uid, kubeconfig, plan, self.clock.now())
            .await;
        facts.furnished = found.settled;
        if found.settled {
            progress.passed(STAGE, "Ready", found.message);
        } else {
            progress.stopped(STAGE, "TenantUnsettled", found.message);
        }
        Ok(found.next)
    }

    fn wake(&self, moments: [Option<Timestamp>; 3]) -> Wake {
        let now = self.clock.now();
        let next = moments.into_iter().flatten().min();
        next.map_or(Wake::OnChange, |next| {
            let wait = next.duration_since(now).unsigned_abs();
            let wait = if next > now { wait } else { Duration::ZERO };
            Wake::After(wait.max(Duration::from_secs(1)))
        })
    }

    async fn report(
        &self,
        raw: &TenantControlPlane,
        next: TenantControlPlaneStatus,
        progress: Progress,
        went_well: bool,
    ) -> Result<(), Error> {
        let held = raw.status.as_ref();
        let before = held
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let generation = raw.metadata.generation;
        let verdicts = progress.verdicts();
        let next = TenantControlPlaneStatus {
            observed_generation: generation,
            conditions: conditions::settle(before, &verdicts, generation, self.clock.now()),
            ..next
        };
        let reported = if went_well {
            status::report_in_turn(&self.applier, raw, held, &next).await?
        } else {
            status::report(&self.applier, raw, held, &next).await?
        };
        if reported == Outcome::PutOff {
            return Ok(());
        }
        for note in notes::notes(before, &verdicts) {
            // Rare, and large: it would make every pass as large.
            Box::pin(self.events.tell(raw, &note)).await;
        }
        Ok(())
    }
}

impl Reconciler for Controller {
    type Object = TenantControlPlane;
    type Error = Error;
    const NAME: &'static str = "tenantcontrolplane";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, raw: Arc<TenantControlPlane>) -> Result<Wake, Error> {
        if custody::is_leaving(&*raw) {
            return self.let_go(&raw).await;
        }
        if raw.metadata.deletion_timestamp.is_some() {
            // Rare, and large: it would make every pass as large.
            return Box::pin(self.end(&raw)).await;
        }
        if raw.annotations().contains_key(names::PAUSED) || !custody::is_ours(&raw) {
            return Ok(Wake::OnChange);
        }
        if !finalizers::has(&*raw, names::FINALIZER) {
            finalizers::add(&self.applier.beside(&*raw), &*raw, names::FINALIZER).await?;
        }
        let mut progress = Progress::default();
        let held = raw.status.clone().unwrap_or_default();
        if let Some(verdict) = report::left_out(&raw) {
            progress.also(verdict);
        }
        let spec = match validate(&raw) {
            Ok(spec) => spec,
            Err(error) => {
                progress.stopped("SpecValid", error.reason(), chain(&error));
                self.report(&raw, held, progress, false).await?;
                return Ok(Wake::OnChange);
            }
        };
        progress.passed("SpecValid", "Valid", "the spec can be carried out");
        let mut facts = Facts::default();
        let result = Box::pin(self.advance(&raw, &spec, &mut progress, &mut facts)).await;
        if let Err(error) = &result
            && progress.is_clear()
        {
            progress.stopped(error.stage(), error.category().as_str(), chain(error));
        }
        if progress.is_held() {
            return result;
        }
        let next = report::status(&held, &spec, facts);
        self.report(&raw, next, progress, result.is_ok()).await?;
        result
    }
}

/// One file that Steward itself signs in with.
fn own_kubeconfig(certificates: &Certificates, reach: Reach) -> Option<&[u8]> {
    certificates.file(SecretKind::AdminKubeconfig, reach.kubeconfig())
}
