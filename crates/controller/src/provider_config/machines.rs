//! The claims that a cluster makes for addresses of its machines, where its provider has to be told them. Pure.
//!
//! They only grow: which of its addresses a machine has is for the provider to know, so none is given back before the
//! cluster goes.

use butler_api::{
    butler::{IPAllocation, ip_allocation::AllocationType, provider_config::ProviderNetwork},
    types::AddressRange,
};
use butler_ipam::demand::{self, Candidate};
use kube::ResourceExt as _;

use super::tenant::{Tenant, drawn, free_number};
use crate::network_pool;

/// What to do about the addresses of a cluster's machines.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// A claim to make.
    pub(crate) create: Option<IPAllocation>,
    /// Addresses that its machines may have.
    pub(crate) ranges: Vec<AddressRange>,
    /// Why they have not all, and what can be done about it.
    pub(crate) shortage: Option<String>,
}

/// Decides about machines that need `needed` addresses. `claims` are those of this cluster for machines, also those that
/// go; `provider` is the name of its `ProviderConfig`.
pub(crate) fn plan(
    (provider, network): (&str, &ProviderNetwork),
    tenant: &Tenant,
    needed: u32,
    pools: &[Candidate],
    claims: &[IPAllocation],
) -> Plan {
    let live = || {
        let claims = claims.iter();
        claims.filter(|claim| claim.metadata.deletion_timestamp.is_none())
    };
    let mut plan = Plan {
        ranges: live().flat_map(network_pool::ranges).collect(),
        ..Plan::default()
    };
    let most = network.quota_per_tenant.as_ref();
    let most = most.and_then(|quota| u32::try_from(quota.max_node_ips?).ok());
    let may = most.map_or(needed, |most| needed.min(most));
    if may < needed {
        plan.shortage = Some(format!(
            "the machines need {needed} with those that are there while others are replaced, and a cluster may have {may}; ask for fewer machines, or raise spec.network.quotaPerTenant.maxNodeIPs of ProviderConfig {provider}"
        ));
    }
    let counts = live().filter_map(|claim| u32::try_from(claim.spec.count?).ok());
    let lacks = may.saturating_sub(counts.fold(0, u32::saturating_add));
    if lacks > 0 {
        match demand::choose(pools, lacks.into()) {
            Some(pool) => {
                let number = if claims.is_empty() {
                    "0".to_owned()
                } else {
                    free_number(claims)
                };
                let purpose = AllocationType::Nodes;
                plan.create = Some(drawn(tenant, &pool.name, lacks, purpose, &number));
            }
            None => plan.shortage = Some(no_room(provider, network, lacks)),
        }
    } else if let Some(waits) = live().find(|claim| network_pool::ranges(claim).is_empty()) {
        plan.shortage = Some(waiting(waits));
    }
    plan
}

fn no_room(provider: &str, network: &ProviderNetwork, count: u32) -> String {
    let pools: Vec<&str> = network
        .pool_refs
        .iter()
        .map(|pool| pool.name.as_str())
        .collect();
    if pools.is_empty() {
        return format!(
            "name a NetworkPool in spec.network.poolRefs of ProviderConfig {provider}, which its machines have their addresses from"
        );
    }
    format!(
        "NetworkPool {} is not there, not ready or has not {count} free addresses side by side; give it more, or name another in spec.network.poolRefs of ProviderConfig {provider}",
        pools.join(", ")
    )
}

fn waiting(claim: &IPAllocation) -> String {
    let status = claim.status.as_ref();
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    let said = conditions.find(|condition| condition.type_ == "Ready");
    let name = claim.name_any();
    match said {
        Some(said) => format!("IPAllocation {name}: {}", said.message),
        None => format!("IPAllocation {name} waits for its pool"),
    }
}

#[cfg(test)]
mod tests {
    use butler_api::butler::ip_allocation::{AllocationPhase, IPAllocationStatus};
    use serde_json::{Value, json};

    use super::*;

    const PROVIDER: &str = "butler-system/pve";

    fn network(quota: &Value) -> ProviderNetwork {
        let network =
            json!({"mode": "ipam", "poolRefs": [{"name": "lab"}], "quotaPerTenant": quota});
        serde_json::from_value(network).unwrap()
    }

    fn tenant() -> Tenant {
        Tenant {
            name: "blue".to_owned(),
            namespace: "team-a".to_owned(),
            uid: "1".to_owned(),
            wants: None,
            needs_some: false,
        }
    }

    fn lab(largest: u128) -> [Candidate; 1] {
        [Candidate {
            name: "lab".to_owned(),
            priority: 0,
            ready: true,
            available: largest,
            largest,
        }]
    }

    fn of(needed: u32, room: u128, claims: &[IPAllocation]) -> Plan {
        let network = network(&json!({"maxNodeIPs": 20}));
        plan((PROVIDER, &network), &tenant(), needed, &lab(room), claims)
    }

    fn granted(plan: &Plan, range: &str) -> IPAllocation {
        let mut claim = plan.create.clone().unwrap();
        claim.status = Some(IPAllocationStatus {
            phase: Some(AllocationPhase::Allocated),
            ranges: vec![range.to_owned()],
            ..IPAllocationStatus::default()
        });
        claim
    }

    #[test]
    fn machines_are_claimed_for_once_and_what_is_lacking_when_there_are_to_be_more() {
        let first = of(4, 100, &[]);
        let claim = first.create.clone().unwrap();
        assert_eq!(claim.name_any(), "nodes-1-0");
        assert_eq!(
            (claim.spec.type_, claim.spec.count),
            (AllocationType::Nodes, Some(4))
        );
        let waits = of(4, 100, &[claim]);
        assert!(waits.create.is_none() && waits.ranges.is_empty());
        assert!(waits.shortage.unwrap().contains("nodes-1-0 waits"));

        let held = granted(&first, "10.40.1.10-10.40.1.13");
        let rests = of(4, 0, std::slice::from_ref(&held));
        let ranges = vec!["10.40.1.10-10.40.1.13".parse().unwrap()];
        assert_eq!(rests.ranges, ranges);
        assert_eq!((rests.create, rests.shortage), (None, None));

        let grows = of(6, 100, std::slice::from_ref(&held));
        let more = grows.create.unwrap();
        assert_eq!(
            (more.name_any().as_str(), more.spec.count),
            ("nodes-1-1", Some(2))
        );
        assert_eq!(grows.ranges, ranges, "what is there goes on to be used");
        let shrinks = of(2, 100, &[held]);
        assert_eq!((shrinks.create, shrinks.ranges), (None, ranges));
    }

    #[test]
    fn what_cannot_be_had_is_said_with_the_remedy() {
        let full = of(4, 3, &[]);
        assert!(full.create.is_none());
        let said = full.shortage.unwrap();
        assert!(
            said.contains("NetworkPool lab") && said.contains(PROVIDER),
            "{said}"
        );

        let many = of(21, 100, &[]);
        assert_eq!(many.create.unwrap().spec.count, Some(20));
        let said = many.shortage.unwrap();
        assert!(
            said.contains("need 21") && said.contains("maxNodeIPs"),
            "{said}"
        );

        let nowhere = plan(
            (PROVIDER, &ProviderNetwork::default()),
            &tenant(),
            4,
            &[],
            &[],
        );
        assert!(nowhere.shortage.unwrap().contains("name a NetworkPool"));
    }
}
