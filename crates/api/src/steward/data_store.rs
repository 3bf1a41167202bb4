//! `DataStore`: where hosted control planes keep their state.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::rules;
use crate::cel;

/// How a store is reached and signed in to.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "steward.butlerlabs.dev",
    version = "v1alpha1",
    kind = "DataStore",
    plural = "datastores",
    category = "butler",
    category = "steward",
    status = "DataStoreStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A store for the state of hosted control planes: etcd, or a database behind kine. Many tenants share one, each with its own part of it.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    validation = cel::name_at_most(63, "control planes carry it as a label"),
    printcolumn(name = "Driver", type_ = "string", json_path = ".spec.driver"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Endpoints",
        type_ = "string",
        json_path = ".spec.endpoints",
        priority = 1
    ),
    printcolumn(name = "Users", type_ = "integer", json_path = ".status.users"),
    printcolumn(
        name = "Used By",
        type_ = "string",
        json_path = ".status.usedBy",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = cel::immutable("driver"),
    validation = Rule::new("self.driver != 'etcd' || has(self.tlsConfig)")
        .message("driver etcd needs tlsConfig")
        .field_path(".tlsConfig"),
    validation = Rule::new("self.driver != 'etcd' || !has(self.tlsConfig) || has(self.tlsConfig.certificateAuthority.privateKey)")
        .message("driver etcd needs the private key of the certificate authority, to sign a certificate for each tenant")
        .field_path(".tlsConfig.certificateAuthority.privateKey"),
    validation = Rule::new("self.driver != 'etcd' || !has(self.tlsConfig) || has(self.tlsConfig.clientCertificate)")
        .message("driver etcd needs a clientCertificate, to manage the users of tenants")
        .field_path(".tlsConfig.clientCertificate"),
    validation = Rule::new("self.driver == 'etcd' || has(self.tlsConfig) || has(self.basicAuth)")
        .message("set basicAuth, tlsConfig or both: a store without them lets everyone in")
        .field_path(".basicAuth")
)]
#[serde(rename_all = "camelCase")]
pub struct DataStoreSpec {
    /// `etcd`, or `MySQL`, `PostgreSQL` or `NATS` behind kine. Fixed at creation.
    pub driver: Driver,
    /// Addresses of the store, as `host:port`, such as `etcd-0.etcd.steward-system.svc:2379`.
    #[schemars(schema_with = "endpoints")]
    pub endpoints: Vec<String>,
    /// User and password of an administrator of the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// Certificates of the store. Needed with etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<TlsConfig>,
    /// Namespaces whose control planes may use the store. Empty, the default, means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "namespaces")]
    pub allowed_namespaces: Vec<String>,
    /// Whether tenants share the store. A shared etcd must authenticate its users; a dedicated one
    /// serves a single control plane. Default `Shared`.
    #[serde(default)]
    pub tenancy: Tenancy,
    /// What becomes of a tenant's data when its control plane is deleted. Default `Delete`.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

/// Whether tenants share a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Tenancy {
    /// Many control planes, each with its own part.
    #[default]
    Shared,
    /// One control plane alone.
    Dedicated,
}

/// What becomes of the data of a tenant that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It goes.
    #[default]
    Delete,
    /// It stays.
    Retain,
}

/// What a store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Driver {
    /// etcd.
    #[default]
    #[serde(rename = "etcd")]
    Etcd,
    /// `MySQL` or `MariaDB`.
    MySQL,
    /// `PostgreSQL`.
    PostgreSQL,
    /// NATS with `JetStream`; one tenant per store.
    NATS,
}

/// User and password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// The user.
    pub username: ContentRef,
    /// The password. Prefer a Secret to inline content.
    pub password: ContentRef,
}

/// Certificates of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsConfig {
    /// The authority that signed the store's certificate.
    pub certificate_authority: CertificateAuthority,
    /// The certificate that Steward signs in with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<KeyPair>,
}

/// A certificate authority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificateAuthority {
    /// Its certificate, as PEM.
    pub certificate: ContentRef,
    /// Its private key, as PEM. Needed with etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key: Option<ContentRef>,
}

/// A certificate with its key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyPair {
    /// The certificate, as PEM.
    pub certificate: ContentRef,
    /// The private key, as PEM.
    pub private_key: ContentRef,
}

/// A value, inline or in a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = rules::exactly_one(&["content", "secretReference"])
)]
#[serde(rename_all = "camelCase")]
pub struct ContentRef {
    /// The value itself, base64-encoded. Everyone who may read the `DataStore` can read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "base64")]
    pub content: Option<String>,
    /// A Secret that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_reference: Option<SecretKeyRef>,
}

/// A key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
    /// Namespace of the Secret.
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: String,
    /// Key in the Secret, such as `ca.crt`.
    #[schemars(length(min = 1, max = 253))]
    pub key_path: String,
}

/// What was last observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataStoreStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the store: Ready, and why not; Deleting, and what that waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How many control planes use the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<i64>,
    /// Control planes that use the store, as `namespace/name`, sorted; the first hundred of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub used_by: Vec<String>,
    /// What all of them hold together. It moves in steps; metrics have the exact figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<StorageUsage>,
}

/// Keys and bytes that are held in a store: live keys with their values, without their history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageUsage {
    /// Keys.
    pub keys: i64,
    /// Bytes of keys and values.
    pub bytes: i64,
    /// When the figures last changed by a tenth or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_update: Option<Time>,
}

fn base64(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        131_072,
        "self.matches('^[A-Za-z0-9+/]+={0,2}$') && self.size() % 4 == 0",
        "must be base64-encoded and not empty",
    )
}

fn namespaces(generator: &mut SchemaGenerator) -> Schema {
    let item = crate::schema::dns_label(generator);
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "x-kubernetes-list-type": "set",
        "items": item,
    })
}

fn endpoints(_: &mut SchemaGenerator) -> Schema {
    let port = "int(self.substring(self.lastIndexOf(':') + 1))";
    let item = crate::schema::text(
        259,
        &format!(
            "self.matches('^([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|[[][0-9a-fA-F:.]+[]]):[0-9]{{1,5}}$') \
             && {port} >= 1 && {port} <= 65535"
        ),
        "must be host:port without a scheme, such as etcd.steward-system.svc:2379",
    );
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 32,
        "x-kubernetes-list-type": "set",
        "items": item,
    })
}
