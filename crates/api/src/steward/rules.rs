//! Rules that the hosted control-plane kinds and their Cluster API kinds share.
//!
//! Only the text of CEL rules is made here; arguments are CEL expressions, never values of users.

use kube_core::{Message, Rule};

/// How a Kubernetes release is written; the reference accepts it with and without the `v`.
const VERSION: &str = r"^v?1\\.[0-9]{1,3}\\.[0-9]{1,3}$";

/// How a release is written so that its numbers can be compared.
const RELEASE: &str = "^v?[0-9]+[.][0-9]{1,4}[.][0-9]{1,4}$";

/// A control plane's name becomes a Service and a label, so it must be fit for both.
pub fn service_name() -> Rule {
    Rule::new("self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message(
            "the name becomes a Service and a label: at most 63 lower-case letters, digits and dashes, starting with a letter",
        )
        .field_path(".metadata.name")
}

/// No minor release is left out, counted from the one that runs.
///
/// `wanted` is the field of the spec that names a release, `running` that of the status which records the one that runs.
pub fn one_minor_at_a_time(wanted: &str, running: &str) -> Rule {
    from_the_running_release(wanted, running, |new, from| {
        format!("{} <= {} + 1", part(new, 1), part(from, 1))
    })
    .message("upgrade one minor version at a time, for example from v1.34 to v1.35: what counts is the release that runs")
}

/// Nothing earlier than the release that runs. A later one that has not come true may be exchanged or taken back.
pub fn no_downgrade(wanted: &str, running: &str) -> Rule {
    from_the_running_release(wanted, running, |new, from| {
        format!(
            "{minor} > {from_minor} || ({minor} == {from_minor} && {} >= {})",
            part(new, 2),
            part(from, 2),
            minor = part(new, 1),
            from_minor = part(from, 1),
        )
    })
    .message("a control plane cannot be downgraded: this release is earlier than the one that runs")
}

/// A rule about a changed release and the one that runs. Before anything runs there is nothing to protect: whoever
/// asked for a release that does not exist must be able to correct it, in either direction.
pub(crate) fn from_the_running_release(
    wanted: &str,
    running: &str,
    holds: impl Fn(&str, &str) -> String,
) -> Rule {
    let (new, old, from) = (
        format!("self.{wanted}"),
        format!("oldSelf.{wanted}"),
        format!("self.{running}"),
    );
    Rule::new(format!(
        "{new} == {old} || !({}) || !{new}.matches('{RELEASE}') || !{from}.matches('{RELEASE}') || {}",
        has_path(running),
        holds(&new, &from)
    ))
    .field_path(format!(".{wanted}"))
}

/// One of the numbers of a release, as CEL.
fn part(release: &str, index: usize) -> String {
    format!("int({release}.split('.')[{index}])")
}

/// Whether every step of `path` below `self` is there.
///
/// CEL's optional chaining says the same in fewer words, but the API server cannot bound what it yields
/// and refuses the rule for its cost.
fn has_path(path: &str) -> String {
    let ends = path.match_indices('.').map(|(at, _)| at);
    let steps: Vec<String> = ends
        .chain([path.len()])
        .filter_map(|end| path.get(..end))
        .map(|step| format!("has(self.{step})"))
        .collect();
    steps.join(" && ")
}

/// Rule of [`crate::steward::fragments::version`].
pub(super) fn version_format() -> String {
    format!("self.matches('{VERSION}')")
}

/// Exactly one of some optional fields of `self` is set.
pub fn exactly_one(fields: &[&str]) -> Rule {
    let set: Vec<String> = fields
        .iter()
        .map(|field| format!("has(self.{field})"))
        .collect();
    Rule::new(format!("[{}].filter(x, x).size() == 1", set.join(", "))).message(Message::Message(
        format!("set exactly one of {}", fields.join(", ")),
    ))
}

/// Every address of `ips` lies inside the range `range`; both are CEL expressions.
pub fn ips_inside(ips: &str, range: &str) -> String {
    format!(
        "!has({ips}) || !isCIDR({range}) || {ips}.all(a, !isIP(a) || cidr({range}).containsIP(a))"
    )
}

/// Load-balancer settings of `balancer` (a CEL expression) go with a LoadBalancer Service only, and the
/// class never changes while the Service stays one, because Kubernetes refuses that.
pub fn load_balancer_only(field: &str, balancer: &str, service_type: &str) -> Rule {
    Rule::new(format!(
        "!has({balancer}.{field}) || {service_type} == 'LoadBalancer'"
    ))
    .message(Message::Message(format!(
        "{field} needs serviceType LoadBalancer"
    )))
}
