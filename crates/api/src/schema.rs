//! Schemas of fields that several kinds share, for `#[schemars(schema_with = "...")]`.
//!
//! A raw field stays a plain `String` or `IntOrString`, so that an object written before a rule existed
//! can still be read; the API server refuses bad values at the door with the rules written here.
//! Every string has a maximum length: the API server multiplies it into the cost of CEL rules.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// A Kubernetes name of at most 63 characters (RFC 1123 label).
pub fn dns_label(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 63,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    })
}

/// A Kubernetes object name (RFC 1123 subdomain, at most 253 characters).
pub fn object_name(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 253,
        "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
    })
}

/// A Kubernetes release such as `v1.35.4`.
pub fn kube_version(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 32,
        "x-kubernetes-validations": [{
            "rule": r"self.matches('^v[0-9]+\\.[0-9]+\\.[0-9]+$')",
            "message": "must be a full Kubernetes version such as v1.35.4",
        }],
    })
}

/// An IPv4 or IPv6 range such as `10.244.0.0/16`, written with its network address.
pub fn cidr(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 43,
        "x-kubernetes-validations": [{
            "rule": "isCIDR(self) && cidr(self) == cidr(self).masked()",
            "message": "must be a network range such as 10.244.0.0/16, with no host bits set",
        }],
    })
}

/// One IPv4 or IPv6 address.
pub fn ip(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 39,
        "x-kubernetes-validations": [{
            "rule": "isIP(self)",
            "message": "must be an IP address such as 10.40.1.100",
        }],
    })
}

/// A Kubernetes quantity, written as a number or a string: `4`, `"500m"`, `16Gi`.
pub fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "maxLength": 32,
        "x-kubernetes-validations": [{
            // A bare number must fit `IntOrString`, or no typed watch could read the object.
            "rule": "type(self) == int ? self >= 0 && self <= 2147483647 : isQuantity(self) && quantity(self).compareTo(quantity('0')) >= 0",
            "message": "must be a quantity that is not negative, such as 4, 500m or 16Gi; quote numbers above 2147483647",
        }],
    })
}

/// A [`quantity`] with a lower limit; `what` names it in the message.
pub fn quantity_of_at_least(least: &str, what: &str) -> Schema {
    let amount = crate::cel::amount("self");
    with_rule(
        quantity(&mut SchemaGenerator::default()),
        &format!(
            "!(type(self) == int || isQuantity(self)) || {amount}.compareTo(quantity('{least}')) >= 0"
        ),
        &format!("{what} must be at least {least}"),
    )
}

/// A schema with one rule more.
pub fn with_rule(mut schema: Schema, rule: &str, message: &str) -> Schema {
    let rules = schema
        .ensure_object()
        .entry("x-kubernetes-validations")
        .or_insert_with(|| json!([]));
    if let Value::Array(rules) = rules {
        rules.push(json!({ "rule": rule, "message": message }));
    }
    schema
}

/// The host name or address of a server, without a port.
pub fn host(_: &mut SchemaGenerator) -> Schema {
    text(
        253,
        r"isIP(self) || self.matches('^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*$')",
        "must be a host name or an IP address, without a port",
    )
}

/// Host names or addresses of at most 16 servers.
pub fn hosts(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 16, "items": host(generator) })
}

/// A length of time such as `90s`, `10m` or `1h30m`.
pub fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 32,
        "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$",
    })
}

/// An `http://` or `https://` address.
pub fn url(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "maxLength": 2048, "pattern": "^https?://" })
}

/// A host name, or a pattern for one label of it such as `*.k8s.example.com`.
pub fn host_pattern(_: &mut SchemaGenerator) -> Schema {
    text(
        253,
        r"self == '' || self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",
        "must be a host name such as *.k8s.example.com",
    )
}

/// An object in a namespace, written `namespace/name`.
pub fn namespaced_name(_: &mut SchemaGenerator) -> Schema {
    text(
        317,
        r"self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
        "must be written as namespace/name",
    )
}

/// An e-mail address.
pub fn email(_: &mut SchemaGenerator) -> Schema {
    text(
        254,
        r"self.matches('^[^@ ]+@[^@ ]+$')",
        "must be an e-mail address such as ada@example.com",
    )
}

/// Where a Helm chart comes from: an HTTP repository or an OCI registry.
pub fn chart_repository(_: &mut SchemaGenerator) -> Schema {
    text(
        2048,
        r"self.matches('^(https?|oci)://[^ /]+')",
        "must be the address of a chart repository, starting with https://, http:// or oci://",
    )
}

/// The version of a chart; empty means the same as leaving it out.
pub fn chart_version(_: &mut SchemaGenerator) -> Schema {
    text(
        128,
        r"self == '' || self.matches('^v?[0-9]+([.][0-9]+){0,2}([-+][0-9A-Za-z.+-]+)?$')",
        "must be one chart version such as 1.17.0 or v1.16.2, not a range",
    )
}

/// The name of a Helm release.
pub fn release_name(_: &mut SchemaGenerator) -> Schema {
    text(
        253,
        r"self.size() <= 53 && self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
        "must be a Helm release name: at most 53 lower-case letters, digits, dots and dashes",
    )
}

/// A public key as OpenSSH writes it.
pub fn ssh_public_key(_: &mut SchemaGenerator) -> Schema {
    text(
        8192,
        r"self.matches('^(ssh|ecdsa|sk)-[^ ]+ [A-Za-z0-9+/=]+( .*)?$')",
        "must be one OpenSSH public key such as: ssh-ed25519 AAAAC3... ada@laptop",
    )
}

/// The address of a Git repository.
pub fn git_url(_: &mut SchemaGenerator) -> Schema {
    text(
        2048,
        r"self.matches('^((https?|ssh|git)://[^ ]+|[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^ ]+)$')",
        "must be the address of a Git repository, such as https://git.example.com/app.git or git@git.example.com:app.git",
    )
}

/// A string of bounded length with one rule and what to say when it is broken.
pub fn text(max_length: u32, rule: &str, message: &str) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": max_length,
        "x-kubernetes-validations": [{ "rule": rule, "message": message }],
    })
}

/// A moment in time (RFC 3339).
pub fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// An object whose content belongs to someone else, such as Helm values.
pub fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Conditions, merged by type under server-side apply.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "type": "string",
                    "description": "What the condition is about, such as Ready.",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
                "status": {
                    "type": "string",
                    "description": "True, False or Unknown.",
                    "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                    "description": "The metadata.generation the condition speaks about.",
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed.",
                },
                "reason": {
                    "type": "string",
                    "description": "One word for programs to match on.",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "type": "string",
                    "description": "A sentence for people.",
                    "maxLength": 32768,
                },
            },
        },
    })
}

/// A list that server-side apply merges by one key field of its items.
pub fn merge_by_key(mut list: Schema, key: &str, max_items: u32) -> Schema {
    list.insert("x-kubernetes-list-type".into(), json!("map"));
    list.insert("x-kubernetes-list-map-keys".into(), json!([key]));
    list.insert("maxItems".into(), json!(max_items));
    list
}
