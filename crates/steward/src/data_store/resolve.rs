//! Reads what a `DataStore` refers to: content inline or from Secrets, as bytes.

use butler_api::steward::{
    DataStore,
    data_store::{ContentRef, Driver, SecretKeyRef},
};
use butler_pki::{Authority, AuthorityError};
use butler_runtime::error::{ApiError, Category, Classify};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, ResourceExt};

use crate::store::{Credentials, Material, Settings, credentials};

/// Why the settings of a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    /// A Secret could not be read.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A Secret or a key in it is not there.
    #[error("{field} refers to key {key:?} of Secret {namespace}/{name}, which is not there")]
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
    #[error("{field} has neither content nor a Secret")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// Content is not base64.
    #[error("{field}.content is not base64")]
    Base64 {
        /// The field.
        field: &'static str,
    },
    /// Certificates, keys or passwords cannot be used.
    #[error("could not use the credentials")]
    Credentials(#[from] credentials::Error),
    /// The authority cannot sign.
    #[error("tlsConfig.certificateAuthority cannot sign for tenants")]
    Authority(#[from] AuthorityError),
    /// A driver that is not built yet.
    #[error("driver {0:?} is not supported yet; use etcd")]
    Driver(Driver),
}

impl Classify for ResolveError {
    fn category(&self) -> Category {
        match self {
            Self::Api(error) => error.category(),
            Self::Missing { .. } => Category::NotFound,
            Self::Empty { .. }
            | Self::Base64 { .. }
            | Self::Credentials(_)
            | Self::Authority(_)
            | Self::Driver(_) => Category::Invalid,
        }
    }
}

/// Everything that is read for a store.
pub(super) struct Resolved {
    pub(super) settings: Settings,
    pub(super) authority: Authority,
}

/// Reads the Secrets that a store refers to, and checks what they hold.
pub(super) async fn resolve(client: &Client, raw: &DataStore) -> Result<Resolved, ResolveError> {
    if raw.spec.driver != Driver::Etcd {
        return Err(ResolveError::Driver(raw.spec.driver));
    }
    let reader = Reader { client };
    let tls = raw.spec.tls_config.clone().unwrap_or_default();
    let ca = "tlsConfig.certificateAuthority.certificate";
    let ca_key = "tlsConfig.certificateAuthority.privateKey";
    let authority = reader
        .read(ca, Some(&tls.certificate_authority.certificate))
        .await?;
    let authority_key = reader
        .read(ca_key, tls.certificate_authority.private_key.as_ref())
        .await?;
    let client_pair = match &tls.client_certificate {
        None => None,
        Some(pair) => Some((
            reader
                .read(
                    "tlsConfig.clientCertificate.certificate",
                    Some(&pair.certificate),
                )
                .await?,
            reader
                .read(
                    "tlsConfig.clientCertificate.privateKey",
                    Some(&pair.private_key),
                )
                .await?,
        )),
    };
    let basic = match &raw.spec.basic_auth {
        None => None,
        Some(auth) => Some((
            reader
                .read("basicAuth.username", Some(&auth.username))
                .await?,
            reader
                .read("basicAuth.password", Some(&auth.password))
                .await?,
        )),
    };
    let signer = Authority::from_pem(&authority, &authority_key)?;
    let material = Material {
        authority,
        client: client_pair,
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

struct Reader<'a> {
    client: &'a Client,
}

impl Reader<'_> {
    async fn read(
        &self,
        field: &'static str,
        content: Option<&ContentRef>,
    ) -> Result<Vec<u8>, ResolveError> {
        let content = content.ok_or(ResolveError::Empty { field })?;
        if let Some(text) = &content.content {
            // Kubernetes' own type for bytes reads base64.
            return serde_json::from_value::<ByteString>(text.clone().into())
                .map(|bytes| bytes.0)
                .map_err(|_| ResolveError::Base64 { field });
        }
        let Some(reference) = &content.secret_reference else {
            return Err(ResolveError::Empty { field });
        };
        let SecretKeyRef {
            name,
            namespace,
            key_path,
        } = reference;
        let full = format!("{namespace}/{name}");
        let secret = Api::<Secret>::namespaced(self.client.clone(), namespace)
            .get_opt(name)
            .await
            .map_err(ApiError::of("get", "Secret", &full))?;
        let value = secret.and_then(|secret| secret.data?.remove(key_path));
        value
            .map(|bytes| bytes.0)
            .ok_or_else(|| ResolveError::Missing {
                field,
                namespace: namespace.clone(),
                name: name.clone(),
                key: key_path.clone(),
            })
    }
}
