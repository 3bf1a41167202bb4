//! `KubeconfigGenerator`: kubeconfigs for a user over selected control planes, renewed, and removed when they are
//! no longer meant.
//!
//! Secrets are not watched: each pass asks for the versions of those that matter and reads only what changed.

mod issue;
mod plan;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use butler_api::steward::{
    KubeconfigGenerator, TenantControlPlane,
    kubeconfig_generator::{GeneratorError, KubeconfigGeneratorStatus},
};
use butler_pki::SecretKind;
use butler_runtime::{
    apply::{Applier, full_name},
    clock::SharedClock,
    conditions::{self, Verdict},
    controller::{Reconciler, Wake},
    error::{ApiError, chain},
    finalizers,
    own_writes::OwnWrites,
    status,
};
use futures::{Stream, StreamExt, stream};
use issue::{Pass, Settled, Standing, Trouble};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PartialObjectMeta},
    runtime::reflector::ObjectRef,
};
use plan::Selection;

use crate::{Feeds, names};

/// How often generators look at Secrets, whose changes nobody tells them of.
const LOOK: Duration = Duration::from_mins(5);
/// Control planes that one generator works on at the same time.
const AT_ONCE: usize = 8;
/// As many errors as a status may hold.
const MOST_ERRORS: usize = 1000;

/// What was found up to date, by control plane.
type Memory = HashMap<String, Settled>;

/// Reconciles generators.
pub struct Controller {
    applier: Applier,
    clock: SharedClock,
    feeds: Arc<Feeds>,
    /// By the generator's UID.
    memories: Mutex<HashMap<String, Memory>>,
}

/// A selected control plane, and what became of its kubeconfig.
struct Tended {
    plane: Arc<TenantControlPlane>,
    result: Result<Standing, Trouble>,
}

impl Controller {
    pub(crate) fn new(client: &Client, clock: SharedClock, feeds: Arc<Feeds>) -> Self {
        Self {
            applier: Applier::new(client.clone(), names::FIELD_MANAGER),
            clock,
            feeds,
            memories: Mutex::default(),
        }
    }

    fn memories(&self) -> MutexGuard<'_, HashMap<String, Memory>> {
        // What is remembered only saves reads, and each entry is written whole.
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn generators(&self) -> Api<KubeconfigGenerator> {
        Api::all(self.applier.client().clone())
    }

    /// The control planes that are meant, in order.
    fn selected(&self, selection: &Selection) -> Vec<Arc<TenantControlPlane>> {
        let is_meant = |plane: &TenantControlPlane| {
            let namespace = plane.namespace().unwrap_or_default();
            let namespace = self.feeds.namespaces.get(None, &namespace);
            selection.holds(plane, namespace.as_deref().map(ResourceExt::labels))
        };
        let mut planes = self.feeds.control_planes.store().state_filter(is_meant);
        planes.sort_by_cached_key(|plane| full_name(&**plane));
        planes
    }

    /// Names, labels and versions of Secrets, without what they hold.
    async fn secrets(&self, labels: &str) -> Result<Vec<PartialObjectMeta<Secret>>, ApiError> {
        let secrets: Api<Secret> = Api::all(self.applier.client().clone());
        let found = secrets
            .list_metadata(&ListParams::default().labels(labels))
            .await;
        let found = found.map_err(ApiError::of("list", "Secrets labelled", labels))?;
        Ok(found.items)
    }

    async fn made_by(&self, generator: &str) -> Result<Vec<PartialObjectMeta<Secret>>, ApiError> {
        self.secrets(&format!("{}={generator}", names::MANAGED_BY))
            .await
    }

    /// Brings the kubeconfigs of the selected control planes up to date.
    async fn tend(
        &self,
        raw: &KubeconfigGenerator,
        planes: Vec<Arc<TenantControlPlane>>,
        held: &[PartialObjectMeta<Secret>],
    ) -> Result<Vec<Tended>, ApiError> {
        if planes.is_empty() {
            return Ok(Vec::new());
        }
        let sources = format!(
            "{}={},{} in ({},{})",
            names::PROJECT,
            names::STEWARD,
            names::COMPONENT,
            SecretKind::Ca.suffix(),
            SecretKind::AdminKubeconfig.suffix()
        );
        let sources = self.secrets(&sources).await?;
        let version = |secret: &PartialObjectMeta<Secret>| {
            let key = (secret.namespace().unwrap_or_default(), secret.name_any());
            (key, secret.resource_version())
        };
        let generator = raw.name_any();
        let pass = &Pass {
            applier: &self.applier,
            generator: &generator,
            endpoint_from: &raw.spec.control_plane_endpoint_from,
            now: self.clock.now(),
            versions: sources.iter().chain(held).map(version).collect(),
        };
        let uid = raw.uid().unwrap_or_default();
        let memory = self.memories().remove(&uid).unwrap_or_default();
        let work: Vec<_> = planes
            .into_iter()
            .map(|plane| {
                let before = memory.get(&full_name(&*plane));
                async move {
                    let subject = plan::subject(&raw.spec, &plane);
                    let result = pass.tend(&plane, subject, before).await;
                    Tended { plane, result }
                }
            })
            .collect();
        let tended: Vec<Tended> = stream::iter(work).buffered(AT_ONCE).collect().await;
        let settled = |tended: &Tended| {
            let settled = tended.result.as_ref().ok()?.settled.clone()?;
            Some((full_name(&*tended.plane), settled))
        };
        let memory = tended.iter().filter_map(settled).collect();
        self.memories().insert(uid, memory);
        Ok(tended)
    }

    /// Removes Secrets whose control planes are no longer meant.
    async fn prune(
        &self,
        generator: &str,
        held: &[PartialObjectMeta<Secret>],
        tended: &[Tended],
    ) -> Result<(), ApiError> {
        let keeps = |tended: &&Tended| tended.result.as_ref().err().is_none_or(Trouble::keeps);
        let kept: BTreeSet<_> = tended
            .iter()
            .filter(keeps)
            .map(|tended| {
                let plane = &tended.plane;
                let name = names::generated_kubeconfig(&plane.name_any(), generator);
                (plane.namespace().unwrap_or_default(), name)
            })
            .collect();
        for secret in plan::leftovers(generator, held, &kept) {
            self.applier.delete(secret).await?;
        }
        Ok(())
    }

    async fn report(
        &self,
        raw: &KubeconfigGenerator,
        verdict: Verdict,
        counts: KubeconfigGeneratorStatus,
    ) -> Result<(), ApiError> {
        let held = raw.status.as_ref();
        let before = held
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let generation = raw.metadata.generation;
        let next = KubeconfigGeneratorStatus {
            observed_generation: generation,
            conditions: conditions::settle(before, &[verdict], generation, self.clock.now()),
            ..counts
        };
        status::report(&self.applier, raw, held, &next).await?;
        Ok(())
    }

    /// Removes everything that the generator made, then lets it go.
    async fn end(&self, raw: &KubeconfigGenerator) -> Result<Wake, ApiError> {
        self.memories().remove(&raw.uid().unwrap_or_default());
        if finalizers::has(raw, names::FINALIZER) {
            let generator = raw.name_any();
            let held = self.made_by(&generator).await?;
            self.prune(&generator, &held, &[]).await?;
            finalizers::remove(&self.generators(), raw, names::FINALIZER).await?;
        }
        Ok(Wake::OnChange)
    }

    fn wake(&self, tended: &[Tended]) -> Wake {
        if tended.is_empty() {
            return Wake::OnChange;
        }
        let due = tended
            .iter()
            .filter_map(|tended| tended.result.as_ref().ok()?.renew_at)
            .min();
        Wake::After(due.map_or(LOOK, |due| until(due, self.clock.now()).min(LOOK)))
    }
}

impl Reconciler for Controller {
    type Object = KubeconfigGenerator;
    type Error = ApiError;
    const NAME: &'static str = "kubeconfiggenerator";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, raw: Arc<KubeconfigGenerator>) -> Result<Wake, ApiError> {
        if raw.metadata.deletion_timestamp.is_some() {
            return self.end(&raw).await;
        }
        if raw.annotations().contains_key(names::PAUSED) {
            return Ok(Wake::OnChange);
        }
        let generator = raw.name_any();
        let selection = match (plan::reserved(&generator), Selection::of(&raw.spec)) {
            (None, Ok(selection)) => selection,
            (Some(ending), _) => {
                let message = format!(
                    "Secrets named after a generator whose name ends in {ending} would be taken for those of control planes; make one with another name"
                );
                let verdict = Verdict::no("Ready", "NameReserved", message);
                self.report(&raw, verdict, held_counts(&raw)).await?;
                return Ok(Wake::OnChange);
            }
            (None, Err(error)) => {
                let message = format!("a selector cannot be understood: {}", chain(&error));
                let verdict = Verdict::no("Ready", "InvalidSelector", message);
                self.report(&raw, verdict, held_counts(&raw)).await?;
                return Ok(Wake::OnChange);
            }
        };
        if !finalizers::has(&*raw, names::FINALIZER) {
            finalizers::add(&self.generators(), &*raw, names::FINALIZER).await?;
        }
        let held = self.made_by(&generator).await?;
        let planes = self.selected(&selection);
        let tended = self.tend(&raw, planes, &held).await?;
        let pruned = self.prune(&generator, &held, &tended).await;
        let counts = counts(&tended);
        self.report(&raw, verdict(&counts), counts).await?;
        pruned?;
        let wake = self.wake(&tended);
        let failed = tended
            .into_iter()
            .find_map(|tended| match tended.result.err()? {
                Trouble::Api(error) => Some(error),
                Trouble::Subject(_)
                | Trouble::Obstacle(_)
                | Trouble::Issue(_)
                | Trouble::Identity => None,
            });
        failed.map_or(Ok(wake), Err)
    }
}

/// Generators to look at because control planes or namespaces changed: what they select or read may have.
pub(crate) fn triggers(
    feeds: &Feeds,
) -> impl Stream<Item = ObjectRef<KubeconfigGenerator>> + Send + use<> {
    let generators = feeds.generators.store();
    let planes = feeds.control_planes.subscribe().map(|_| ());
    let namespaces = feeds.namespaces.subscribe().map(|_| ());
    stream::select(planes, namespaces).flat_map(move |()| {
        let all = generators.state().into_iter();
        stream::iter(all.map(|generator| ObjectRef::from_obj(&*generator)))
    })
}

/// What the status says of control planes, where a pass did not get to them.
fn held_counts(raw: &KubeconfigGenerator) -> KubeconfigGeneratorStatus {
    raw.status.clone().unwrap_or_default()
}

fn counts(tended: &[Tended]) -> KubeconfigGeneratorStatus {
    let count = |number: usize| Some(i32::try_from(number).unwrap_or(i32::MAX));
    let errors = tended.iter().filter_map(|tended| {
        let trouble = tended.result.as_ref().err()?;
        Some(GeneratorError {
            resource: full_name(&*tended.plane),
            message: chain(trouble),
        })
    });
    let available = tended.iter().filter(|tended| tended.result.is_ok());
    KubeconfigGeneratorStatus {
        resources: count(tended.len()),
        available_resources: count(available.count()),
        errors: errors.take(MOST_ERRORS).collect(),
        ..KubeconfigGeneratorStatus::default()
    }
}

fn verdict(counts: &KubeconfigGeneratorStatus) -> Verdict {
    let resources = counts.resources.unwrap_or_default();
    let available = counts.available_resources.unwrap_or_default();
    let message = format!("{available} of {resources} control planes have their kubeconfig");
    match resources {
        0 => Verdict::yes("Ready", "NothingSelected", "no control plane is selected"),
        _ if available == resources => Verdict::yes("Ready", "Issued", message),
        _ => {
            let message = format!("{message}; status.errors says what the others lack");
            Verdict::no("Ready", "Incomplete", message)
        }
    }
}

/// How long until then, at least a second.
fn until(moment: Timestamp, now: Timestamp) -> Duration {
    let wait = Duration::try_from(moment.duration_since(now)).unwrap_or_default();
    wait.max(Duration::from_secs(1))
}
