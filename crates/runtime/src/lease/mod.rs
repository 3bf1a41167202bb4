//! A lease that guards work: one replica works, and one that loses the lease drops the work at once.

mod decide;

use std::{future::Future, time::Duration};

use decide::{Step, step};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::SharedClock,
    error::{ApiError, chain},
};

const MANAGER: &str = "butler-lease";

/// Which lease, who we are, and how patient everybody is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of the Lease object.
    pub namespace: String,
    /// Name of the Lease object.
    pub name: String,
    /// Who we are; different for each replica.
    pub identity: String,
    /// How long others wait after our last sign of life.
    pub duration: Duration,
    /// How often we give one; work stops when none got through for `duration` less this.
    pub renew_every: Duration,
}

impl Settings {
    /// The usual patience: taken over after 15 s of silence, renewed every 5 s.
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            duration: Duration::from_secs(15),
            renew_every: Duration::from_secs(5),
        }
    }

    /// After this long without a renewal the work is dropped, well before somebody else may start.
    fn give_up_after(&self) -> Duration {
        self.duration.saturating_sub(self.renew_every)
    }
}

/// Runs `work` only while the lease is ours, again each time it is won; ends when `work` ends or `shutdown` is
/// cancelled, and then gives the lease back so that the next replica need not wait.
pub async fn guard<T, W: Future<Output = T>>(
    client: Client,
    settings: &Settings,
    clock: SharedClock,
    shutdown: &CancellationToken,
    mut work: impl FnMut() -> W,
) -> Option<T> {
    let mut keeper = Keeper::new(client, settings, clock);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return None,
            () = keeper.win() => {}
        }
        tracing::info!(
            lease = settings.name,
            identity = settings.identity,
            "lease won, work starts"
        );
        let done = tokio::select! {
            result = work() => Some(result),
            () = keeper.lose() => None,
        };
        if done.is_some() || shutdown.is_cancelled() {
            keeper.release().await;
            return done;
        }
        tracing::warn!(
            lease = settings.name,
            identity = settings.identity,
            "lease lost, work dropped"
        );
    }
}

/// One replica's view of the lease.
struct Keeper<'a> {
    api: Api<Lease>,
    settings: &'a Settings,
    clock: SharedClock,
    seen: Option<Lease>,
    moved_at: Instant,
}

impl<'a> Keeper<'a> {
    fn new(client: Client, settings: &'a Settings, clock: SharedClock) -> Self {
        let api = Api::namespaced(client, &settings.namespace);
        Self {
            api,
            settings,
            clock,
            seen: None,
            moved_at: Instant::now(),
        }
    }

    /// Returns once the lease is ours.
    async fn win(&mut self) {
        loop {
            match self.try_hold().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(error = chain(&error), "could not look at the lease");
                }
            }
            sleep(self.settings.renew_every).await;
        }
    }

    /// Renews the lease; returns once it can no longer be counted on.
    async fn lose(&mut self) {
        let mut renewed = Instant::now();
        loop {
            let left = self
                .settings
                .give_up_after()
                .saturating_sub(renewed.elapsed());
            if left.is_zero() {
                return;
            }
            sleep(self.settings.renew_every.min(left)).await;
            let left = self
                .settings
                .give_up_after()
                .saturating_sub(renewed.elapsed());
            let asked = Instant::now();
            match timeout(left.max(Duration::from_millis(1)), self.try_hold()).await {
                Ok(Ok(true)) => renewed = asked,
                Ok(Ok(false)) => return,
                Ok(Err(error)) => {
                    tracing::warn!(error = chain(&error), "could not renew the lease");
                }
                Err(_) => tracing::warn!("no answer while renewing the lease"),
            }
        }
    }

    /// One look and, where we may, one write. `true` when the lease is ours afterwards.
    async fn try_hold(&mut self) -> Result<bool, ApiError> {
        let live = self
            .api
            .get_opt(&self.settings.name)
            .await
            .map_err(self.failed("get"))?;
        self.notice(live);
        let record = self.seen.as_ref().and_then(|lease| lease.spec.as_ref());
        match step(record, &self.settings.identity, self.moved_at.elapsed()) {
            Step::Wait => Ok(false),
            Step::Create => {
                let lease = self.ours(None, 0, None);
                let created = self.api.create(&PostParams::default(), &lease).await;
                self.written(created, "create")
            }
            next @ (Step::Take | Step::Renew) => {
                let held = record.cloned().unwrap_or_default();
                let changes = held.lease_transitions.unwrap_or_default();
                let (changes, since) = match next {
                    Step::Take => (changes.saturating_add(1), None),
                    Step::Renew | Step::Create | Step::Wait => (changes, held.acquire_time),
                };
                let version = self
                    .seen
                    .as_ref()
                    .and_then(|lease| lease.metadata.resource_version.clone());
                let lease = self.ours(version, changes, since);
                let patched = self.write(&lease).await;
                self.written(patched, "renew")
            }
        }
    }

    /// Remembers what was seen, and when it last moved by our own clock.
    fn notice(&mut self, live: Option<Lease>) {
        let version = |lease: &Option<Lease>| {
            lease
                .as_ref()
                .and_then(|lease| lease.metadata.resource_version.clone())
        };
        if version(&live) != version(&self.seen) {
            self.moved_at = Instant::now();
        }
        self.seen = live;
    }

    /// A conflict means that somebody was faster, which is an answer and not a failure.
    fn written(
        &mut self,
        result: kube::Result<Lease>,
        verb: &'static str,
    ) -> Result<bool, ApiError> {
        match result {
            Ok(lease) => {
                self.notice(Some(lease));
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(self.failed(verb)(error)),
        }
    }

    /// Server-side apply that carries the version we saw is refused if the lease moved since.
    async fn write(&self, lease: &Lease) -> kube::Result<Lease> {
        let params = PatchParams::apply(MANAGER).force();
        self.api
            .patch(&self.settings.name, &params, &Patch::Apply(lease))
            .await
    }

    fn ours(&self, version: Option<String>, transitions: i32, since: Option<MicroTime>) -> Lease {
        let now = MicroTime(self.clock.now());
        Lease {
            metadata: ObjectMeta {
                name: Some(self.settings.name.clone()),
                namespace: Some(self.settings.namespace.clone()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.settings.identity.clone()),
                lease_duration_seconds: i32::try_from(self.settings.duration.as_secs()).ok(),
                acquire_time: Some(since.unwrap_or_else(|| now.clone())),
                renew_time: Some(now),
                lease_transitions: Some(transitions),
                ..LeaseSpec::default()
            }),
        }
    }

    /// Gives the lease back; if that fails it runs out by itself.
    async fn release(&mut self) {
        let Some(mut lease) = self.seen.take() else {
            return;
        };
        lease.metadata.managed_fields = None;
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
        }
        match timeout(self.settings.renew_every, self.write(&lease)).await {
            Ok(Ok(_)) => tracing::info!(lease = self.settings.name, "lease given back"),
            Ok(Err(error)) => tracing::warn!(%error, "could not give the lease back"),
            Err(_) => tracing::warn!("no answer while giving the lease back"),
        }
    }

    fn failed(&self, verb: &'static str) -> impl FnOnce(kube::Error) -> ApiError + use<> {
        let name = format!("{}/{}", self.settings.namespace, self.settings.name);
        ApiError::of(verb, "Lease", &name)
    }
}
