//! What has to be done for a machine's claim on an address. Pure.

use std::collections::BTreeMap;

use butler_api::{
    addresses::{IPAddress, IPAddressClaim, IPAddressSpec, Name},
    butler::{
        IPAllocation, NetworkPool,
        ip_allocation::{AllocationPhase, AllocationType, IPAllocationSpec},
    },
    common::{LocalRef, NamespacedRef},
    names,
    types::Cidr,
};
use butler_runtime::conditions::Verdict;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt, api::ObjectMeta};

use crate::namespaces::owned_labels;

/// Label with the Cluster of a claim that does not name it in its spec.
const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";

/// What was observed.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// The pool that the claim names.
    pub(super) pool: Option<NetworkPool>,
    /// Our own claim on that pool.
    pub(super) allocation: Option<IPAllocation>,
    /// What has the name of the claim's address.
    pub(super) address: Option<IPAddress>,
    /// How many addresses for machines its cluster may have, and how many claims came before this one.
    pub(super) quota: Option<Quota>,
}

/// What a cluster may have for its machines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    pub(super) most: usize,
    pub(super) before: usize,
}

/// What to do, completely.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// Our own claim, to be made.
    pub(super) allocation: Option<IPAllocation>,
    /// The address, to be made or put back.
    pub(super) address: Option<IPAddress>,
    /// Whether the address is there for the claim to refer to.
    pub(super) done: bool,
    /// What to say.
    pub(super) verdict: Verdict,
}

/// Our own claim for a machine's claim, by its UID: names are used again, and joined names can be equal.
pub(super) fn allocation_name(claim: &IPAddressClaim) -> String {
    format!("address-{}", claim.uid().unwrap_or_default())
}

/// Decides for a claim that stays.
pub(super) fn plan(claim: &IPAddressClaim, world: &World) -> Plan {
    let Some(pool) = &world.pool else {
        let message = format!("there is no NetworkPool {}", claim.spec.pool_ref.name);
        return not_yet(None, "PoolNotFound", message);
    };
    let Some(allocation) = &world.allocation else {
        if let Some(Quota { most, before }) = world.quota
            && before >= most
        {
            let message = format!(
                "the cluster may have {most} addresses for machines and {before} claims came before this one; \
                 raise quotaPerTenant.maxNodeIPs of its ProviderConfig, or remove machines"
            );
            return not_yet(None, "QuotaExceeded", message);
        }
        let message = "an address was asked for".to_owned();
        return not_yet(Some(allocation(claim, pool)), "Waiting", message);
    };
    let status = allocation.status.clone().unwrap_or_default();
    let granted = status
        .start_address
        .filter(|_| status.phase == Some(AllocationPhase::Allocated));
    let Some(granted) = granted else {
        let said = status.conditions.iter().find(|held| held.type_ == "Ready");
        let message = said.map_or_else(
            || "an address was asked for".to_owned(),
            |held| held.message.clone(),
        );
        return not_yet(None, "Waiting", message);
    };
    let wanted = address(claim, pool, &granted);
    if let Some(found) = world
        .address
        .as_ref()
        .filter(|found| !is_ours(found, claim))
    {
        let name = found.name_any();
        let message =
            format!("IPAddress {name} exists and belongs to another claim; it has to go first");
        return not_yet(None, "AddressTaken", message);
    }
    Plan {
        allocation: None,
        address: Some(wanted),
        done: true,
        verdict: Verdict::yes(
            "Ready",
            "Allocated",
            format!("{granted} of pool {}", pool.name_any()),
        ),
    }
}

/// Whether an address was made for exactly this claim.
pub(super) fn is_ours(address: &IPAddress, claim: &IPAddressClaim) -> bool {
    let owners = address.owner_references().iter();
    let uid = claim.uid().unwrap_or_default();
    owners.into_iter().any(|owner| owner.uid == uid)
}

fn not_yet(allocation: Option<IPAllocation>, reason: &'static str, message: String) -> Plan {
    Plan {
        allocation,
        address: None,
        done: false,
        verdict: Verdict::no("Ready", reason, message),
    }
}

fn allocation(claim: &IPAddressClaim, pool: &NetworkPool) -> IPAllocation {
    let uid = claim.uid().unwrap_or_default();
    let mut labels = owned_labels(&uid);
    labels.insert(names::NETWORK_POOL.to_owned(), pool.name_any());
    let cluster = claim
        .spec
        .cluster_name
        .clone()
        .or_else(|| claim.labels().get(CLUSTER).cloned());
    IPAllocation {
        metadata: ObjectMeta {
            name: Some(allocation_name(claim)),
            namespace: pool.namespace(),
            labels: Some(labels),
            annotations: Some(BTreeMap::from([(
                names::ADDRESS_CLAIM.to_owned(),
                claim.name_any(),
            )])),
            // From the start: one write less before the address is there.
            finalizers: Some(vec![names::ALLOCATION_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: IPAllocationSpec {
            pool_ref: LocalRef {
                name: pool.name_any(),
            },
            tenant_cluster_ref: NamespacedRef {
                name: cluster.unwrap_or_else(|| claim.name_any()),
                namespace: claim.namespace().unwrap_or_default(),
            },
            type_: AllocationType::Nodes,
            count: Some(1),
            ..IPAllocationSpec::default()
        },
        status: None,
    }
}

fn address(claim: &IPAddressClaim, pool: &NetworkPool, granted: &str) -> IPAddress {
    let uid = claim.uid().unwrap_or_default();
    let cidr: Option<Cidr> = pool.spec.cidr.parse().ok();
    let whole = if granted.contains(':') { 128 } else { 32 };
    let prefix = cidr.map_or(whole, Cidr::prefix_len);
    let mut owners = vec![OwnerReference {
        controller: Some(true),
        block_owner_deletion: Some(true),
        ..reference(claim)
    }];
    // An owner must be in the same namespace.
    if pool.namespace() == claim.namespace() {
        owners.push(reference(pool));
    }
    IPAddress {
        metadata: ObjectMeta {
            name: Some(claim.name_any()),
            namespace: claim.namespace(),
            labels: Some(owned_labels(&uid)),
            owner_references: Some(owners),
            ..ObjectMeta::default()
        },
        spec: IPAddressSpec {
            address: granted.to_owned(),
            claim_ref: Name {
                name: claim.name_any(),
            },
            pool_ref: claim.spec.pool_ref.clone(),
            prefix: prefix.into(),
            gateway: pool.spec.gateway.clone(),
        },
    }
}

fn reference<K: Resource<DynamicType = ()>>(object: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        controller: None,
        block_owner_deletion: None,
    }
}
