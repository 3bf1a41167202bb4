//! Looks at the rights of all tenants of a store after somebody else changed users or roles there.
//!
//! Not a pass of each tenant: that would be a thousand of them for one change. One tenant after the other, at leisure,
//! and a change is made only where something differs.

use std::{collections::HashMap, sync::Arc, time::Duration};

use butler_api::steward::TenantControlPlane;
use butler_runtime::{
    error::chain,
    events::{Events, Note},
    watch::Feed,
};
use kube::{Api, Client, ResourceExt};
use tokio::time::Instant;

use super::{
    directory::{Directory, Store},
    users::{Tenant, tenants},
};
use crate::store::{
    self, Trouble,
    access::{self, Inspection},
    at_leisure,
};

/// Looks at tenants whenever a store was disturbed.
pub(crate) struct Inspector {
    pub(crate) client: Client,
    pub(crate) planes: Arc<Feed<TenantControlPlane>>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) events: Events,
    /// The least time between two inspections of one store: somebody who changes users all day must not keep us
    /// reading them all day.
    pub(crate) pause: Duration,
}

impl Inspector {
    /// Goes on for as long as it is polled.
    pub(crate) async fn run(self) {
        let mut last = HashMap::<String, Instant>::new();
        loop {
            for store in self.directory.disturbed().await {
                let name = store.session.store().to_owned();
                let rests = last
                    .get(&name)
                    .is_some_and(|last| last.elapsed() < self.pause);
                // The next look at the store tells us again.
                if !rests {
                    last.insert(name, Instant::now());
                    self.inspect(&store).await;
                }
            }
        }
    }

    async fn inspect(&self, store: &Store) {
        let name = store.session.store();
        let inspection = Inspection::begin(&store.session);
        let mut stores = tenants(&self.planes.store().state());
        let mut repaired = 0_usize;
        for tenant in stores.remove(name).unwrap_or_default() {
            match at_leisure(Box::pin(self.tend(store, &tenant))).await {
                Ok(changes) => repaired += usize::from(changes > 0),
                Err(error) if is_outage(&error) => {
                    tracing::warn!(
                        store = name,
                        error = chain(&error),
                        "broke off looking at the rights of tenants"
                    );
                    return;
                }
                Err(error) => {
                    let message = chain(&error);
                    tracing::warn!(tenant = %tenant.plane, error = message, "could not put the rights of a tenant right");
                    self.tell(&tenant, true, "StoreAccessBroken", message).await;
                }
            }
        }
        inspection.finish();
        if repaired > 0 {
            tracing::info!(
                store = name,
                repaired,
                "put right what somebody else changed"
            );
        }
    }

    async fn tend(&self, store: &Store, tenant: &Tenant) -> Result<u32, store::Error> {
        let (session, identity) = (&*store.session, &tenant.identity);
        if tenant.leaving || access::stands(session, identity).await? {
            return Ok(0);
        }
        let changes = access::repair(session, identity, self.is_wanted(tenant)).await?;
        if changes > 0 {
            let message = format!(
                "somebody changed the user or the role of this tenant in DataStore {}; both are as they should be again",
                session.store()
            );
            self.tell(tenant, true, "StoreAccessRestored", message)
                .await;
        }
        Ok(changes)
    }

    /// Whether the control plane is there and stays, by a live read.
    async fn is_wanted(&self, tenant: &Tenant) -> bool {
        let live = self.planes_of(tenant).get_opt(&tenant.plane.name).await;
        live.ok().flatten().is_some_and(|live| {
            live.uid().as_deref() == Some(tenant.uid())
                && live.metadata.deletion_timestamp.is_none()
        })
    }

    fn planes_of(&self, tenant: &Tenant) -> Api<TenantControlPlane> {
        Api::namespaced(self.client.clone(), &tenant.identity.owner().namespace)
    }

    async fn tell(&self, tenant: &Tenant, warning: bool, reason: &'static str, message: String) {
        let note = Note {
            warning,
            reason,
            action: "Inspect",
            message,
        };
        let owner = tenant.identity.owner();
        if let Some(plane) = self.planes.get(Some(&owner.namespace), &owner.name) {
            self.events.tell(&*plane, &note).await;
        }
    }
}

/// Whether the other tenants would fare the same.
fn is_outage(error: &store::Error) -> bool {
    error.trouble().is_some_and(|trouble| {
        matches!(
            trouble,
            Trouble::Unreachable
                | Trouble::TimedOut
                | Trouble::TlsRefused
                | Trouble::CredentialsRefused
                | Trouble::NotPermitted
                | Trouble::AuthDisabled
                | Trouble::Full
        )
    })
}
