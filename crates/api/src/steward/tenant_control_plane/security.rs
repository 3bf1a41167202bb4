//! Audit, sign-in and encryption of a hosted API server, each as a field of its own instead of flags,
//! files and volumes that people wire by hand.

use std::collections::BTreeMap;

use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{common::LocalRef, steward::rules};

/// What the API server records about requests. Records go to the API server's log, and to a webhook
/// where one is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = rules::exactly_one(&["policy", "policyConfigMapRef"])
)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// The policy itself: the body of an `audit.k8s.io/v1` Policy, such as
    /// `{rules: [{level: Metadata}]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "audit_policy")]
    pub policy: Option<Value>,
    /// A `ConfigMap` with the policy, in the namespace of the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_config_map_ref: Option<KeyRef>,
    /// A Secret with the kubeconfig of a webhook that receives the records, in the namespace of the
    /// control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_kubeconfig_secret_ref: Option<KeyRef>,
}

/// A key of a Secret or `ConfigMap` in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRef {
    /// Name of the object.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
    /// Key in it.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// Who may sign in with tokens of an identity provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = rules::exactly_one(&["oidc", "jwt"])
)]
#[serde(rename_all = "camelCase")]
pub struct Authentication {
    /// One OpenID Connect provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<Oidc>,
    /// Providers in the form of the `jwt` list of an `apiserver.config.k8s.io` AuthenticationConfiguration,
    /// for several issuers, claim rules in CEL and the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "jwt")]
    pub jwt: Vec<Value>,
}

/// One OpenID Connect provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Oidc {
    /// Issuer of the tokens, such as `https://id.example.com`. The API server accepts https only.
    #[serde(rename = "issuerURL")]
    #[schemars(schema_with = "https_url")]
    pub issuer_url: String,
    /// Client that tokens must be made for, such as `kubernetes`.
    #[serde(rename = "clientID")]
    #[schemars(length(min = 1, max = 253))]
    pub client_id: String,
    /// Claim with the user name. Default `sub`.
    #[serde(default = "default_username_claim")]
    #[schemars(length(min = 1, max = 253))]
    pub username_claim: String,
    /// Text put before user names, such as `oidc:`. `-` puts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub username_prefix: Option<String>,
    /// Claim with the groups, such as `groups`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub groups_claim: Option<String>,
    /// Text put before groups, such as `oidc:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub groups_prefix: Option<String>,
    /// Claims that a token must have, with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "required_claims")]
    pub required_claims: BTreeMap<String, String>,
    /// Certificate authority of the issuer, as PEM. Left out, the public ones are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 65536),
        regex(pattern = r"^\s*-----BEGIN CERTIFICATE-----")
    )]
    pub certificate_authority: Option<String>,
}

/// Which objects are encrypted in the store, and with what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("(self.provider == 'kms') == has(self.kms)")
        .message("kms must be set with provider kms, and only then")
        .field_path(".kms"),
    validation = Rule::new("self.provider != 'kms' || !has(self.keySecretRef)")
        .message("keySecretRef does not go with provider kms: the key stays in the key service")
        .field_path(".keySecretRef")
)]
#[serde(rename_all = "camelCase")]
pub struct Encryption {
    /// Resources to encrypt, such as `secrets` or `widgets.example.com`. Default `secrets`.
    #[serde(default = "default_encrypted")]
    #[schemars(schema_with = "encrypted_resources")]
    pub resources: Vec<String>,
    /// `secretbox` (the default), `aescbc`, `aesgcm`, or `kms` for a key service.
    #[serde(default)]
    pub provider: EncryptionProvider,
    /// A Secret with your own keys: each entry is 32 random bytes, the first by name encrypts, all
    /// decrypt. Left out, a key is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_secret_ref: Option<LocalRef>,
    /// The key service, with provider `kms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kms: Option<Kms>,
}

impl Default for Encryption {
    fn default() -> Self {
        Self {
            resources: default_encrypted(),
            provider: EncryptionProvider::default(),
            key_secret_ref: None,
            kms: None,
        }
    }
}

/// How the keys and certificates of a control plane are made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Certificates {
    /// A Secret with your own certificate authority, as `tls.crt` and `tls.key`, in the namespace of the
    /// control plane. It signs everything of the cluster, and the controller manager signs nodes with it.
    /// Fixed at creation; left out, an authority is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority_secret_ref: Option<LocalRef>,
    /// How new keys are made: `ECDSA-P256` (the default), or `RSA-2048` for clients that know nothing
    /// else. What stands is replaced when it is due.
    #[serde(default)]
    pub key_algorithm: KeyAlgorithm,
}

/// How new keys are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KeyAlgorithm {
    /// ECDSA on the curve P-256.
    #[default]
    #[serde(rename = "ECDSA-P256")]
    EcdsaP256,
    /// RSA with 2048 bits.
    #[serde(rename = "RSA-2048")]
    Rsa2048,
}

/// What encrypts objects in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EncryptionProvider {
    /// XSalsa20 and Poly1305.
    #[default]
    Secretbox,
    /// AES-CBC.
    Aescbc,
    /// AES-GCM, whose key must be changed often.
    Aesgcm,
    /// A key service (KMS v2).
    Kms,
}

/// A KMS v2 plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kms {
    /// Name of the plugin; it must never change while objects are encrypted with it.
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub name: String,
    /// Socket of the plugin in the API server's container, such as `unix:///run/kms/kms.sock`.
    #[schemars(length(max = 512), regex(pattern = r"^unix://(/|@)"))]
    pub endpoint: String,
    /// How long to wait for the plugin. Default `3s`.
    #[serde(default = "default_kms_timeout")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub timeout: String,
}

fn audit_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "required": ["rules"],
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "rules": {
                "type": "array",
                "description": "What to record, first match wins.",
                "minItems": 1,
                "maxItems": 256,
                "items": {
                    "type": "object",
                    "required": ["level"],
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {
                        "level": {
                            "type": "string",
                            "description": "How much of a request is recorded.",
                            "enum": ["None", "Metadata", "Request", "RequestResponse"],
                        },
                    },
                },
            },
        },
    })
}

fn jwt(generator: &mut SchemaGenerator) -> Schema {
    let mut url = https_url(generator);
    url.insert("description".into(), "Issuer of the tokens.".into());
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 64,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["issuer"],
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "issuer": {
                    "type": "object",
                    "description": "Who signs the tokens.",
                    "required": ["url", "audiences"],
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {
                        "url": url,
                        "audiences": {
                            "type": "array",
                            "description": "Who the tokens must be made for.",
                            "minItems": 1,
                            "maxItems": 64,
                            "items": { "type": "string", "minLength": 1, "maxLength": 253 },
                        },
                    },
                },
            },
        },
    })
}

fn https_url(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        2048,
        "self.startsWith('https://') && isURL(self)",
        "must be an https:// address, because the API server accepts no other issuer",
    )
}

fn required_claims(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": { "type": "string", "maxLength": 253 },
    })
}

fn encrypted_resources(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 64,
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "maxLength": 253, "pattern": r"^(\*|[a-z]+)\.?[-a-z0-9.*]*$" },
    })
}

fn default_username_claim() -> String {
    "sub".into()
}

fn default_encrypted() -> Vec<String> {
    vec!["secrets".into()]
}

fn default_kms_timeout() -> String {
    "3s".into()
}
