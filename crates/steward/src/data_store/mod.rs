//! `DataStore`: looks at each store now and then, says how it is and who uses it, and keeps the connection
//! that all its tenants share.
//!
//! A store stays for as long as a control plane has its state in it, also when it is deleted.

mod directory;
mod inspect;
mod report;
mod resolve;
pub(crate) mod secrets;
pub(crate) mod users;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use butler_api::steward::{
    DataStore, TenantControlPlane,
    data_store::{DataStoreStatus, Tenancy},
};
use butler_runtime::{
    apply::Applier,
    clock::SharedClock,
    controller::{Reconciler, Wake},
    error::{ApiError, Category, Classify, chain},
    events::Events,
    finalizers,
    own_writes::OwnWrites,
    status,
    sync::lock,
    watch::{Change, Feed},
};
pub use directory::{Directory, Entry, Store};
use futures::{StreamExt, future};
pub(crate) use inspect::Inspector;
use kube::{Api, Client, ResourceExt, api::ListParams};
use report::Findings;
use resolve::{Resolved, read, resolve};
use tokio::time::Instant;
use users::Users;

use crate::{
    metering::Figures,
    names,
    store::{
        Session, Sessions,
        health::{self, Reason, Verdict},
        setup,
    },
};

/// How many control planes one answer holds when all are asked for.
const PAGE: u32 = 500;
/// How often the number of users is told while nothing else changes: each report carries a hundred names.
const PACE: Duration = Duration::from_secs(2);
/// A store that cannot be used is looked at so many times more often.
const IMPATIENCE: u32 = 6;

/// Reconciles stores.
pub struct Controller {
    applier: Applier,
    clock: SharedClock,
    directory: Arc<Directory>,
    sessions: Arc<Sessions>,
    control_planes: Arc<Feed<TenantControlPlane>>,
    figures: Arc<Figures>,
    events: Events,
    /// How often a store is asked how it is.
    look: Duration,
    /// What stores answered last.
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    /// When stores were last reported on.
    told: Arc<Mutex<HashMap<String, Instant>>>,
}

/// What a store said when it was last asked.
#[derive(Clone)]
struct Answer {
    fingerprint: String,
    tenancy: Tenancy,
    at: Instant,
    verdict: Verdict,
}

impl Answer {
    /// Whether it need not be asked again: a change of its users says nothing about the store itself.
    fn holds(&self, fingerprint: &str, tenancy: Tenancy, look: Duration) -> bool {
        self.fingerprint == fingerprint
            && self.tenancy == tenancy
            && self.verdict.is_ready()
            // A look that is due comes a little early now and then.
            && self.at.elapsed() < look / 2
    }
}

impl Controller {
    pub(crate) fn new(
        client: &Client,
        clock: SharedClock,
        directory: Arc<Directory>,
        control_planes: Arc<Feed<TenantControlPlane>>,
        figures: Arc<Figures>,
        look: Duration,
    ) -> Self {
        Self {
            applier: Applier::new(client.clone(), names::FIELD_MANAGER),
            events: Events::new(client.clone(), names::STEWARD, Arc::clone(&clock)),
            clock,
            directory,
            sessions: Arc::default(),
            control_planes,
            figures,
            look,
            answers: Arc::default(),
            told: Arc::default(),
        }
    }

    /// Forgets stores that are deleted, for as long as it is polled: a controller is not told of what is gone.
    pub(crate) fn forget_gone(&self, stores: &Feed<DataStore>) -> impl Future<Output = ()> + use<> {
        let (directory, sessions) = (Arc::clone(&self.directory), Arc::clone(&self.sessions));
        let (answers, told) = (Arc::clone(&self.answers), Arc::clone(&self.told));
        stores.subscribe().for_each(move |change| {
            if let Change::Gone(store) = change {
                directory.forget(&store.name_any());
                sessions.forget(&store.name_any());
                lock(&answers).remove(&store.name_any());
                lock(&told).remove(&store.name_any());
            }
            future::ready(())
        })
    }

    fn api(&self) -> Api<DataStore> {
        Api::all(self.applier.client().clone())
    }

    /// Reads the store's settings and asks it how it is.
    ///
    /// # Errors
    /// When its Secrets cannot be read just now: nothing is known that was not known before.
    async fn look(&self, raw: &DataStore) -> Result<Entry, ApiError> {
        let closing = raw.metadata.deletion_timestamp.is_some();
        let unusable = |reason, message| Entry {
            store: None,
            verdict: Verdict { reason, message },
            closing,
        };
        let secrets = match read(self.applier.client(), raw).await {
            Ok(secrets) => secrets,
            Err(error) if error.category() == Category::Forbidden => {
                return Ok(unusable(Reason::Invalid, chain(&error)));
            }
            Err(error) => return Err(error),
        };
        let Resolved {
            settings,
            authority,
        } = match resolve(raw, &secrets) {
            Ok(resolved) => resolved,
            Err(error) => return Ok(unusable(error.reason(), chain(&error))),
        };
        let session = match self.sessions.get(&settings) {
            Ok(session) => session,
            Err(error) => return Ok(unusable(Reason::Invalid, chain(&error))),
        };
        let fingerprint = settings.fingerprint();
        let verdict = self.ask(raw, &session, &fingerprint).await;
        let store = Store {
            session,
            authority,
            endpoints: raw.spec.endpoints.clone(),
            allowed_namespaces: raw.spec.allowed_namespaces.clone(),
            tenancy: raw.spec.tenancy,
            deletion_policy: raw.spec.deletion_policy,
            fingerprint,
        };
        Ok(Entry {
            store: Some(Arc::new(store)),
            verdict,
            closing,
        })
    }

    /// How the store is: what it said a moment ago, or what it says now.
    async fn ask(&self, raw: &DataStore, session: &Session, fingerprint: &str) -> Verdict {
        let (name, tenancy) = (raw.name_any(), raw.spec.tenancy);
        let held = lock(&self.answers).get(&name).cloned();
        if let Some(held) = held.filter(|held| held.holds(fingerprint, tenancy, self.look)) {
            return held.verdict;
        }
        let report = health::probe(session).await;
        let verdict = health::judge(&report, self::tenancy(tenancy));
        let answer = Answer {
            fingerprint: fingerprint.to_owned(),
            tenancy,
            at: Instant::now(),
            verdict: verdict.clone(),
        };
        lock(&self.answers).insert(name, answer);
        verdict
    }

    fn users(&self, name: &str) -> Users {
        let planes = self.control_planes.store().state();
        Users::of(name, planes.iter().map(|plane| &**plane))
    }

    /// The users by a live read: what is watched may be old.
    async fn live_users(&self, name: &str) -> Result<Users, ApiError> {
        let planes: Api<TenantControlPlane> = Api::all(self.applier.client().clone());
        let mut found = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let failed = ApiError::of("list", "TenantControlPlanes that use", name);
            let list = planes.list(&page).await.map_err(failed)?;
            found.extend(
                list.items
                    .into_iter()
                    .filter(|plane| users::stores_of(plane).contains(name)),
            );
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(Users::of(name, &found)),
            }
        }
    }

    /// Says how the store is, or how long that can wait.
    async fn report(
        &self,
        raw: &DataStore,
        verdict: &Verdict,
        users: &Users,
    ) -> Result<Option<Duration>, ApiError> {
        let findings = Findings {
            verdict,
            users,
            usage: self.figures.total(&raw.name_any()),
            deleting: raw.metadata.deletion_timestamp.is_some(),
        };
        let held = raw.status.clone().unwrap_or_default();
        let now = self.clock.now();
        let next: DataStoreStatus = report::status(&held, &findings, raw.metadata.generation, now);
        let name = raw.name_any();
        if report::is_only_numbers(&held, &next)
            && let Some(told) = lock(&self.told).get(&name)
            && let Some(wait) = PACE.checked_sub(told.elapsed())
        {
            return Ok(Some(wait));
        }
        status::report(&self.applier, raw, raw.status.as_ref(), &next).await?;
        lock(&self.told).insert(name, Instant::now());
        if let Some(note) = report::news(&held.conditions, &next.conditions) {
            self.events.tell(raw, &note).await;
        }
        Ok(None)
    }
}

impl Reconciler for Controller {
    type Object = DataStore;
    type Error = ApiError;
    const NAME: &'static str = "datastore";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, raw: Arc<DataStore>) -> Result<Wake, ApiError> {
        let (name, held) = (
            raw.name_any(),
            finalizers::has(&*raw, names::STORE_FINALIZER),
        );
        let deleting = raw.metadata.deletion_timestamp.is_some();
        match (deleting, held) {
            (true, false) => return Ok(Wake::OnChange),
            // Before anybody gets a place in it.
            (false, false) => {
                finalizers::add(&self.api(), &*raw, names::STORE_FINALIZER).await?;
            }
            (_, true) => {}
        }
        let entry = self.look(&raw).await?;
        let verdict = entry.verdict.clone();
        // Nobody new is let into a store that is being deleted from here on.
        self.directory.put(&name, entry);
        let mut users = self.users(&name);
        if deleting && users.count == 0 {
            users = self.live_users(&name).await?;
            if users.count == 0 {
                finalizers::remove(&self.api(), &*raw, names::STORE_FINALIZER).await?;
                return Ok(Wake::OnChange);
            }
        }
        if let Some(wait) = self.report(&raw, &verdict, &users).await? {
            return Ok(Wake::After(wait));
        }
        Ok(Wake::After(if verdict.is_ready() {
            self.look
        } else {
            self.look / IMPATIENCE
        }))
    }
}

/// The words of the API for whether tenants share a store.
pub(crate) fn tenancy(tenancy: Tenancy) -> setup::Tenancy {
    match tenancy {
        Tenancy::Shared => setup::Tenancy::Shared,
        Tenancy::Dedicated => setup::Tenancy::Dedicated,
    }
}
