//! Writing grants and refusals on the claims, each over exactly the claim that was judged.

use std::sync::Arc;

use butler_api::{
    butler::{
        IPAllocation,
        ip_allocation::{AllocationPhase, IPAllocationStatus},
    },
    names,
    types::AddressRange,
};
use butler_runtime::{
    apply::Applier,
    conditions::{self, Verdict},
    error::{ApiError, Category, Classify},
    finalizers, status,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Api, ResourceExt};

use super::plan::{Grant, Refused};

/// Who gave the addresses, as the status of a claim says.
const GIVEN_BY: &str = "networkpool-controller";
/// Claims of more addresses do not list them one by one: the object would grow beyond what the API server stores.
const LISTED: usize = 4096;

/// Gives a claim its addresses. The finalizer comes first: a claim that has addresses never goes without giving them
/// back. Returns nothing when the claim changed or went since it was judged; the next pass judges it again.
pub(super) async fn give(
    applier: &Applier,
    claim: &IPAllocation,
    grant: &Grant,
    now: Timestamp,
) -> Result<Option<Arc<IPAllocation>>, ApiError> {
    let result = async {
        if finalizers::has(claim, names::ALLOCATION_FINALIZER) {
            let next = granted(claim, grant, now);
            status::report_over(applier, claim, &next).await
        } else {
            let namespace = claim.namespace().unwrap_or_default();
            let api: Api<IPAllocation> = Api::namespaced(applier.client().clone(), &namespace);
            let held = finalizers::add_and_read(&api, claim, names::ALLOCATION_FINALIZER).await?;
            status::report_over(applier, &held, &granted(&held, grant, now)).await
        }
    };
    unless_changed(result.await)
}

/// Tells a claim why it gets nothing, unless it says so already.
pub(super) async fn refuse(
    applier: &Applier,
    claim: &IPAllocation,
    refused: &Refused,
    now: Timestamp,
) -> Result<Option<Arc<IPAllocation>>, ApiError> {
    let next = refusal(claim, refused, now);
    unless_changed(status::report_over(applier, claim, &next).await)
}

fn unless_changed(
    result: Result<IPAllocation, ApiError>,
) -> Result<Option<Arc<IPAllocation>>, ApiError> {
    match result {
        Ok(written) => Ok(Some(Arc::new(written))),
        Err(error) if matches!(error.category(), Category::Conflict | Category::NotFound) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The status of a claim that has its addresses.
pub(super) fn granted(claim: &IPAllocation, grant: &Grant, now: Timestamp) -> IPAllocationStatus {
    let ranges = &grant.what.ranges;
    let count = ranges
        .iter()
        .map(|range| range.size())
        .fold(0, u128::saturating_add);
    let single = match ranges.as_slice() {
        [range] => Some(*range),
        _ => None,
    };
    let message = match single {
        Some(range) => format!("{range} of pool {}", claim.spec.pool_ref.name),
        None => format!(
            "{count} addresses in {} ranges of pool {}",
            ranges.len(),
            claim.spec.pool_ref.name
        ),
    };
    IPAllocationStatus {
        observed_generation: claim.metadata.generation,
        conditions: settle(claim, Verdict::yes("Ready", "Allocated", message), now),
        phase: Some(AllocationPhase::Allocated),
        start_address: single.map(|range| range.start().to_string()),
        end_address: single.map(|range| range.end().to_string()),
        cidr: single.map(notation),
        ranges: ranges.iter().map(ToString::to_string).collect(),
        owner_uid: Some(grant.owner.clone()),
        addresses: listed(ranges, count),
        allocated_count: i32::try_from(count).ok(),
        allocated_at: Some(Time(now)),
        allocated_by: Some(GIVEN_BY.to_owned()),
        released_at: None,
    }
}

/// The status of a claim that gets nothing.
pub(super) fn refusal(
    claim: &IPAllocation,
    refused: &Refused,
    now: Timestamp,
) -> IPAllocationStatus {
    let phase = if refused.waiting {
        AllocationPhase::Pending
    } else {
        AllocationPhase::Failed
    };
    let verdict = Verdict::no("Ready", refused.reason, refused.message.clone());
    IPAllocationStatus {
        observed_generation: claim.metadata.generation,
        conditions: settle(claim, verdict, now),
        phase: Some(phase),
        ..IPAllocationStatus::default()
    }
}

/// Whether the claim already says what the refusal would say.
pub(super) fn says(claim: &IPAllocation, refused: &Refused, now: Timestamp) -> bool {
    claim.status.as_ref() == Some(&refusal(claim, refused, now))
}

fn settle(claim: &IPAllocation, verdict: Verdict, now: Timestamp) -> Vec<Condition> {
    let held = claim
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice());
    conditions::settle(
        held.unwrap_or_default(),
        &[verdict],
        claim.metadata.generation,
        now,
    )
}

fn listed(ranges: &[AddressRange], count: u128) -> Vec<String> {
    if count > LISTED as u128 {
        return Vec::new();
    }
    ranges
        .iter()
        .flat_map(|range| butler_ipam::addresses(*range))
        .map(|ip| ip.to_string())
        .collect()
}

/// `10.40.1.8/29` where the range is a network, `10.40.1.8-10.40.1.12` elsewhere.
pub(super) fn notation(range: AddressRange) -> String {
    butler_ipam::network(range).map_or_else(|| range.to_string(), |cidr| cidr.to_string())
}
