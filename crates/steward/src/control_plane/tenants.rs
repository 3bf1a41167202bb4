//! The tenants' own clusters, looked at now and then: no cache, no watch, and a breaker for each.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use butler_runtime::{chance::chance, error::chain};
use jiff::Timestamp;
use kube::Client;
use sha2::{Digest, Sha256};

use crate::tenant::{
    TenantError, TenantPlan,
    breaker::{Breaker, BreakerSettings, Gate},
    client,
    rewrite::{self, Cursor, Step},
    schedule::{Look, Schedule},
    sync::{Limits, sync},
};

/// What is remembered of a tenant between looks.
#[derive(Default)]
struct Remembered {
    breaker: Breaker,
    schedule: Schedule,
    /// Hash of the plan that was last carried out completely.
    plan: Option<[u8; 32]>,
    next: Option<Timestamp>,
    /// How far everything is written once more, and by what.
    rewriting: Option<(String, Cursor)>,
}

/// How far everything in a tenant's store is written once more.
pub(super) enum Rewriting {
    /// So many objects, and there are more.
    Unfinished(u64),
    /// So many objects, which were all.
    Finished(u64),
    /// Something was refused.
    Failed(TenantError),
    /// The tenant is left alone.
    Shut,
}

/// What a look at a tenant found.
pub(super) struct Found {
    /// Whether everything stands as planned, as far as is known.
    pub(super) settled: bool,
    /// A sentence about it.
    pub(super) message: String,
    /// When to look again.
    pub(super) next: Option<Timestamp>,
}

/// All tenants of this process, by UID.
#[derive(Default)]
pub(super) struct Tenants {
    remembered: Mutex<HashMap<String, Remembered>>,
}

impl Tenants {
    /// Looks at a tenant if it is time or the plan changed.
    pub(super) async fn look(
        &self,
        uid: &str,
        kubeconfig: &[u8],
        plan: TenantPlan,
        now: Timestamp,
    ) -> Found {
        if let Some(found) = self.not_now(uid, &plan, now) {
            return found;
        }
        let client = match client::connect(kubeconfig).await {
            Ok(client) => client,
            Err(error) => {
                let next = self.record(uid, Look::Failed, None, now);
                return Found {
                    settled: false,
                    message: chain(&error),
                    next,
                };
            }
        };
        let before = self.lock().get(uid).and_then(|entry| entry.plan);
        let hash = hash(&plan);
        let plan = if before == Some(hash) {
            plan.quiet()
        } else {
            plan
        };
        self.carry_out(uid, &client, plan, hash, now).await
    }

    /// A client of the tenant; none when it is left alone or its kubeconfig cannot be used.
    pub(super) async fn client(&self, uid: &str, kubeconfig: &[u8]) -> Option<Client> {
        let shut = self
            .lock()
            .get(uid)
            .is_some_and(|entry| entry.breaker.is_shut());
        if shut {
            return None;
        }
        client::connect(kubeconfig).await.ok()
    }

    /// Writes some more of the tenant's objects once more; `writers` stands for what writes them.
    pub(super) async fn rewrite(
        &self,
        uid: &str,
        kubeconfig: &[u8],
        writers: &str,
        resources: &[String],
    ) -> Rewriting {
        let Some(client) = self.client(uid, kubeconfig).await else {
            return Rewriting::Shut;
        };
        let begun = self
            .lock()
            .get_mut(uid)
            .and_then(|entry| entry.rewriting.take());
        // What others wrote in the meantime would be left out by going on.
        let cursor = begun
            .filter(|(by, _)| by == writers)
            .map(|(_, cursor)| cursor);
        match rewrite::step(&client, resources, cursor).await {
            Err(error) => Rewriting::Failed(error),
            Ok(Step::Finished(objects)) => Rewriting::Finished(objects),
            Ok(Step::Unfinished(cursor)) => {
                let objects = cursor.objects;
                let mut remembered = self.lock();
                let entry = remembered.entry(uid.to_owned()).or_default();
                entry.rewriting = Some((writers.to_owned(), cursor));
                Rewriting::Unfinished(objects)
            }
        }
    }

    /// What was written once more so far counts no longer.
    pub(super) fn stop_rewriting(&self, uid: &str) {
        if let Some(entry) = self.lock().get_mut(uid) {
            entry.rewriting = None;
        }
    }

    /// Forgets a tenant that is gone or sleeps.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn not_now(&self, uid: &str, plan: &TenantPlan, now: Timestamp) -> Option<Found> {
        let mut remembered = self.lock();
        let entry = remembered.entry(uid.to_owned()).or_default();
        let settled = entry.plan == Some(hash(plan));
        if settled && entry.next.is_some_and(|next| now < next) {
            let message = "everything stands as planned".to_owned();
            return Some(Found {
                settled,
                message,
                next: entry.next,
            });
        }
        match entry.breaker.ask(&BreakerSettings::default(), now) {
            Gate::Open | Gate::Probe => None,
            Gate::ShutUntil(until) => {
                let failures = entry.breaker.failures();
                let message = format!("the tenant's API server did not answer {failures} times");
                Some(Found {
                    settled: false,
                    message,
                    next: Some(until),
                })
            }
        }
    }

    async fn carry_out(
        &self,
        uid: &str,
        client: &Client,
        plan: TenantPlan,
        hash: [u8; 32],
        now: Timestamp,
    ) -> Found {
        match sync(client, &plan, Limits::default()).await {
            Err(error) => {
                self.outage(uid, error.is_outage(), now);
                let next = self.record(uid, Look::Failed, None, now);
                Found {
                    settled: false,
                    message: chain(&error),
                    next,
                }
            }
            Ok(synced) => {
                let outage = synced.failed.iter().any(|(_, error)| error.is_outage());
                self.outage(uid, outage, now);
                if let Some((key, error)) = synced.failed.first() {
                    let message = format!("{key}: {}", chain(error));
                    let next = self.record(uid, Look::Failed, None, now);
                    return Found {
                        settled: false,
                        message,
                        next,
                    };
                }
                let look = if synced.has_changed() {
                    Look::Changed
                } else {
                    Look::Quiet
                };
                let next = self.record(uid, look, Some(hash), now);
                let message = "everything stands as planned".to_owned();
                Found {
                    settled: true,
                    message,
                    next,
                }
            }
        }
    }

    fn outage(&self, uid: &str, outage: bool, now: Timestamp) {
        let mut remembered = self.lock();
        let entry = remembered.entry(uid.to_owned()).or_default();
        if outage {
            entry
                .breaker
                .failed(&BreakerSettings::default(), now, chance());
        } else {
            entry.breaker.succeeded();
        }
    }

    fn record(
        &self,
        uid: &str,
        look: Look,
        plan: Option<[u8; 32]>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let mut remembered = self.lock();
        let entry = remembered.entry(uid.to_owned()).or_default();
        entry.plan = plan;
        entry.next = Some(entry.schedule.after(look, now, chance()));
        entry.next
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Remembered>> {
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A plan is large, and there is one for each tenant.
fn hash(plan: &TenantPlan) -> [u8; 32] {
    let mut hash = Sha256::new();
    for object in &plan.objects {
        hash.update(serde_json::to_vec(object).unwrap_or_default());
    }
    for key in &plan.retired {
        hash.update(key.to_string());
    }
    hash.finalize().into()
}
