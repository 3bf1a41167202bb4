//! CEL that several kinds need, written once: the order of addresses, ranges that must not meet, fields
//! that are set once, names that must stay short.
//!
//! Only text is made here; the API server evaluates it. Arguments are CEL expressions such as
//! `self.start`, never values of users.

use std::fmt::Write;

use kube_core::Rule;

/// Whether address `a` comes before address `b`; false when they are of different families.
///
/// CEL has no order on addresses and the API server refuses rules whose cost it cannot bound, which
/// excludes taking the text apart. So it is read off the prefixes: where the longest prefix that both
/// share ends, the smaller one has a zero bit, which means that one bit more leaves its network
/// address as it is. Both expressions must be valid addresses, see [`in_order`].
pub fn before(a: &str, b: &str) -> String {
    let mut lengths = String::new();
    for length in 0..128 {
        let separator = if length == 0 { "" } else { "," };
        write!(lengths, "{separator}'/{length}':'/{}'", length + 1)
            .expect("writing to a String never fails");
    }
    format!(
        "{{{lengths}}}.exists(w, n, ({a}.contains(':') || int(n.substring(1)) <= 32) \
         && cidr({a} + w).containsIP({b}) && !cidr({a} + n).containsIP({b}) \
         && cidr({a} + w).masked().ip() == cidr({a} + n).masked().ip())"
    )
}

/// Whether `start` and `end` are the ends of a range: one family, and `start` not after `end`.
///
/// True for text that is no address: the rule of [`crate::schema::ip`] already says so.
pub fn in_order(start: &str, end: &str) -> String {
    format!(
        "!isIP({start}) || !isIP({end}) || ip({start}) == ip({end}) || {}",
        before(start, end)
    )
}

/// Whether two network ranges share no address; true for text that is no range.
pub fn apart(a: &str, b: &str) -> String {
    format!(
        "!isCIDR({a}) || !isCIDR({b}) || \
         (!cidr({a}).containsIP(cidr({b}).ip()) && !cidr({b}).containsIP(cidr({a}).ip()))"
    )
}

/// A quantity that may be written as a number or as text, as something that can be compared.
///
/// Only for fields that [`crate::schema::quantity`] accepts.
pub fn amount(quantity: &str) -> String {
    format!("(type({quantity}) == int ? quantity('0').add({quantity}) : quantity({quantity}))")
}

/// How a field is written in CEL, which keeps some words for itself.
fn escaped(field: &str) -> String {
    match field {
        "namespace" | "package" | "import" | "function" => format!("__{field}__"),
        _ => field.to_owned(),
    }
}

/// A required field of `self` that keeps the value it was created with.
pub fn immutable(field: &str) -> Rule {
    let path = escaped(field);
    Rule::new(format!("self.{path} == oldSelf.{path}"))
        .message(&*format!("{field} cannot be changed after creation"))
        .field_path(format!(".{field}"))
}

/// An optional field of `self` that is never added, changed or removed after creation.
pub fn immutable_optional(field: &str) -> Rule {
    let path = escaped(field);
    Rule::new(format!(
        "has(self.{path}) == has(oldSelf.{path}) \
         && (!has(self.{path}) || self.{path} == oldSelf.{path})"
    ))
    .message(&*format!(
        "{field} cannot be added, changed or removed after creation"
    ))
    .field_path(format!(".{field}"))
}

/// A limit on the name of an object, for the root of a kind.
pub fn name_at_most(characters: u32, reason: &str) -> Rule {
    Rule::new(format!("self.metadata.name.size() <= {characters}"))
        .message(&*format!(
            "the name may have at most {characters} characters, because {reason}"
        ))
        .field_path(".metadata.name")
}
