//! How much of a provider is left: what its pools still have, and for how many tenants that lasts. Pure.

use butler_api::butler::{
    NetworkPool, ProviderConfig,
    provider_config::{AllocationMode, Capacity, NetworkMode, ProviderNetwork},
};
use butler_ipam::demand::{Candidate, estimate};
use butler_runtime::conditions::{self, Truth, Verdict};
use kube::ResourceExt;

/// Machines of a tenant that draw an address each, where nothing else is known.
const NODES: u128 = 5;

/// What was observed of the pools that a provider names, in the order it names them.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Name, priority, and the pool if there is one.
    pub pools: Vec<(String, i32, Option<NetworkPool>)>,
}

/// What to report.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Whether clusters can be made; nothing while only the addresses are known and not the credentials.
    pub ready: Option<bool>,
    /// What is left; nothing where the provider gives addresses itself.
    pub capacity: Option<Capacity>,
    /// The conditions.
    pub verdicts: Vec<Verdict>,
}

/// Decides.
pub fn plan(config: &ProviderConfig, world: &World) -> Plan {
    let network = &config.spec.network;
    if network.mode == NetworkMode::Cloud {
        let verdict = Verdict::yes(
            "PoolAvailable",
            "NotNeeded",
            "the provider gives addresses itself",
        );
        return report(config, None, verdict);
    }
    let block = first_block(network);
    let candidates = candidates(world);
    let available = candidates
        .iter()
        .map(|pool| pool.available)
        .fold(0, u128::saturating_add);
    let tenants = estimate(&candidates, block, NODES);
    let number = |count: u128| i64::try_from(count).unwrap_or(i64::MAX);
    let capacity = Capacity {
        available_ips: Some(number(available)),
        estimated_tenants: Some(number(tenants)),
    };
    report(config, Some(capacity), pools(world, &candidates, block))
}

/// How many addresses side by side a new tenant starts with.
pub fn first_block(network: &ProviderNetwork) -> u128 {
    let sizes = network.load_balancer.clone().unwrap_or_default();
    let size = match sizes.allocation_mode {
        AllocationMode::Static => sizes.default_pool_size,
        AllocationMode::Elastic => sizes.initial_pool_size,
    };
    let most = network
        .quota_per_tenant
        .as_ref()
        .and_then(|quota| quota.max_load_balancer_ips);
    u128::try_from(most.map_or(size, |most| size.min(most))).unwrap_or(0)
}

/// The pools of a provider that are there.
pub fn candidates(world: &World) -> Vec<Candidate> {
    let there = world
        .pools
        .iter()
        .filter_map(|(name, priority, pool)| Some((name, priority, pool.as_ref()?)));
    there
        .map(|(name, priority, pool)| candidate(name, *priority, pool))
        .collect()
}

/// A pool as those see it who look for addresses.
pub(crate) fn candidate(name: &str, priority: i32, pool: &NetworkPool) -> Candidate {
    let count = |figure: Option<i64>| u128::try_from(figure.unwrap_or(0)).unwrap_or(0);
    let status = pool.status.as_ref();
    let conditions = status.map(|status| status.conditions.as_slice());
    Candidate {
        name: name.to_owned(),
        priority,
        ready: conditions::is_true(conditions.unwrap_or_default(), "Ready")
            && pool.metadata.deletion_timestamp.is_none(),
        available: count(status.and_then(|status| status.available_ips)),
        largest: count(status.and_then(|status| status.largest_free_block)),
    }
}

fn pools(world: &World, candidates: &[Candidate], block: u128) -> Verdict {
    const TYPE: &str = "PoolAvailable";
    let missing: Vec<&str> = world
        .pools
        .iter()
        .filter(|(.., pool)| pool.is_none())
        .map(|(name, ..)| name.as_str())
        .collect();
    if !missing.is_empty() {
        let message = format!("there is no NetworkPool {}", missing.join(", "));
        return Verdict::no(TYPE, "PoolNotFound", message);
    }
    if butler_ipam::demand::choose(candidates, block).is_some() {
        return Verdict::yes(TYPE, "PoolAvailable", "a pool has room for another tenant");
    }
    let names: Vec<&str> = candidates.iter().map(|pool| pool.name.as_str()).collect();
    let message = format!(
        "no pool has {block} free addresses side by side: {}",
        names.join(", ")
    );
    Verdict::no(TYPE, "PoolExhausted", message)
}

/// A provider with credentials is ready when they are found to be good, which is not looked at here.
fn report(config: &ProviderConfig, capacity: Option<Capacity>, pools: Verdict) -> Plan {
    let (ready, verdict) = if pools.status != Truth::True {
        (
            Some(false),
            Verdict::no("Ready", pools.reason, pools.message.clone()),
        )
    } else if config.spec.credentials_ref.is_some() {
        let message = "there are addresses; the credentials were not checked";
        (
            None,
            Verdict::unknown("Ready", "CredentialsNotChecked", message),
        )
    } else {
        (
            Some(true),
            Verdict::yes("Ready", "Ready", "clusters can be made"),
        )
    };
    Plan {
        ready,
        capacity,
        verdicts: vec![pools, verdict],
    }
}

/// The namespaces in which a provider's pools are looked for, in this order.
pub fn pool_namespaces(config: &ProviderConfig) -> [String; 2] {
    let own = config.namespace().unwrap_or_default();
    [own, butler_api::names::SYSTEM_NAMESPACE.to_owned()]
}

#[cfg(test)]
mod tests {
    use butler_api::butler::{
        network_pool::NetworkPoolStatus, provider_config::ProviderConfigSpec,
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
    use serde_json::{Value, json};

    use super::*;

    fn config(network: &Value) -> ProviderConfig {
        let spec = json!({"provider": "local", "network": network});
        let spec: ProviderConfigSpec = serde_json::from_value(spec).unwrap();
        ProviderConfig::new("local", spec)
    }

    fn pool(available: i64, largest: i64) -> NetworkPool {
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let ready: Condition = serde_json::from_value(ready).unwrap();
        NetworkPool {
            status: Some(NetworkPoolStatus {
                conditions: vec![ready],
                available_ips: Some(available),
                largest_free_block: Some(largest),
                ..NetworkPoolStatus::default()
            }),
            ..NetworkPool::default()
        }
    }

    fn world(pools: Vec<Option<NetworkPool>>) -> World {
        let names = ["a", "b", "c"].into_iter().zip(pools);
        World {
            pools: names
                .map(|(name, pool)| (name.to_owned(), 0, pool))
                .collect(),
        }
    }

    #[test]
    fn what_is_left_is_counted_by_what_fits() {
        let config = config(&json!({"mode": "ipam", "poolRefs": [{"name": "a"}, {"name": "b"}]}));
        let plan = plan(
            &config,
            &world(vec![Some(pool(130, 60)), Some(pool(500, 4))]),
        );
        let capacity = plan.capacity.unwrap();
        assert_eq!(
            (capacity.available_ips, capacity.estimated_tenants),
            (Some(630), Some(10))
        );
        assert_eq!(plan.ready, Some(true));
    }

    #[test]
    fn an_elastic_tenant_starts_small_and_never_above_its_share() {
        let elastic = json!({"mode": "ipam", "loadBalancer": {"allocationMode": "elastic"}});
        assert_eq!(first_block(&config(&elastic).spec.network), 2);
        let capped = json!({"mode": "ipam", "quotaPerTenant": {"maxLoadBalancerIPs": 3}});
        assert_eq!(first_block(&config(&capped).spec.network), 3);
    }

    #[test]
    fn a_pool_that_is_missing_or_full_makes_the_provider_unready_and_is_named() {
        let config = config(&json!({"mode": "ipam", "poolRefs": [{"name": "a"}]}));
        let missing = plan(&config, &world(vec![None]));
        assert_eq!(missing.ready, Some(false));
        assert_eq!(missing.verdicts[0].reason, "PoolNotFound");
        let full = plan(&config, &world(vec![Some(pool(7, 7))]));
        assert_eq!(
            full.verdicts[1].message,
            "no pool has 8 free addresses side by side: a"
        );
    }

    #[test]
    fn a_provider_that_gives_addresses_itself_needs_no_pool() {
        let cloud = plan(&config(&json!({"mode": "cloud"})), &World::default());
        assert!(cloud.ready == Some(true) && cloud.capacity.is_none());
    }
}
