//! Rules of a `TenantCluster` that look at more than one field, or at the object before the change.

use kube_core::Rule;

use crate::{cel, steward::rules as releases, types::names::CLUSTER_NAME_MAX};

/// The name becomes Services, label values and, with a suffix, a namespace.
pub(super) fn name() -> Rule {
    Rule::new(format!(
        "self.metadata.name.size() <= {CLUSTER_NAME_MAX} \
         && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ))
    .message(&*format!(
        "the name becomes a namespace with a suffix, and Services: at most {CLUSTER_NAME_MAX} \
         lower-case letters, digits and dashes, starting with a letter"
    ))
    .field_path(".metadata.name")
}

/// Where the release that runs is recorded, and the one that is wanted.
const RUNNING: &str = "status.observedState.kubernetesVersion";
const WANTED: &str = "spec.kubernetesVersion";

/// No control plane moves between majors.
pub(super) fn one_major() -> Rule {
    let major = |release: &str| format!("{release}.split('.')[0]");
    releases::from_the_running_release(WANTED, RUNNING, |new, from| {
        format!("{} == {}", major(new), major(from))
    })
    .message("a cluster stays on its major version")
}

/// No minor version is left out.
pub(super) fn one_minor_at_a_time() -> Rule {
    releases::one_minor_at_a_time(WANTED, RUNNING)
}

/// Nothing earlier than what runs.
pub(super) fn no_downgrade() -> Rule {
    releases::no_downgrade(WANTED, RUNNING)
}

/// A reference that may be added later, but neither changed nor removed.
pub(super) fn set_once(field: &str, reason: &str) -> Rule {
    Rule::new(format!(
        "!has(oldSelf.{field}) || (has(self.{field}) && self.{field} == oldSelf.{field})"
    ))
    .message(&*format!("{field} cannot be changed once set: {reason}"))
    .field_path(format!(".{field}"))
}

/// Every worker takes a /24 of the pod range (IPv6: a /64); one that gets none never becomes ready.
pub(super) fn room_for_workers() -> Rule {
    let range = "cidr(self.networking.podCIDR)";
    let spare = format!("(({range}.ip().family() == 4 ? 24 : 64) - {range}.prefixLength())");
    let powers: Vec<String> = (0..=16).map(|power| (1 << power).to_string()).collect();
    Rule::new(format!(
        "!isCIDR(self.networking.podCIDR) || {spare} < 0 || {spare} > 16 \
         || self.workers.replicas <= [{}][{spare}]",
        powers.join(",")
    ))
    .message(
        "podCIDR has no room for so many workers: each takes a /24 of it (IPv6: a /64), so that a /16 \
         serves 256",
    )
    .field_path(".workers.replicas")
}

/// The two ways to write the load-balancer pool must not contradict each other.
pub(super) fn one_address_pool() -> Rule {
    Rule::new(
        "!has(self.addons) || !has(self.addons.loadBalancer) \
         || !has(self.addons.loadBalancer.addressPool) || !has(self.networking.loadBalancerPool) \
         || self.addons.loadBalancer.addressPool \
         == self.networking.loadBalancerPool.start + '-' + self.networking.loadBalancerPool.end",
    )
    .message(
        "networking.loadBalancerPool says something else: give the pool once, or twice with the same \
         addresses",
    )
    .field_path(".addons.loadBalancer.addressPool")
}

/// `addons.loadBalancer.addressPool` shares no address with a range of the cluster.
pub(super) fn address_pool_apart(range: &str) -> Rule {
    let pool = "self.addons.loadBalancer.addressPool";
    let range_text = format!("self.networking.{range}");
    let (start, end) = (
        format!("{pool}.split('-')[0]"),
        format!("{pool}.split('-')[1]"),
    );
    Rule::new(format!(
        "!has(self.addons) || !has(self.addons.loadBalancer) || !has({pool}) || ({pool}.contains('-') \
         ? ({}) : ({}))",
        range_apart(&start, &end, &range_text),
        cel::apart(pool, &range_text),
    ))
    .message(&*format!(
        "the load-balancer pool must not share addresses with {range}"
    ))
    .field_path(".addons.loadBalancer.addressPool")
}

/// Whether the addresses from `start` to `end` and a network share none, as CEL; true for bad text.
pub(super) fn range_apart(start: &str, end: &str, network: &str) -> String {
    let first = format!("{network}.split('/')[0]");
    format!(
        "!isIP({start}) || !isIP({end}) || !isCIDR({network}) || (!cidr({network}).containsIP({start}) \
         && !cidr({network}).containsIP({end}) && !({} && {}))",
        cel::before(start, &first),
        cel::before(&first, end),
    )
}
