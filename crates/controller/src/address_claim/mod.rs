//! Cluster API's contract for providers of addresses: machines draw from the same pools as everything else.
//!
//! A claim of an infrastructure provider becomes an `IPAllocation` of one address, so that the pool has one kind of
//! holder, with one way to be given and to give back; what comes of it becomes an `IPAddress`.

mod plan;

use std::sync::Arc;

use butler_api::{
    addresses::{IPAddress, IPAddressClaim, IPAddressClaimStatus, Name},
    butler::{IPAllocation, NetworkPool},
    names,
};
use butler_runtime::{
    apply::Applier,
    clock::SharedClock,
    conditions,
    controller::{Reconciler, Wake},
    error::ApiError,
    finalizers,
    own_writes::OwnWrites,
    status,
    watch::Change,
};
use futures::{Stream, StreamExt, future, stream};
use kube::{
    Api, Client, ResourceExt, api::DynamicObject, core::ApiResource, core::GroupVersionKind,
    runtime::reflector::ObjectRef,
};
use plan::{Quota, World, allocation_name, is_ours, plan};

use crate::{Feeds, MANAGER, Surroundings, tenant_addresses::provider::provider};

/// Keeps a claim until its address is given back.
pub const FINALIZER: &str = "ipam.butlerlabs.dev/release-address";
/// Its presence pauses the object.
const PAUSED: &str = "cluster.x-k8s.io/paused";
const GROUP: &str = "butler.butlerlabs.dev";
const POOL: &str = "NetworkPool";

/// Reconciles machines' claims on addresses.
pub struct Controller {
    feeds: Arc<Feeds>,
    applier: Applier,
    clock: SharedClock,
}

/// Claims to look at because what was made for them, or their pool, changed.
pub(crate) fn triggers(
    feeds: &Feeds,
) -> impl Stream<Item = ObjectRef<IPAddressClaim>> + Send + use<> {
    let allocations = feeds.allocations.subscribe().map(|change| {
        let allocation = change.object();
        let claim = allocation.annotations().get(names::ADDRESS_CLAIM)?;
        Some(ObjectRef::new(claim).within(&allocation.spec.tenant_cluster_ref.namespace))
    });
    let addresses = feeds.addresses.subscribe().map(|change| {
        let address = change.object();
        let claim = ObjectRef::new(&address.spec.claim_ref.name);
        Some(claim.within(&address.namespace().unwrap_or_default()))
    });
    let made = stream::select(allocations, addresses).filter_map(future::ready);
    let store = feeds.address_claims.store();
    let pools = feeds.pools.subscribe().flat_map(move |change| {
        let name = change.object().name_any();
        let waiting =
            store.state_filter(|claim| is_for_us(claim) && claim.spec.pool_ref.name == name);
        let missing = waiting.into_iter().filter(|claim| is_waiting(claim));
        stream::iter(
            missing
                .map(|claim| ObjectRef::from_obj(&*claim))
                .collect::<Vec<_>>(),
        )
    });
    // Of one that goes, or a quota that changes, those who wait may be the next.
    let store = feeds.address_claims.store();
    let gone = feeds.address_claims.subscribe().filter_map(|change| {
        future::ready(match change {
            Change::Gone(claim) => Some(claim.namespace()),
            Change::Present(_) => None,
        })
    });
    let quotas = feeds.providers.subscribe().map(|_| None);
    let freed = stream::select(gone, quotas).flat_map(move |place: Option<String>| {
        let next = store.state_filter(|claim| {
            is_for_us(claim) && is_waiting(claim) && (place.is_none() || claim.namespace() == place)
        });
        let next = next.iter().map(|claim| ObjectRef::from_obj(&**claim));
        stream::iter(next.collect::<Vec<_>>())
    });
    stream::select(stream::select(made, pools), freed)
}

/// Whether a claim has no address yet.
fn is_waiting(claim: &IPAddressClaim) -> bool {
    let status = claim.status.as_ref();
    status.is_none_or(|status| status.address_ref.is_none())
}

fn is_for_us(claim: &IPAddressClaim) -> bool {
    let pool = &claim.spec.pool_ref;
    pool.api_group == GROUP && pool.kind == POOL
}

impl Reconciler for Controller {
    type Object = IPAddressClaim;
    type Error = ApiError;
    const NAME: &'static str = "address-claim";

    fn own_writes(&self) -> &OwnWrites {
        self.applier.own_writes()
    }

    async fn reconcile(&self, claim: Arc<IPAddressClaim>) -> Result<Wake, ApiError> {
        if !is_for_us(&claim) || claim.annotations().contains_key(PAUSED) {
            return Ok(Wake::OnChange);
        }
        let held = finalizers::has(&*claim, FINALIZER);
        if claim.metadata.deletion_timestamp.is_some() {
            if held && !self.paused(&claim).await? {
                self.end(&claim).await?;
            }
            return Ok(Wake::OnChange);
        }
        let world = self.observe(&claim);
        let plan = plan(&claim, &world);
        let status = self.status(&claim, &plan);
        let stands =
            |address: &Option<IPAddress>| address.as_ref().map(|address| address.spec.clone());
        let same = claim.status.as_ref() == Some(&status)
            && plan.allocation.is_none()
            && stands(&world.address) == stands(&plan.address);
        if held && same {
            return Ok(Wake::OnChange);
        }
        if self.paused(&claim).await? {
            return Ok(Wake::After(std::time::Duration::from_secs(30)));
        }
        if !held {
            finalizers::add(&self.claims(&claim), &*claim, FINALIZER).await?;
            return Ok(Wake::OnChange);
        }
        if let Some(allocation) = &plan.allocation {
            self.applier.create(allocation).await?;
        }
        match (&plan.address, &world.address) {
            (Some(wanted), Some(live)) => {
                self.applier.apply(wanted, Some(live)).await?;
            }
            // Made, not applied: one of the same name that the watch does not show yet may be somebody else's.
            (Some(wanted), None) => self.applier.create(wanted).await?,
            (None, _) => {}
        }
        status::report(&self.applier, &*claim, claim.status.as_ref(), &status).await?;
        Ok(Wake::OnChange)
    }
}

impl Controller {
    pub(crate) fn new(client: &Client, feeds: &Arc<Feeds>, surroundings: &Surroundings) -> Self {
        Self {
            feeds: Arc::clone(feeds),
            applier: Applier::new(client.clone(), MANAGER),
            clock: Arc::clone(&surroundings.clock),
        }
    }

    fn claims(&self, claim: &IPAddressClaim) -> Api<IPAddressClaim> {
        let namespace = claim.namespace().unwrap_or_default();
        Api::namespaced(self.applier.client().clone(), &namespace)
    }

    /// The pool of the claim's namespace, or else the platform's.
    fn pool(&self, claim: &IPAddressClaim) -> Option<Arc<NetworkPool>> {
        let own = claim.namespace();
        let name = &claim.spec.pool_ref.name;
        let pools = &self.feeds.pools;
        pools
            .get(own.as_deref(), name)
            .or_else(|| pools.get(Some(names::SYSTEM_NAMESPACE), name))
    }

    fn observe(&self, claim: &IPAddressClaim) -> World {
        let name = allocation_name(claim);
        let found = self
            .feeds
            .allocations
            .store()
            .find(|allocation| allocation.name_any() == name);
        let address = self
            .feeds
            .addresses
            .get(claim.namespace().as_deref(), &claim.name_any());
        World {
            pool: self.pool(claim).map(|pool| (*pool).clone()),
            allocation: found.map(|allocation| (*allocation).clone()),
            address: address.map(|address| (*address).clone()),
            quota: self.quota(claim),
        }
    }

    /// What the claim's cluster may have. First come, first served; of those who came in the same second, who has one
    /// keeps it.
    fn quota(&self, claim: &IPAddressClaim) -> Option<Quota> {
        let namespace = claim.namespace()?;
        let home = self.feeds.namespaces.get(None, &namespace)?;
        let source = |key: &str| home.labels().get(key);
        let name = source(names::SOURCE_NAME)?;
        let cluster = source(names::SOURCE_NAMESPACE)?;
        let cluster = self.feeds.clusters.get(Some(cluster), name)?;
        let provider = provider(&self.feeds, &cluster)?;
        let most = provider
            .spec
            .network
            .quota_per_tenant
            .as_ref()?
            .max_node_ips?;
        let age = |claim: &IPAddressClaim| {
            let made = claim.metadata.creation_timestamp.clone();
            (made.map(|made| made.0), claim.name_any())
        };
        let own = age(claim);
        let beside = self.feeds.address_claims.all_in(&namespace);
        let before = beside.iter().filter(|other| {
            let first = age(other) < own || !is_waiting(other);
            is_for_us(other) && other.uid() != claim.uid() && first
        });
        Some(Quota {
            most: usize::try_from(most).unwrap_or(0),
            before: before.count(),
        })
    }

    fn status(&self, claim: &IPAddressClaim, plan: &plan::Plan) -> IPAddressClaimStatus {
        let held = claim
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let verdicts = std::slice::from_ref(&plan.verdict);
        let generation = claim.metadata.generation;
        IPAddressClaimStatus {
            address_ref: plan.done.then(|| Name {
                name: claim.name_any(),
            }),
            conditions: conditions::settle(held, verdicts, generation, self.clock.now()),
        }
    }

    /// The address goes first, then our claim on it, which rests and is kept like any other; then the claim may go.
    /// Read live: what the watches do not show yet would be left behind.
    async fn end(&self, claim: &IPAddressClaim) -> Result<(), ApiError> {
        let client = self.applier.client();
        let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
        let addresses: Api<IPAddress> = Api::namespaced(client.clone(), &namespace);
        let address =
            addresses
                .get_opt(&name)
                .await
                .map_err(ApiError::of("get", "IPAddress", &name))?;
        if let Some(address) = address.filter(|address| is_ours(address, claim)) {
            self.applier.delete(&address).await?;
        }
        let name = allocation_name(claim);
        for namespace in [namespace.as_str(), names::SYSTEM_NAMESPACE] {
            let allocations: Api<IPAllocation> = Api::namespaced(client.clone(), namespace);
            let found = allocations.get_opt(&name).await.map_err(ApiError::of(
                "get",
                "IPAllocation",
                &name,
            ))?;
            if let Some(found) = found.filter(|found| found.metadata.deletion_timestamp.is_none()) {
                self.applier.delete(&found).await?;
            }
        }
        finalizers::remove(&self.claims(claim), claim, FINALIZER).await
    }

    /// Whether the Cluster of the claim is paused, as while it is moved to another management cluster.
    async fn paused(&self, claim: &IPAddressClaim) -> Result<bool, ApiError> {
        let label = claim.labels().get("cluster.x-k8s.io/cluster-name");
        let Some(cluster) = claim.spec.cluster_name.as_ref().or(label) else {
            return Ok(false);
        };
        let namespace = claim.namespace().unwrap_or_default();
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(
            "cluster.x-k8s.io",
            "v1beta2",
            "Cluster",
        ));
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.applier.client().clone(), &namespace, &kind);
        let found = api
            .get_opt(cluster)
            .await
            .map_err(ApiError::of("get", "Cluster", cluster))?;
        Ok(found.is_some_and(|found| {
            found
                .data
                .pointer("/spec/paused")
                .and_then(serde_json::Value::as_bool)
                == Some(true)
        }))
    }
}
