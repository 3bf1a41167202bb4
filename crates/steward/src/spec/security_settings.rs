//! Audit, sign-in and encryption settings of a control plane.

use butler_api::steward::tenant_control_plane::security::{self, KeyRef};
use serde_json::{Map, Value, json};

use super::{SpecError, audit_policy};

/// What the API server records about requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// What to record.
    pub policy: AuditPolicy,
    /// Secret with the kubeconfig of a webhook that receives the records.
    pub webhook: Option<KeyRef>,
}

/// Where the audit policy is.
#[derive(Clone, Debug, PartialEq)]
pub enum AuditPolicy {
    /// Here, complete.
    Inline(Value),
    /// In a `ConfigMap` of the user.
    ConfigMap(KeyRef),
}

/// What is encrypted in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// Resources, such as `secrets`.
    pub resources: Vec<String>,
    /// With what.
    pub provider: EncryptionProvider,
    /// Secret with keys of the user; none means that a key is made. Unused with a key service.
    pub key_secret: Option<String>,
}

/// What encrypts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncryptionProvider {
    /// `XSalsa20` and Poly1305.
    Secretbox,
    /// AES-CBC.
    AesCbc,
    /// AES-GCM.
    AesGcm,
    /// A key service.
    Kms {
        /// Name of the plugin.
        name: String,
        /// Its socket.
        endpoint: String,
        /// How long to wait for it.
        timeout: String,
    },
}

/// Reads the audit settings.
pub(super) fn audit(raw: Option<&security::Audit>) -> Result<Option<Audit>, SpecError> {
    let Some(raw) = raw else { return Ok(None) };
    let field = "spec.kubernetes.audit";
    let policy = match (&raw.policy, &raw.policy_config_map_ref) {
        (Some(Value::Object(body)), None) => {
            let policy = complete(body);
            let field = format!("{field}.policy");
            audit_policy::check(&policy).map_err(|error| SpecError::invalid(field, error))?;
            AuditPolicy::Inline(policy)
        }
        (Some(_), None) => {
            let problem = "it must be the body of a Policy, such as {rules: [{level: Metadata}]}";
            return Err(SpecError::invalid(format!("{field}.policy"), problem));
        }
        (None, Some(reference)) => AuditPolicy::ConfigMap(reference.clone()),
        (None, None) | (Some(_), Some(_)) => {
            return Err(SpecError::invalid(
                field,
                "set exactly one of policy, policyConfigMapRef",
            ));
        }
    };
    Ok(Some(Audit {
        policy,
        webhook: raw.webhook_kubeconfig_secret_ref.clone(),
    }))
}

/// The API server wants to be told what kind of file it reads.
fn complete(body: &Map<String, Value>) -> Value {
    let mut policy = body.clone();
    policy
        .entry("apiVersion")
        .or_insert_with(|| json!("audit.k8s.io/v1"));
    policy.entry("kind").or_insert_with(|| json!("Policy"));
    Value::Object(policy)
}

/// Checks who may sign in.
pub(super) fn check_authentication(
    raw: Option<&security::Authentication>,
) -> Result<(), SpecError> {
    let field = "spec.kubernetes.authentication";
    match raw.map(|raw| (raw.oidc.is_some(), raw.jwt.is_empty())) {
        None | Some((true, true) | (false, false)) => Ok(()),
        Some(_) => Err(SpecError::invalid(field, "set exactly one of oidc, jwt")),
    }
}

/// Reads the encryption settings.
pub(super) fn encryption(
    raw: Option<&security::Encryption>,
) -> Result<Option<Encryption>, SpecError> {
    let Some(raw) = raw else { return Ok(None) };
    let field = "spec.kubernetes.encryption";
    let provider = match (raw.provider, &raw.kms) {
        (security::EncryptionProvider::Secretbox, None) => EncryptionProvider::Secretbox,
        (security::EncryptionProvider::Aescbc, None) => EncryptionProvider::AesCbc,
        (security::EncryptionProvider::Aesgcm, None) => EncryptionProvider::AesGcm,
        (security::EncryptionProvider::Kms, Some(kms)) => EncryptionProvider::Kms {
            name: kms.name.clone(),
            endpoint: kms.endpoint.clone(),
            timeout: kms.timeout.clone(),
        },
        (security::EncryptionProvider::Kms, None) | (_, Some(_)) => {
            let problem = "set it with provider kms, and only then";
            return Err(SpecError::invalid(format!("{field}.kms"), problem));
        }
    };
    if raw.resources.is_empty() {
        let problem = "name at least one resource, such as secrets";
        return Err(SpecError::invalid(format!("{field}.resources"), problem));
    }
    Ok(Some(Encryption {
        resources: raw.resources.clone(),
        provider,
        key_secret: raw
            .key_secret_ref
            .as_ref()
            .map(|reference| reference.name.clone()),
    }))
}
