//! From the raw spec of a pool to values that hold. Pure.

use std::net::{AddrParseError, IpAddr};

use butler_api::{
    butler::NetworkPool,
    types::{AddressRange, Cidr, address_range::AddressRangeError, cidr::CidrError},
};
use butler_ipam::{Layout, LayoutError};
use jiff::SignedDuration;
use kube::ResourceExt;

/// How long addresses rest after they were given back, unless the pool says otherwise.
const REST: i32 = 300;
/// How long released claims are kept, unless the pool says otherwise.
const RETAIN: i32 = 3600;

/// A pool whose spec was found to be right.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Name.
    pub name: String,
    /// Which addresses it hands out.
    pub layout: Layout,
    /// How long they rest after they were given back.
    pub rest: SignedDuration,
    /// Addresses for load balancers of a tenant that does not say how many.
    pub load_balancers: u128,
    /// Addresses for machines of a tenant that does not say how many.
    pub nodes: u128,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// What is wrong with a pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The range of the pool, or a reserved one.
    #[error("spec.{field}: {source}")]
    Cidr {
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        source: CidrError,
    },
    /// A range for tenants.
    #[error("spec.tenantAllocation: {0}")]
    Range(AddressRangeError),
    /// Half of the older way to write a range.
    #[error("spec.tenantAllocation: start and end belong together: give both or neither")]
    Half,
    /// The gateway.
    #[error("spec.gateway: {text:?} is not an IP address ({source})")]
    Gateway {
        /// What was written.
        text: String,
        /// What the parser found.
        source: AddrParseError,
    },
    /// The parts do not fit together.
    #[error("{0}")]
    Layout(LayoutError),
}

/// Checks a pool.
pub fn validate(pool: &NetworkPool) -> Result<Spec, Invalid> {
    let cidr = |field: &'static str, text: &str| {
        let parsed: Result<Cidr, _> = text.parse();
        parsed.map_err(|source| Invalid::Cidr { field, source })
    };
    let spec = &pool.spec;
    let whole = cidr("cidr", &spec.cidr)?;
    let reserved = spec
        .reserved
        .iter()
        .map(|range| cidr("reserved", &range.cidr));
    let reserved: Vec<Cidr> = reserved.collect::<Result<_, _>>()?;
    let tenants = &spec.tenant_allocation;
    let mut ranges: Vec<AddressRange> = Vec::new();
    for range in &tenants.ranges {
        ranges.push(AddressRange::parse(&range.start, &range.end).map_err(Invalid::Range)?);
    }
    match (&tenants.start, &tenants.end) {
        (None, None) => {}
        (Some(start), Some(end)) => {
            ranges.push(AddressRange::parse(start, end).map_err(Invalid::Range)?);
        }
        _ => return Err(Invalid::Half),
    }
    let gateway = spec.gateway.as_deref().map(|text| {
        let parsed: Result<IpAddr, _> = text.parse();
        parsed.map_err(|source| Invalid::Gateway {
            text: text.to_owned(),
            source,
        })
    });
    let layout =
        Layout::new(whole, &reserved, &ranges, gateway.transpose()?).map_err(Invalid::Layout)?;
    let positive = |count: i32| u128::try_from(count.max(1)).unwrap_or(1);
    Ok(Spec {
        name: pool.name_any(),
        layout,
        rest: rest(pool),
        load_balancers: positive(tenants.defaults.lb_pool_per_tenant),
        nodes: positive(tenants.defaults.nodes_per_tenant),
        deleting: pool.metadata.deletion_timestamp.is_some(),
    })
}

/// How long addresses of a pool rest. The moment they were given back is stored in whole seconds, so a rest that is to
/// be that long at least needs one more.
pub(crate) fn rest(pool: &NetworkPool) -> SignedDuration {
    let rest = seconds(pool.spec.quarantine_seconds, REST);
    if rest.is_zero() {
        rest
    } else {
        rest.saturating_add(SignedDuration::from_secs(1))
    }
}

/// How long released claims of a pool are kept: at least as long as their addresses rest, since they are what
/// remembers that.
pub(crate) fn retain(pool: &NetworkPool) -> SignedDuration {
    seconds(pool.spec.retain_released_seconds, RETAIN).max(rest(pool))
}

fn seconds(given: Option<i32>, default: i32) -> SignedDuration {
    SignedDuration::from_secs(given.unwrap_or(default).max(0).into())
}

#[cfg(test)]
mod tests {
    use butler_api::butler::network_pool::NetworkPoolSpec;
    use serde_json::{Value, json};

    use super::*;

    fn pool(spec: Value) -> NetworkPool {
        let spec: NetworkPoolSpec = serde_json::from_value(spec).unwrap();
        NetworkPool::new("lab", spec)
    }

    #[test]
    fn what_is_wrong_is_said_with_its_field() {
        for (spec, says) in [
            (
                json!({"cidr": "10.40.0.0"}),
                "spec.cidr: \"10.40.0.0\" is not a network range",
            ),
            (
                json!({"cidr": "10.40.0.0/24", "reserved": [{"cidr": "x"}]}),
                "spec.reserved: \"x\"",
            ),
            (
                json!({"cidr": "10.40.0.0/24", "tenantAllocation": {"start": "10.40.0.9", "end": "10.40.0.1"}}),
                "10.40.0.9 comes after 10.40.0.1",
            ),
            (
                json!({"cidr": "10.40.0.0/24", "tenantAllocation": {"start": "10.40.0.9"}}),
                "start and end belong together",
            ),
            (
                json!({"cidr": "10.40.0.0/24", "tenantAllocation": {"start": "10.41.0.1", "end": "10.41.0.9"}}),
                "does not lie inside the pool 10.40.0.0/24",
            ),
            (
                json!({"cidr": "10.40.0.0/24", "gateway": "router"}),
                "spec.gateway: \"router\"",
            ),
        ] {
            let error = validate(&pool(spec)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn released_claims_are_kept_at_least_as_long_as_their_addresses_rest() {
        let pool = pool(json!({
            "cidr": "10.40.0.0/24", "quarantineSeconds": 900, "retainReleasedSeconds": 60,
        }));
        assert_eq!(retain(&pool), SignedDuration::from_secs(901));
        assert_eq!(validate(&pool).unwrap().rest, retain(&pool));
    }
}
