//! The end of a control plane: pods first, then exactly its data, then the object.

use std::time::Duration;

use butler_api::steward::{TenantControlPlane, data_store::DeletionPolicy};
use butler_runtime::{controller::Wake, error::ApiError, error::chain, finalizers};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Preconditions},
};

use super::{Controller, certificates, error::Error, owning::is_ours, progress::Progress, storing};
use crate::{
    names,
    spec::{self, DataStoreChoice, Identity, validate},
    store::{
        self,
        remove::{self, Policy},
    },
};

/// Keys that one pass deletes: the store serves others meanwhile.
const BUDGET: u64 = 10_000;
/// How long to wait before a store that does not answer is asked again.
const AGAIN: Duration = Duration::from_secs(15);

/// A control plane that goes, whatever its spec asks for.
struct Leaving<'a> {
    raw: &'a TenantControlPlane,
    identity: Identity,
    choice: DataStoreChoice,
}

impl Controller {
    /// One step towards the end; the object says what it waits for.
    pub(super) async fn end(&self, raw: &TenantControlPlane) -> Result<Wake, Error> {
        if !finalizers::has(raw, names::FINALIZER) {
            return Ok(Wake::OnChange);
        }
        self.forget(&raw.uid().unwrap_or_default());
        // A spec may have become one that cannot be carried out; what was made before is removed all the same.
        let leaving = Leaving {
            raw,
            identity: spec::identity(raw).map_err(|_| Error::Identity)?,
            choice: spec::data_store(raw),
        };
        if raw.annotations().contains_key(names::FORCE_DELETE) {
            tracing::warn!(control_plane = %leaving.identity.name, "deleted by force: data may stay in its store");
            return self.release(raw).await;
        }
        // An API server that still runs would write what was just deleted.
        if !self.pods_are_gone(&leaving).await? {
            let message = "waits for its pods to end";
            return self.wait(raw, "DeletingPods", message).await;
        }
        if validate(raw).is_err() && !self.is_placed(&leaving) {
            // Nothing was ever made from a spec that could not be carried out.
            return self.release(raw).await;
        }
        let name = self.store_name(raw, &leaving.choice);
        if self.directory.get(&name).is_none() && self.feeds.stores.get(None, &name).is_some() {
            // After a start stores are looked at first: a place may be there that was never reported.
            return Ok(Wake::After(AGAIN));
        }
        match self.remove_data(&leaving).await {
            Ok(None) => self.release(raw).await,
            Ok(Some(message)) => self.wait(raw, "DeletingData", &message).await,
            Err(error) => {
                let message = format!(
                    "{}; if the store is gone for good, set the annotation {}",
                    chain(&error),
                    names::FORCE_DELETE
                );
                self.wait(raw, "DataNotDeleted", &message).await?;
                Err(error)
            }
        }
    }

    /// A control plane that was moved: its copy elsewhere has the keys and the data now, so nothing is removed here.
    pub(super) async fn let_go(&self, raw: &TenantControlPlane) -> Result<Wake, Error> {
        self.forget(&raw.uid().unwrap_or_default());
        if raw.metadata.deletion_timestamp.is_some() && finalizers::has(raw, names::FINALIZER) {
            return self.release(raw).await;
        }
        Ok(Wake::OnChange)
    }

    /// What is remembered of it is of no use any more.
    fn forget(&self, uid: &str) {
        self.tenants.forget(uid);
        self.judgements.forget(uid);
    }

    async fn release(&self, raw: &TenantControlPlane) -> Result<Wake, Error> {
        finalizers::remove(&self.applier.beside(raw), raw, names::FINALIZER).await?;
        Ok(Wake::OnChange)
    }

    async fn wait(
        &self,
        raw: &TenantControlPlane,
        reason: &'static str,
        message: &str,
    ) -> Result<Wake, Error> {
        let mut progress = Progress::default();
        progress.stopped("WorkloadReady", reason, message);
        let held = raw.status.clone().unwrap_or_default();
        self.report(raw, held, progress, false).await?;
        Ok(Wake::After(AGAIN))
    }

    /// Deletes the Deployment; `true` once it and its pods are gone, by a live read. One of somebody else that has the
    /// name is left alone.
    async fn pods_are_gone(&self, leaving: &Leaving<'_>) -> Result<bool, Error> {
        let Identity {
            namespace, name, ..
        } = &leaving.identity;
        let client = self.applier.client().clone();
        let deployments: Api<Deployment> = Api::namespaced(client, namespace);
        let failed = |verb| ApiError::of(verb, "Deployment", name);
        let found = deployments.get_opt(name).await.map_err(failed("get"))?;
        let Some(deployment) = found.filter(|found| is_ours(found, &leaving.identity)) else {
            return Ok(true);
        };
        if deployment.metadata.deletion_timestamp.is_none() {
            // In the foreground: the Deployment stays until its pods are gone.
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: deployment.uid(),
                    resource_version: None,
                }),
                ..DeleteParams::foreground()
            };
            let deleted = deployments.delete(name, &params).await;
            deleted.map_err(failed("delete"))?;
        }
        Ok(false)
    }

    /// Whether a place in a store was made. Certificates are signed for one, which is told of a moment later.
    fn is_placed(&self, leaving: &Leaving<'_>) -> bool {
        let status = leaving.raw.status.as_ref();
        let told = status.is_some_and(|status| status.storage.is_some());
        told || !certificates::watched(&self.feeds.secrets, &leaving.identity).is_empty()
    }

    /// Removes what the tenant has in its store; what is left to do, in words.
    async fn remove_data(&self, leaving: &Leaving<'_>) -> Result<Option<String>, Error> {
        let Leaving {
            raw,
            identity,
            choice,
        } = leaving;
        let main = self.store_name(raw, choice);
        // Also where nothing was reported: a crash may have come between setting up and reporting.
        let identity = storing::identity(raw, identity, choice, &main)?;
        let placed = self.is_placed(leaving);
        for name in Self::stores_of(choice, main) {
            let left = self.remove_from(&name, &identity, placed).await?;
            if left.is_some() {
                return Ok(left);
            }
        }
        Ok(None)
    }

    /// Removes what the tenant has in one store. `placed` says that a place was made.
    async fn remove_from(
        &self,
        name: &str,
        identity: &store::Identity,
        placed: bool,
    ) -> Result<Option<String>, Error> {
        let Some(store) = self.directory.get(name).and_then(|entry| entry.store) else {
            // No place was ever made in a store that cannot be used.
            return Ok(placed.then(|| {
                format!(
                    "DataStore {name} cannot be used, so the tenant's data cannot be removed; bring it back, or set the annotation {}",
                    names::FORCE_DELETE
                )
            }));
        };
        let policy = match store.deletion_policy {
            DeletionPolicy::Delete => Policy::Delete,
            DeletionPolicy::Retain => Policy::Retain,
        };
        let removed = remove::remove(&store.session, identity, policy, BUDGET).await?;
        Ok((!removed.finished)
            .then(|| format!("deleted {} keys from DataStore {name} so far", removed.keys)))
    }
}
