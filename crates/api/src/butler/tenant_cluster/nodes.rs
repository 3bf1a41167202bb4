//! What all machines of a tenant cluster are told beside how to join: registries, proxy, trust, keys.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// What all machines of a cluster are told. A change replaces the workers one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSettings {
    /// Where images are pulled from instead of their own registry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "mirrors")]
    pub registry_mirrors: Vec<RegistryMirror>,
    /// How machines reach the world outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Certificate authorities that machines trust beside the usual ones, as PEM texts.
    #[serde(rename = "trustedCAs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "authorities")]
    pub trusted_cas: Vec<String>,
    /// SSH keys that may sign in to the machines, beside that of the pool. Talos has no SSH.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "keys")]
    pub ssh_authorized_keys: Vec<String>,
    /// Flags of the kubelet without their dashes, such as `max-pods: "200"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "flags")]
    pub kubelet_args: BTreeMap<String, String>,
}

/// Where images of one registry are pulled from instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryMirror {
    /// The registry as images name it, such as `docker.io` or `registry.example.com:5000`.
    #[schemars(schema_with = "registry")]
    pub registry: String,
    /// Addresses to ask, in this order, before the registry itself.
    #[schemars(schema_with = "endpoints")]
    pub endpoints: Vec<String>,
}

/// How machines reach the world outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proxy {
    /// Proxy for plain requests, such as `http://proxy.example.com:3128`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::url")]
    pub http: Option<String>,
    /// Proxy for encrypted requests. Default: that for plain ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::url")]
    pub https: Option<String>,
    /// Hosts, domains and ranges that are reached directly. The ranges and the API server of the cluster
    /// are always among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub no_proxy: Vec<String>,
}

fn mirrors(generator: &mut SchemaGenerator) -> Schema {
    let list = generator.subschema_for::<Vec<RegistryMirror>>();
    schema::merge_by_key(list, "registry", 32)
}

fn registry(_: &mut SchemaGenerator) -> Schema {
    schema::text(
        253,
        "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]{1,5})?$')",
        "must be a registry such as docker.io or registry.example.com:5000",
    )
}

fn endpoints(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "minItems": 1, "maxItems": 8, "items": schema::url(generator) })
}

fn authorities(_: &mut SchemaGenerator) -> Schema {
    let certificate = schema::text(
        8192,
        "self.startsWith('-----BEGIN CERTIFICATE-----')",
        "must be a certificate as PEM, starting with -----BEGIN CERTIFICATE-----",
    );
    json_schema!({ "type": "array", "maxItems": 16, "items": certificate })
}

fn keys(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 32, "items": schema::ssh_public_key(generator) })
}

/// Flags that say who a node is or how it joins are not for users.
fn flags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": { "type": "string", "maxLength": 1024 },
        "x-kubernetes-validations": [
            {
                "rule": "self.all(flag, flag.size() > 0 && flag.size() <= 64 && !flag.startsWith('-'))",
                "message": "every key must be a flag of the kubelet without its dashes, such as max-pods",
            },
            {
                "rule": "self.all(flag, !(flag in ['node-labels', 'register-with-taints', 'provider-id', 'cloud-provider', 'kubeconfig', 'bootstrap-kubeconfig', 'config', 'hostname-override']))",
                "message": "Butler sets node-labels, register-with-taints, provider-id, cloud-provider, kubeconfig, bootstrap-kubeconfig, config and hostname-override itself: use the pool's labels and taints",
            },
        ],
    })
}
