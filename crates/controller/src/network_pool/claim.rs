//! A claim as the allocator sees it, and who it belongs to. Pure.

use butler_api::{
    butler::{
        IPAllocation,
        ip_allocation::{AllocationPhase, AllocationType},
    },
    names,
    types::AddressRange,
};
use jiff::Timestamp;
use kube::ResourceExt;

/// A claim on addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uid: String,
    /// Who asked first is served first.
    pub created: Timestamp,
    /// Who gets the addresses.
    pub owner: Owner,
    /// What for.
    pub purpose: AllocationType,
    /// How many; nothing means as many as the pool gives to a tenant.
    pub count: Option<u128>,
    /// Exactly which, or what is wrong with the way they are written.
    pub pinned: Option<Result<AddressRange, String>>,
    /// Whether several ranges will do.
    pub several: bool,
    /// Where it is in its life.
    pub state: State,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// Who a claim belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This one, by UID.
    Known(String),
    /// Nobody of that name is there yet.
    Missing(String),
    /// The one it was made for is no more, whoever has the name now.
    Gone(String),
}

/// Where a claim is in its life.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Has nothing yet.
    Waiting,
    /// Has these.
    Holding(Vec<AddressRange>),
    /// Had these, and gave them back then.
    Released(Vec<AddressRange>, Timestamp),
}

impl Claim {
    /// Reads a claim.
    pub fn of(allocation: &IPAllocation, owner: Owner) -> Self {
        let spec = &allocation.spec;
        let created = allocation.creation_timestamp();
        Self {
            name: allocation.name_any(),
            uid: allocation.uid().unwrap_or_default(),
            created: created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            owner,
            purpose: spec.type_,
            count: spec.count.and_then(|count| u128::try_from(count).ok()),
            pinned: spec.pinned_range.as_ref().map(|pinned| {
                AddressRange::parse(&pinned.start_address, &pinned.end_address)
                    .map_err(|error| error.to_string())
            }),
            several: spec.allow_multiple_ranges.unwrap_or(false),
            state: state(allocation),
            deleting: allocation.metadata.deletion_timestamp.is_some(),
        }
    }

    /// The addresses it holds.
    pub fn held(&self) -> &[AddressRange] {
        match &self.state {
            State::Holding(ranges) => ranges,
            State::Waiting | State::Released(..) => &[],
        }
    }

    /// Under which name its addresses rest, and are had again: those of one cluster and one purpose.
    pub fn tenant(&self) -> String {
        let (Owner::Known(owner) | Owner::Missing(owner) | Owner::Gone(owner)) = &self.owner;
        format!("{owner}/{:?}", self.purpose)
    }
}

fn state(allocation: &IPAllocation) -> State {
    let Some(status) = &allocation.status else {
        return State::Waiting;
    };
    let ranges = ranges(allocation);
    match status.phase {
        Some(AllocationPhase::Allocated) if !ranges.is_empty() => State::Holding(ranges),
        Some(AllocationPhase::Released) => {
            let at = status.released_at.as_ref();
            State::Released(ranges, at.map_or(Timestamp::UNIX_EPOCH, |time| time.0))
        }
        _ => State::Waiting,
    }
}

/// The addresses in the status of a claim.
pub fn ranges(allocation: &IPAllocation) -> Vec<AddressRange> {
    let Some(status) = &allocation.status else {
        return Vec::new();
    };
    let written: Vec<AddressRange> = status
        .ranges
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    match (&status.start_address, &status.end_address) {
        // A claim from before there were several ranges.
        (Some(start), Some(end)) if written.is_empty() => {
            AddressRange::parse(start, end).into_iter().collect()
        }
        _ => written,
    }
}

/// Who a claim belongs to, given the UID of whoever has the owner's name now. The UID is written down when the claim
/// is made or granted: names are used again, UIDs are not.
pub fn owner(allocation: &IPAllocation, present: Option<&str>) -> Owner {
    let noted = allocation
        .status
        .as_ref()
        .and_then(|status| status.owner_uid.as_deref());
    let noted = noted.or_else(|| {
        allocation
            .labels()
            .get(names::OWNER_UID)
            .map(String::as_str)
    });
    match (noted, present) {
        (Some(noted), Some(present)) if noted == present => Owner::Known(present.to_owned()),
        (Some(noted), _) => Owner::Gone(noted.to_owned()),
        (None, Some(present)) => Owner::Known(present.to_owned()),
        (None, None) => Owner::Missing(owner_name(allocation)),
    }
}

/// The owner in words.
pub fn owner_name(allocation: &IPAllocation) -> String {
    let cluster = &allocation.spec.tenant_cluster_ref;
    match allocation.annotations().get(names::ADDRESS_CLAIM) {
        Some(claim) => format!("IPAddressClaim {}/{claim}", cluster.namespace),
        None => format!("TenantCluster {}/{}", cluster.namespace, cluster.name),
    }
}
