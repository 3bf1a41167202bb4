//! Schemas of fields that several kinds share, for `#[schemars(schema_with = "...")]`.
//!
//! A raw field stays a plain `String` or `IntOrString`, so that an object written before a rule existed
//! can still be read; the API server refuses bad values at the door with the rules written here.
//! Every string has a maximum length: the API server multiplies it into the cost of CEL rules.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

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
            "rule": "type(self) == int ? self >= 0 : isQuantity(self) && quantity(self).isGreaterThan(quantity('-1'))",
            "message": "must be a quantity that is not negative, such as 4, 500m or 16Gi",
        }],
    })
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
