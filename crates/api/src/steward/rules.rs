//! Rules that the hosted control-plane kinds and their Cluster API kinds share.
//!
//! Only the text of CEL rules is made here; arguments are CEL expressions, never values of users.

use kube_core::{Message, Rule};

/// How a Kubernetes release is written; the reference accepts it with and without the `v`.
const VERSION: &str = r"^v?1\\.[0-9]{1,3}\\.[0-9]{1,3}$";

/// A control plane's name becomes a Service and a label, so it must be fit for both.
pub fn service_name() -> Rule {
    Rule::new("self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message(
            "the name becomes a Service and a label: at most 63 lower-case letters, digits and dashes, starting with a letter",
        )
        .field_path(".metadata.name")
}

/// The version at `path` never jumps over a minor release.
pub fn one_minor_at_a_time(path: &str) -> Rule {
    let (new, old) = (format!("self.{path}"), format!("oldSelf.{path}"));
    Rule::new(format!(
        "!{new}.matches('{VERSION}') || !{old}.matches('{VERSION}') || \
         int({new}.split('.')[1]) <= int({old}.split('.')[1]) + 1"
    ))
    .message("upgrade one minor version at a time, for example from v1.34 to v1.35")
    .field_path(format!(".{path}"))
}

/// The version at `path` never goes down below the one that still runs.
///
/// `installed` is the field of the status that records the running version: while an upgrade has not
/// completed, whoever reverts the change in Git, or asks for another release instead, must get it accepted.
pub fn no_downgrade(path: &str, installed: &str) -> Rule {
    let (new, old) = (format!("self.{path}"), format!("oldSelf.{path}"));
    let has_installed = has_path(installed);
    let held = format!("self.{installed}");
    Rule::new(format!(
        "!{new}.matches('{VERSION}') || !{old}.matches('{VERSION}') || \
         int({new}.split('.')[1]) > int({old}.split('.')[1]) || \
         (int({new}.split('.')[1]) == int({old}.split('.')[1]) && \
         int({new}.split('.')[2]) >= int({old}.split('.')[2])) || \
         ({has_installed} && {held}.matches('{VERSION}') && \
         (int({new}.split('.')[1]) > int({held}.split('.')[1]) || \
         (int({new}.split('.')[1]) == int({held}.split('.')[1]) && \
         int({new}.split('.')[2]) >= int({held}.split('.')[2]))))"
    ))
    .message(
        "a control plane cannot be downgraded; only a change that is not installed yet can be taken back",
    )
    .field_path(format!(".{path}"))
}

/// Whether every step of `path` below `self` is there.
///
/// CEL's optional chaining says the same in fewer words, but the API server cannot bound what it yields
/// and refuses the rule for its cost.
pub fn has_path(path: &str) -> String {
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
