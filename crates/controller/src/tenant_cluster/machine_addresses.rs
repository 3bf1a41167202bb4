//! Addresses for machines whose provider has to be told them: claimed from its pools before the first machine, and kept
//! until the cluster is gone.

use std::sync::Arc;

use butler_api::butler::{IPAllocation, ip_allocation::AllocationType};
use butler_capi::{addresses, observe::Observed};
use butler_runtime::{apply::full_name, error::ApiError};
use kube::{ResourceExt as _, runtime::reflector::ObjectRef};

use super::{Controller, sources::Sources};
use crate::provider_config::{
    self,
    machines::{self, Plan},
    tenant::Tenant,
};

impl Controller {
    /// Adds what machines were given to what is known, and asks for what they lack.
    pub(super) async fn add_machine_addresses(
        &self,
        sources: &Sources,
        observed: &mut Observed,
    ) -> Result<(), ApiError> {
        let Sources { spec, provider, .. } = sources;
        let Some(needed) = addresses::of_machines(spec, observed) else {
            return Ok(());
        };
        let identity = &spec.identity;
        let tenant = Tenant {
            name: identity.name.as_str().to_owned(),
            namespace: identity.namespace.clone(),
            uid: identity.uid.clone(),
            wants: None,
            needs_some: false,
        };
        // First: a pool that changes while it is looked at wakes the cluster again.
        let cluster = ObjectRef::new(identity.name.as_str()).within(&identity.namespace);
        let is_new = self.unserved.add(cluster.clone());
        let claims = self.machine_claims(&identity.uid);
        let world = provider_config::observe(&self.feeds, provider);
        let Plan {
            create,
            ranges,
            shortage,
        } = machines::plan(
            (&full_name(&**provider), &provider.spec.network),
            &tenant,
            needed,
            &provider_config::candidates(&world),
            &claims,
        );
        if is_new && create.is_none() && shortage.is_none() {
            self.unserved.forget(&cluster);
        }
        if let Some(mut claim) = create {
            let mut pools = world.pools.iter();
            let pool = pools.find(|(name, ..)| *name == claim.spec.pool_ref.name);
            claim.metadata.namespace = pool.and_then(|(.., pool)| pool.as_ref()?.namespace());
            // One that an earlier pass made and the watch does not show yet is a conflict: the next pass sees it.
            self.applier.create(&claim).await?;
        }
        observed.inputs.machine_addresses = ranges;
        observed.inputs.address_shortage = shortage;
        if let Some(seen) = &mut observed.addresses {
            let mut live = claims.iter();
            let first = live.find(|claim| claim.metadata.deletion_timestamp.is_none());
            seen.machines = first.map(full_name);
        }
        Ok(())
    }

    /// The claims that were made here for the machines of exactly this cluster.
    fn machine_claims(&self, uid: &str) -> Vec<IPAllocation> {
        let mut claims = self.feeds.claims.of(&self.feeds.allocations, uid);
        claims.retain(|claim| claim.spec.type_ == AllocationType::Nodes);
        claims.into_iter().map(Arc::unwrap_or_clone).collect()
    }
}
