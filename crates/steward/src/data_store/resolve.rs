//! What a `DataStore` refers to: content inline or from Secrets, as bytes.
//!
//! [`read`] asks for the Secrets, each once; [`resolve`] is pure.

use std::collections::{BTreeMap, BTreeSet};

use butler_api::steward::{
    DataStore,
    data_store::{ContentRef, Driver, SecretKeyRef},
};
use butler_pki::{Authority, AuthorityError};
use butler_runtime::error::ApiError;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, ResourceExt};

use crate::store::{Credentials, Material, Settings, credentials, health::Reason};

/// A Secret, by where it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SecretName {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Secrets that were asked for; one that is not there has no data.
pub(super) type Secrets = BTreeMap<SecretName, BTreeMap<String, ByteString>>;

/// Why the settings of a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    /// A Secret or a key in it is not there.
    #[error(
        "spec.{field} refers to key {key:?} of Secret {namespace}/{name}, which is not there; make it, or name \
         another"
    )]
    Missing {
        /// The field of the `DataStore`.
        field: &'static str,
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
        /// The key.
        key: String,
    },
    /// A field has no value.
    #[error("spec.{field} has neither content nor a Secret")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// Content is not base64.
    #[error("spec.{field}.content is not base64")]
    Base64 {
        /// The field.
        field: &'static str,
    },
    /// There is no address.
    #[error("spec.endpoints names no address")]
    Endpoints,
    /// Certificates, keys or passwords cannot be used.
    #[error("could not use the credentials in spec")]
    Credentials(#[from] credentials::Error),
    /// The authority cannot sign.
    #[error("spec.tlsConfig.certificateAuthority cannot sign for tenants")]
    Authority(#[from] AuthorityError),
    /// A driver that is not built yet.
    #[error("driver {0:?} is not supported yet; make a DataStore with driver etcd")]
    Driver(Driver),
}

impl ResolveError {
    /// The word for a condition.
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Missing { .. } => Reason::SecretNotFound,
            Self::Driver(_) => Reason::NotSupported,
            Self::Empty { .. }
            | Self::Base64 { .. }
            | Self::Endpoints
            | Self::Credentials(_)
            | Self::Authority(_) => Reason::Invalid,
        }
    }
}

/// Everything that is read for a store.
pub(super) struct Resolved {
    pub(super) settings: Settings,
    pub(super) authority: Authority,
}

/// The fields of a store that hold something secret, by their path in the spec.
fn fields(raw: &DataStore) -> Vec<(&'static str, &ContentRef)> {
    let mut fields = Vec::new();
    if let Some(tls) = &raw.spec.tls_config {
        let authority = &tls.certificate_authority;
        fields.push((CA, &authority.certificate));
        fields.extend(authority.private_key.iter().map(|key| (CA_KEY, key)));
        if let Some(pair) = &tls.client_certificate {
            fields.push((CLIENT, &pair.certificate));
            fields.push((CLIENT_KEY, &pair.private_key));
        }
    }
    if let Some(basic) = &raw.spec.basic_auth {
        fields.push((USERNAME, &basic.username));
        fields.push((PASSWORD, &basic.password));
    }
    fields
}

const CA: &str = "tlsConfig.certificateAuthority.certificate";
const CA_KEY: &str = "tlsConfig.certificateAuthority.privateKey";
const CLIENT: &str = "tlsConfig.clientCertificate.certificate";
const CLIENT_KEY: &str = "tlsConfig.clientCertificate.privateKey";
const USERNAME: &str = "basicAuth.username";
const PASSWORD: &str = "basicAuth.password";

/// The Secrets that a store refers to.
pub(super) fn references(raw: &DataStore) -> BTreeSet<SecretName> {
    let references = fields(raw)
        .into_iter()
        .filter_map(|(_, content)| content.secret_reference.as_ref());
    references.map(SecretName::of).collect()
}

impl SecretName {
    fn of(reference: &SecretKeyRef) -> Self {
        Self {
            namespace: reference.namespace.clone(),
            name: reference.name.clone(),
        }
    }
}

/// Reads the Secrets that a store refers to.
pub(super) async fn read(client: &Client, raw: &DataStore) -> Result<Secrets, ApiError> {
    let mut secrets = Secrets::new();
    for reference in references(raw) {
        let SecretName { namespace, name } = &reference;
        let found = Api::<Secret>::namespaced(client.clone(), namespace)
            .get_opt(name)
            .await
            .map_err(ApiError::of(
                "get",
                "Secret",
                &format!("{namespace}/{name}"),
            ))?;
        let data = found.and_then(|secret| secret.data).unwrap_or_default();
        secrets.insert(reference, data);
    }
    Ok(secrets)
}

/// How a store is reached, from its spec and the Secrets it refers to.
pub(super) fn resolve(raw: &DataStore, secrets: &Secrets) -> Result<Resolved, ResolveError> {
    if raw.spec.driver != Driver::Etcd {
        return Err(ResolveError::Driver(raw.spec.driver));
    }
    if raw.spec.endpoints.is_empty() {
        return Err(ResolveError::Endpoints);
    }
    let mut values = BTreeMap::new();
    for (field, content) in fields(raw) {
        values.insert(field, value(field, content, secrets)?);
    }
    let mut take = |field| values.remove(field).ok_or(ResolveError::Empty { field });
    let (authority, authority_key) = (take(CA)?, take(CA_KEY)?);
    let tls = raw.spec.tls_config.as_ref();
    let client = tls.and_then(|tls| tls.client_certificate.as_ref());
    let client = client
        .map(|_| Ok::<_, ResolveError>((take(CLIENT)?, take(CLIENT_KEY)?)))
        .transpose()?;
    let basic = raw.spec.basic_auth.as_ref();
    let basic = basic
        .map(|_| Ok::<_, ResolveError>((take(USERNAME)?, take(PASSWORD)?)))
        .transpose()?;
    let signer = Authority::from_pem(&authority, &authority_key)?;
    let material = Material {
        authority,
        client,
        basic,
    };
    let settings = Settings {
        store: raw.name_any(),
        endpoints: raw.spec.endpoints.clone(),
        credentials: Credentials::parse(material)?,
    };
    Ok(Resolved {
        settings,
        authority: signer,
    })
}

fn value(
    field: &'static str,
    content: &ContentRef,
    secrets: &Secrets,
) -> Result<Vec<u8>, ResolveError> {
    if let Some(text) = &content.content {
        // Kubernetes' own type for bytes reads base64.
        return serde_json::from_value::<ByteString>(text.clone().into())
            .map(|bytes| bytes.0)
            .map_err(|_| ResolveError::Base64 { field });
    }
    let reference = content
        .secret_reference
        .as_ref()
        .ok_or(ResolveError::Empty { field })?;
    let held = secrets
        .get(&SecretName::of(reference))
        .and_then(|data| data.get(&reference.key_path));
    held.map(|bytes| bytes.0.clone())
        .ok_or_else(|| ResolveError::Missing {
            field,
            namespace: reference.namespace.clone(),
            name: reference.name.clone(),
            key: reference.key_path.clone(),
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn store(spec: &Value) -> DataStore {
        serde_json::from_value(json!({
            "apiVersion": "steward.butlerlabs.dev/v1alpha1",
            "kind": "DataStore",
            "metadata": {"name": "x"},
            "spec": spec,
        }))
        .unwrap()
    }

    fn secret(key: &str) -> Value {
        json!({"secretReference": {"namespace": "n", "name": "s", "keyPath": key}})
    }

    fn etcd(endpoints: &Value, authority: &Value) -> DataStore {
        store(&json!({
            "driver": "etcd",
            "endpoints": endpoints,
            "tlsConfig": {
                "certificateAuthority": {"certificate": authority, "privateKey": secret("ca.key")},
                "clientCertificate": {"certificate": secret("crt"), "privateKey": secret("key")},
            },
        }))
    }

    #[test]
    fn each_bad_setting_has_its_word_and_names_the_field() {
        let here = json!(["127.0.0.1:1"]);
        let garbage = Secrets::from([(
            SecretName {
                namespace: "n".to_owned(),
                name: "s".to_owned(),
            },
            ["ca.crt", "ca.key", "crt", "key"]
                .map(|key| (key.to_owned(), ByteString(b"garbage".to_vec())))
                .into(),
        )]);
        let none = Secrets::new();
        let table = [
            (
                store(&json!({"driver": "PostgreSQL", "endpoints": here})),
                &none,
                Reason::NotSupported,
                "driver PostgreSQL",
            ),
            (
                etcd(&json!([]), &secret("ca.crt")),
                &none,
                Reason::Invalid,
                "spec.endpoints",
            ),
            (
                etcd(&here, &secret("ca.crt")),
                &none,
                Reason::SecretNotFound,
                r#"key "ca.crt" of Secret n/s"#,
            ),
            (
                etcd(&here, &secret("ca.crt")),
                &garbage,
                Reason::Invalid,
                "spec.tlsConfig.certificateAuthority",
            ),
            (
                etcd(&here, &json!({"content": "&"})),
                &garbage,
                Reason::Invalid,
                "is not base64",
            ),
            (
                etcd(&here, &json!({})),
                &garbage,
                Reason::Invalid,
                "neither content nor a Secret",
            ),
            (
                store(&json!({"driver": "etcd", "endpoints": here})),
                &none,
                Reason::Invalid,
                CA,
            ),
        ];
        for (store, secrets, reason, words) in table {
            let Err(error) = resolve(&store, secrets) else {
                panic!("{words}: it was accepted");
            };
            assert_eq!(error.reason(), reason, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn a_secret_that_is_named_four_times_is_one_reference() {
        let store = etcd(&json!([]), &secret("ca.crt"));
        let names: Vec<_> = references(&store).into_iter().collect();
        assert_eq!(names.len(), 1);
        assert_eq!(names[0].name, "s");
    }
}
