//! Rules of a `TenantCluster` that look at more than one field, or at the object before the change.

use kube_core::Rule;

use crate::{cel, steward::rules::has_path, types::names::CLUSTER_NAME_MAX};

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

/// No control plane moves between majors.
pub(super) fn one_major() -> Rule {
    Rule::new("self.kubernetesVersion.split('.')[0] == oldSelf.kubernetesVersion.split('.')[0]")
        .message("a cluster stays on its major version")
        .field_path(".kubernetesVersion")
}

/// How a release is written so that its numbers can be compared.
const RELEASE: &str = "^v[0-9]+[.][0-9]{1,4}[.][0-9]{1,4}$";

/// No minor version is left out, counted from the release that runs.
pub(super) fn one_minor_at_a_time() -> Rule {
    from_the_running_release(|wanted, from| format!("{} <= {} + 1", part(wanted, 1), part(from, 1)))
        .message("upgrade one minor version at a time, for example from v1.34 to v1.35: what counts is the release that runs")
}

/// Nothing earlier than the release that runs. A later one that has not come true may be exchanged or taken back.
pub(super) fn no_downgrade() -> Rule {
    from_the_running_release(|wanted, from| {
        format!(
            "{minor} > {from_minor} || ({minor} == {from_minor} && {} >= {})",
            part(wanted, 2),
            part(from, 2),
            minor = part(wanted, 1),
            from_minor = part(from, 1),
        )
    })
    .message("a control plane cannot be downgraded: this release is earlier than the one that runs")
}

/// A rule about a changed release and the one it starts from: that which runs, or before anything runs the last wish.
fn from_the_running_release(holds: impl Fn(&str, &str) -> String) -> Rule {
    let (wanted, running) = (
        "spec.kubernetesVersion",
        "status.observedState.kubernetesVersion",
    );
    let (new, old) = (format!("self.{wanted}"), format!("oldSelf.{wanted}"));
    let from = format!("({} ? self.{running} : {old})", has_path(running));
    Rule::new(format!(
        "{new} == {old} || !{new}.matches('{RELEASE}') || !{from}.matches('{RELEASE}') || {}",
        holds(&new, &from)
    ))
    .field_path(format!(".{wanted}"))
}

/// One of the numbers of a release, as CEL.
fn part(release: &str, index: usize) -> String {
    format!("int({release}.split('.')[{index}])")
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
