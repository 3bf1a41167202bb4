//! Applying and reading objects of any kind.

use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{self, Scope},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Namespace, Server,
    server::{chain, must_answer},
};

/// The field manager of everything a test writes by hand.
pub const FIELD_MANAGER: &str = "butler-testkit";

/// Why a YAML text could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// It is not YAML.
    #[error("could not read the text as YAML documents")]
    Yaml(#[source] Box<serde_saphyr::Error>),
    /// A document is not a Kubernetes object.
    #[error("document {document} has no {field}")]
    Incomplete {
        /// Counted from 1.
        document: usize,
        /// What it lacks.
        field: &'static str,
    },
    /// The server does not know the kind.
    #[error("could not find the kind of {object}")]
    Kind {
        /// Kind and name.
        object: String,
        /// The server's answer.
        #[source]
        source: Box<kube::Error>,
    },
    /// The server refused the object.
    #[error("could not apply {object}")]
    Refused {
        /// Kind and name.
        object: String,
        /// The server's answer.
        #[source]
        source: Box<kube::Error>,
    },
}

impl ApplyError {
    /// What the server said, when it was the server that refused.
    pub fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Refused { source, .. } | Self::Kind { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            Self::Yaml(_) | Self::Incomplete { .. } => None,
        }
    }
}

impl Server {
    /// Applies every document of a YAML text, of whatever kind, by server-side apply.
    ///
    /// # Panics
    /// When a document cannot be applied; the message says which and why.
    pub async fn apply_yaml(&self, text: &str) -> Vec<DynamicObject> {
        let applied = self.try_apply_yaml(text).await;
        applied.unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    /// Like [`apply_yaml`](Self::apply_yaml), for objects that may be refused.
    pub async fn try_apply_yaml(&self, text: &str) -> Result<Vec<DynamicObject>, ApplyError> {
        apply(&self.client(), text, None).await
    }

    /// Reads an object that is not in a namespace.
    ///
    /// # Panics
    /// When it is not there.
    pub async fn get<K>(&self, name: &str) -> K
    where
        K: Resource<Scope = k8s_openapi::ClusterResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let api: Api<K> = Api::all(self.client());
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        must_answer(api.get(name).await, &format!("get {kind} {name}"))
    }
}

impl Namespace {
    /// Applies every document of a YAML text; those of namespaced kinds that name no namespace land here.
    ///
    /// # Panics
    /// When a document cannot be applied; the message says which and why.
    pub async fn apply_yaml(&self, text: &str) -> Vec<DynamicObject> {
        let applied = self.try_apply_yaml(text).await;
        applied.unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    /// Like [`apply_yaml`](Self::apply_yaml), for objects that may be refused.
    pub async fn try_apply_yaml(&self, text: &str) -> Result<Vec<DynamicObject>, ApplyError> {
        apply(&self.server().client(), text, Some(self.name())).await
    }

    /// Reads an object of this namespace.
    ///
    /// # Panics
    /// When it is not there.
    pub async fn get<K>(&self, name: &str) -> K
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        let what = format!("get {kind} {}/{name}", self.name());
        must_answer(self.api::<K>().get(name).await, &what)
    }
}

async fn apply(
    client: &Client,
    text: &str,
    namespace: Option<&str>,
) -> Result<Vec<DynamicObject>, ApplyError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|source| ApplyError::Yaml(Box::new(source)))?;
    let mut applied = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        if !document.is_null() {
            applied.push(apply_one(client, index + 1, document, namespace).await?);
        }
    }
    Ok(applied)
}

async fn apply_one(
    client: &Client,
    document: usize,
    value: Value,
    namespace: Option<&str>,
) -> Result<DynamicObject, ApplyError> {
    let incomplete = |field| ApplyError::Incomplete { document, field };
    let object: DynamicObject = serde_json::from_value(value.clone())
        .map_err(|_| incomplete("apiVersion, kind or metadata"))?;
    let gvk = object
        .types
        .as_ref()
        .and_then(|types| GroupVersionKind::try_from(types).ok());
    let gvk = gvk.ok_or_else(|| incomplete("apiVersion and kind"))?;
    let Some(name) = object.metadata.name.clone() else {
        return Err(incomplete("metadata.name"));
    };
    let label = format!("{} {name}", gvk.kind);
    let (resource, capabilities) =
        discovery::pinned_kind(client, &gvk)
            .await
            .map_err(|source| ApplyError::Kind {
                object: label.clone(),
                source: Box::new(source),
            })?;
    let api: Api<DynamicObject> = match (capabilities.scope, object.namespace()) {
        (Scope::Namespaced, own) => {
            let namespace = own.as_deref().or(namespace).unwrap_or("default");
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(&name, &params, &Patch::Apply(&value)).await;
    applied.map_err(|source| ApplyError::Refused {
        object: label,
        source: Box::new(source),
    })
}
