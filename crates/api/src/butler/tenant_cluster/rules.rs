//! Rules of a `TenantCluster` that look at more than one field, or at the object before the change.

use kube_core::Rule;

use crate::{cel, types::names::CLUSTER_NAME_MAX};

/// What the rules on versions can take apart.
const VERSION: &str = r"^v[0-9]{1,4}[.][0-9]{1,4}[.][0-9]{1,4}$";

/// One of the numbers of a version, as CEL.
fn number(version: &str, index: usize) -> String {
    let part = format!("{version}.split('.')[{index}]");
    if index == 0 {
        format!("int({part}.substring(1))")
    } else {
        format!("int({part})")
    }
}

/// True unless both versions can be compared, as CEL that ends in `||`.
fn unless_versions(new: &str, old: &str) -> String {
    format!("!{new}.matches('{VERSION}') || !{old}.matches('{VERSION}') || ")
}

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

/// Versions only go up, except back to the one that still runs.
///
/// It is a rule of the whole object because only the status knows what runs: while an upgrade has not
/// begun to be true, whoever takes the change back must get it accepted.
pub(super) fn no_downgrade() -> Rule {
    let (new, old) = (
        "self.spec.kubernetesVersion",
        "oldSelf.spec.kubernetesVersion",
    );
    let [major, minor, patch] = [0, 1, 2].map(|index| (number(new, index), number(old, index)));
    Rule::new(format!(
        "{}{} != {} || {} > {} || ({} == {} && {} >= {}) \
         || self.?status.?observedState.?kubernetesVersion.orValue('') == {new}",
        unless_versions(new, old),
        major.0,
        major.1,
        minor.0,
        minor.1,
        minor.0,
        minor.1,
        patch.0,
        patch.1,
    ))
    .message("a cluster cannot be downgraded; only an upgrade that has not begun can be taken back")
    .field_path(".spec.kubernetesVersion")
}

/// No control plane moves between majors.
pub(super) fn one_major() -> Rule {
    let (new, old) = ("self.kubernetesVersion", "oldSelf.kubernetesVersion");
    Rule::new(format!(
        "{}{} == {}",
        unless_versions(new, old),
        number(new, 0),
        number(old, 0)
    ))
    .message("a cluster stays on its major version")
    .field_path(".kubernetesVersion")
}

/// Upstream supports one minor at a time.
pub(super) fn one_minor_at_a_time() -> Rule {
    let (new, old) = ("self.kubernetesVersion", "oldSelf.kubernetesVersion");
    Rule::new(format!(
        "{}{} <= {} + 1",
        unless_versions(new, old),
        number(new, 1),
        number(old, 1)
    ))
    .message("upgrade one minor version at a time, for example from v1.34 to v1.35")
    .field_path(".kubernetesVersion")
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
