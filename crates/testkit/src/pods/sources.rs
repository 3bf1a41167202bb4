//! What a pod may read of the API: Secrets, `ConfigMap`s, tokens, and fields of itself.

use std::{collections::BTreeMap, net::Ipv4Addr};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{ConfigMap, Pod, Secret, ServiceAccount, ServiceAccountTokenProjection},
};
use kube::{Api, Client, ResourceExt as _, api::PostParams};
use serde_json::Value;

/// Why a pod or one of its containers cannot be started; it is the `waiting` state of its status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub(super) struct Refusal {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Refusal {
    /// The specification asks for what cannot be given, now or ever.
    pub(super) fn config(message: impl Into<String>) -> Self {
        Self {
            reason: "CreateContainerConfigError",
            message: message.into(),
        }
    }

    /// Something is not there yet.
    pub(super) fn creating(message: impl Into<String>) -> Self {
        Self {
            reason: "ContainerCreating",
            message: message.into(),
        }
    }

    /// A program or file of this machine failed.
    pub(super) fn run(what: &str) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self {
            reason: "RunContainerError",
            message: format!("could not {what}: {error}"),
        }
    }
}

/// Keys and contents of a Secret or `ConfigMap`.
pub(super) type Data = BTreeMap<String, Vec<u8>>;

/// Reads for one pod.
pub(super) struct Sources<'a> {
    pub(super) client: Client,
    pub(super) pod: &'a Pod,
    pub(super) address: Ipv4Addr,
    pub(super) host_address: Ipv4Addr,
}

impl Sources<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        let namespace = self.pod.namespace().unwrap_or_default();
        Api::namespaced(self.client.clone(), &namespace)
    }

    /// The content of a Secret; nothing when it is missing and may be.
    pub(super) async fn secret(&self, name: &str, optional: bool) -> Result<Data, Refusal> {
        let secret = self.api::<Secret>().get_opt(name).await;
        let Some(secret) = secret.map_err(|error| unreadable("Secret", name, &error))? else {
            return missing("Secret", name, optional);
        };
        let data = secret.data.unwrap_or_default();
        Ok(data.into_iter().map(|(key, it)| (key, it.0)).collect())
    }

    /// The content of a `ConfigMap`; nothing when it is missing and may be.
    pub(super) async fn config_map(&self, name: &str, optional: bool) -> Result<Data, Refusal> {
        let map = self.api::<ConfigMap>().get_opt(name).await;
        let Some(map) = map.map_err(|error| unreadable("ConfigMap", name, &error))? else {
            return missing("ConfigMap", name, optional);
        };
        let texts = map.data.unwrap_or_default().into_iter();
        let texts = texts.map(|(key, text)| (key, text.into_bytes()));
        let bytes = map.binary_data.unwrap_or_default().into_iter();
        Ok(texts.chain(bytes.map(|(key, it)| (key, it.0))).collect())
    }

    /// A token of the pod's service account.
    pub(super) async fn token(
        &self,
        projection: &ServiceAccountTokenProjection,
    ) -> Result<Vec<u8>, Refusal> {
        let spec = self.pod.spec.as_ref();
        let account = spec.and_then(|spec| spec.service_account_name.clone());
        let account = account.unwrap_or_else(|| "default".to_owned());
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: projection.audience.clone().into_iter().collect(),
                expiration_seconds: projection.expiration_seconds,
                bound_object_ref: None,
            },
            ..TokenRequest::default()
        };
        let api = self.api::<ServiceAccount>();
        let params = PostParams::default();
        let made: Result<TokenRequest, _> = api
            .create_subresource("token", &account, &params, &request)
            .await;
        let made =
            made.map_err(|error| unreadable("a token of service account", &account, &error))?;
        let token = made.status.map(|status| status.token);
        Ok(token.unwrap_or_default().into_bytes())
    }

    /// A field of the pod, as the downward API names it.
    pub(super) fn field(&self, path: &str) -> Result<String, Refusal> {
        let metadata = &self.pod.metadata;
        let spec = self.pod.spec.as_ref();
        let of_map = |map: &Option<BTreeMap<String, String>>, key: &str| {
            let key = key.trim_matches(|c| "[]'\"".contains(c));
            map.as_ref().and_then(|map| map.get(key).cloned())
        };
        let value = match path {
            "metadata.name" => metadata.name.clone(),
            "metadata.namespace" => metadata.namespace.clone(),
            "metadata.uid" => metadata.uid.clone(),
            "metadata.labels" => Some(lines(metadata.labels.as_ref())),
            "metadata.annotations" => Some(lines(metadata.annotations.as_ref())),
            "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()),
            "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()),
            "status.podIP" | "status.podIPs" => Some(self.address.to_string()),
            "status.hostIP" | "status.hostIPs" => Some(self.host_address.to_string()),
            _ => {
                let label = path.strip_prefix("metadata.labels");
                let label = label.map(|key| of_map(&metadata.labels, key));
                let annotation = path.strip_prefix("metadata.annotations");
                let annotation = annotation.map(|key| of_map(&metadata.annotations, key));
                label.or(annotation).map(Option::unwrap_or_default)
            }
        };
        value.ok_or_else(|| Refusal::config(format!("field {path} is not one a pod can read")))
    }
}

/// Labels or annotations in a file: one `key="value"` a line.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let map = map.into_iter().flatten();
    let lines = map.map(|(key, value)| format!("{key}={}", Value::from(value.as_str())));
    lines.collect::<Vec<_>>().join("\n")
}

fn unreadable(kind: &str, name: &str, error: &kube::Error) -> Refusal {
    Refusal::creating(format!("could not read {kind} {name:?}: {error}"))
}

fn missing(kind: &str, name: &str, optional: bool) -> Result<Data, Refusal> {
    if optional {
        return Ok(Data::new());
    }
    Err(Refusal::creating(format!("{kind} {name:?} not found")))
}
