//! Parts of pods and Services that the hosted control-plane kinds share.
//!
//! Pod fragments (containers, volumes, affinity) belong to Kubernetes: they stay free-form, with the
//! fields that cannot be left out declared, because embedding their full schemas would make a definition
//! too large for `kubectl apply`. The API server checks the rest when the Deployment is written.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::rules;
use crate::schema;

/// Containers that a control-plane pod has of its own.
const OWN_CONTAINERS: &str = "['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kine', 'konnectivity-server', 'steward-trustd']";

/// Labels and annotations added to an object that Steward makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExtraMetadata {
    /// Labels to add, such as `cost-centre: "42"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations")]
    pub annotations: BTreeMap<String, String>,
}

/// What a container asks for, and the most it may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!has(self.requests) || !has(self.limits) || self.requests.all(k, !(k in self.limits) || !isQuantity(string(self.requests[k])) || !isQuantity(string(self.limits[k])) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)")
        .message("a request must not be larger than the limit of the same resource")
        .field_path(".requests")
)]
pub struct Resources {
    /// What the scheduler sets aside, for example `{cpu: 250m, memory: 512Mi}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "amounts")]
    pub requests: BTreeMap<String, IntOrString>,
    /// The most it may use, for example `{memory: 1Gi}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "amounts")]
    pub limits: BTreeMap<String, IntOrString>,
}

/// Labels of our own objects: no key of Steward's, because selectors are made of them.
pub fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
        },
        "x-kubernetes-validations": [{
            "rule": "self.all(k, !k.startsWith('steward.butlerlabs.dev/'))",
            "message": "labels that start with steward.butlerlabs.dev/ are reserved",
        }],
    })
}

/// Annotations of our own objects.
pub fn annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 16384 },
    })
}

/// Labels that a node must carry.
pub fn node_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": { "type": "string", "maxLength": 63 },
    })
}

/// Quantities by resource name.
fn amounts(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": schema::quantity(generator),
    })
}

/// A Kubernetes release such as `v1.35.4`, with or without the `v`.
pub fn version(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        16,
        &rules::version_format(),
        "must be a full Kubernetes version such as v1.35.4",
    )
}

/// Flags of a component, each one list item.
pub fn args(_: &mut SchemaGenerator) -> Schema {
    let item = schema::text(
        2048,
        "self.startsWith('-')",
        "must be a flag with its value in one item, such as --profiling=false",
    );
    json_schema!({ "type": "array", "maxItems": 128, "items": item })
}

/// A name that a certificate is valid for: an IP address, a DNS name or a wildcard.
pub fn subject_names(_: &mut SchemaGenerator) -> Schema {
    let item = schema::text(
        253,
        "isIP(self) || (self.matches('^([*][.])?([a-z0-9]([-a-z0-9]*[a-z0-9])?[.])*[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && !self.matches('^[0-9.]+$'))",
        "must be an IP address or a DNS name without a port, such as 10.40.1.100, api.example.com or *.example.com",
    );
    set_of(&item, 64)
}

/// Unique addresses.
pub fn ips(generator: &mut SchemaGenerator) -> Schema {
    set_of(&schema::ip(generator), 8)
}

/// Unique network ranges.
pub fn cidrs(generator: &mut SchemaGenerator) -> Schema {
    set_of(&schema::cidr(generator), 64)
}

/// A list of unique scalars.
pub fn set_of(item: &Schema, max_items: u32) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": max_items,
        "x-kubernetes-list-type": "set",
        "items": item,
    })
}

/// A DNS name, where nothing but one makes sense.
pub fn host_name(_: &mut SchemaGenerator) -> Schema {
    host(
        "([a-z0-9]([-a-z0-9]*[a-z0-9])?[.])*[a-z0-9]([-a-z0-9]*[a-z0-9])?",
        "api.k8s.example.com",
    )
}

/// A DNS name with an optional port.
pub fn host_name_and_port(_: &mut SchemaGenerator) -> Schema {
    host(
        "([a-z0-9]([-a-z0-9]*[a-z0-9])?[.])*[a-z0-9]([-a-z0-9]*[a-z0-9])?(:[0-9]{1,5})?",
        "api.k8s.example.com or api.k8s.example.com:8443",
    )
}

fn host(pattern: &str, example: &str) -> Schema {
    schema::text(
        259,
        &format!("self.matches('^{pattern}$')"),
        &format!("must be a host name such as {example}"),
    )
}

/// A registry or a repository in one, without a scheme and without a tag.
pub fn repository(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        255,
        "self.matches('^[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?(/[a-z0-9][-a-z0-9._]*)*$')",
        "must be a registry or repository without scheme and tag, such as registry.k8s.io or mirror.example.com:5000/k8s",
    )
}

/// The tag of an image; the empty text means the default.
pub fn image_tag(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        128,
        "self == '' || self.matches('^[A-Za-z0-9_][-A-Za-z0-9_.]*$')",
        "must be the tag of an image, such as v1.35.4",
    )
}

/// Containers, merged by name.
pub fn containers(_: &mut SchemaGenerator) -> Schema {
    let item = json!({
        "type": "object",
        "required": ["name", "image"],
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "name": {
                "type": "string",
                "description": "Name of the container.",
                "maxLength": 63,
                "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            },
            "image": {
                "type": "string",
                "description": "Image of the container.",
                "minLength": 1,
                "maxLength": 512,
            },
        },
        "x-kubernetes-validations": [{
            "rule": format!("!(self.name in {OWN_CONTAINERS})"),
            "message": "this container name is used by the control plane itself",
            "fieldPath": ".name",
        }],
    });
    free_form_list(&item, &["name"])
}

/// Volumes, merged by name.
pub fn volumes(_: &mut SchemaGenerator) -> Schema {
    let item = json!({
        "type": "object",
        "required": ["name"],
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "name": {
                "type": "string",
                "description": "Name of the volume.",
                "maxLength": 63,
                "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            },
        },
    });
    free_form_list(&item, &["name"])
}

/// Mounts of volumes, merged by the path they are mounted at.
pub fn volume_mounts(_: &mut SchemaGenerator) -> Schema {
    let item = json!({
        "type": "object",
        "required": ["name", "mountPath"],
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "name": {
                "type": "string",
                "description": "Name of the volume.",
                "minLength": 1,
                "maxLength": 63,
            },
            "mountPath": {
                "type": "string",
                "description": "Where the volume appears in the container.",
                "maxLength": 512,
                "pattern": "^/",
            },
        },
    });
    free_form_list(&item, &["mountPath"])
}

/// Rules that spread pods over nodes or zones.
pub fn topology_spread(_: &mut SchemaGenerator) -> Schema {
    let item = json!({
        "type": "object",
        "required": ["maxSkew", "topologyKey", "whenUnsatisfiable"],
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "maxSkew": {
                "type": "integer",
                "format": "int32",
                "minimum": 1,
                "description": "How uneven the spread may be.",
            },
            "topologyKey": {
                "type": "string",
                "minLength": 1,
                "maxLength": 316,
                "description": "Node label to spread over, such as topology.kubernetes.io/zone.",
            },
            "whenUnsatisfiable": {
                "type": "string",
                "enum": ["DoNotSchedule", "ScheduleAnyway"],
                "description": "What to do when the spread cannot be kept.",
            },
        },
    });
    free_form_list(&item, &["topologyKey", "whenUnsatisfiable"])
}

/// Taints that pods tolerate.
pub fn tolerations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "properties": {
                "key": { "type": "string", "maxLength": 316, "description": "Taint key; empty with operator Exists tolerates all." },
                "operator": { "type": "string", "maxLength": 16, "description": "Exists, or Equal (the default)." },
                "value": { "type": "string", "maxLength": 63, "description": "Taint value, with operator Equal." },
                "effect": { "type": "string", "enum": ["", "NoSchedule", "PreferNoSchedule", "NoExecute"], "description": "Taint effect; empty tolerates all." },
                "tolerationSeconds": { "type": "integer", "format": "int64", "description": "How long a NoExecute taint is tolerated." },
            },
            "x-kubernetes-validations": [{
                "rule": "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
                "message": "a toleration without a key needs operator Exists",
                "fieldPath": ".operator",
            }],
        },
    })
}

/// Where pods are attracted to and kept away from.
pub fn affinity(_: &mut SchemaGenerator) -> Schema {
    let part = |description: &str| {
        json!({
            "type": "object",
            "description": description,
            "x-kubernetes-preserve-unknown-fields": true,
        })
    };
    json_schema!({
        "type": "object",
        "properties": {
            "nodeAffinity": part("Which nodes are wanted."),
            "podAffinity": part("Which pods are wanted near."),
            "podAntiAffinity": part("Which pods are kept away from."),
        },
    })
}

/// A free-form list that server-side apply merges by `keys`.
fn free_form_list(item: &Value, keys: &[&str]) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys,
        "items": item,
    })
}
