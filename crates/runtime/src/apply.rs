//! Apply and prune: one field manager, whole objects, nothing sent that is already so.

use std::{collections::BTreeSet, fmt::Debug};

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    core::ApiResource,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    drift,
    error::{ApiError, is_not_found},
};

/// Writes planned objects under one field manager.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    manager: &'static str,
}

/// What became of a planned object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It stood already; nothing was sent.
    Unchanged,
    /// It was sent.
    Written,
}

/// Kinds that can be applied: known at compile time, with metadata.
pub trait Applicable: Resource<DynamicType = ()> + Serialize + Debug {}
impl<K: Resource<DynamicType = ()> + Serialize + Debug> Applicable for K {}

impl Applier {
    /// An applier that owns its fields as `manager`.
    pub fn new(client: Client, manager: &'static str) -> Self {
        Self { client, manager }
    }

    /// The name our fields are owned under.
    pub fn manager(&self) -> &'static str {
        self.manager
    }

    /// The client that writes.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The objects of a kind in the namespace of one of them.
    pub fn beside<K>(&self, object: &K) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        let namespace = object.namespace().unwrap_or_default();
        Api::namespaced(self.client.clone(), &namespace)
    }

    /// Applies the planned object unless the live one, as watched, already has all of it.
    pub async fn apply<K: Applicable>(
        &self,
        planned: &K,
        live: Option<&K>,
    ) -> Result<Outcome, ApiError> {
        let body = stamped("apply", planned)?;
        let because = match live {
            None => String::new(),
            Some(live) => match drift::difference(&body, &to_value("apply", live)?) {
                None => return Ok(Outcome::Unchanged),
                Some(path) => path,
            },
        };
        self.send(planned, &body, &because).await?;
        Ok(Outcome::Written)
    }

    /// Applies an object that is not watched yet, and gives it as the server filled it in.
    pub async fn apply_new<K: Applicable + DeserializeOwned>(
        &self,
        planned: &K,
    ) -> Result<K, ApiError> {
        let body = stamped("apply", planned)?;
        let answer = self.send(planned, &body, "").await?;
        let typed = serde_json::to_value(&answer).and_then(serde_json::from_value);
        typed.map_err(|error| failed("apply", planned)(kube::Error::SerdeError(error)))
    }

    /// Applies over exactly the object that was seen: a view that is behind loses with a conflict. For content that
    /// was made from what was read, such as keys.
    pub async fn apply_over<K: Applicable>(
        &self,
        planned: &K,
        seen: &K,
    ) -> Result<Outcome, ApiError> {
        let mut body = stamped("apply", planned)?;
        let Some(because) = drift::difference(&body, &to_value("apply", seen)?) else {
            return Ok(Outcome::Unchanged);
        };
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), seen.resource_version().into());
        }
        self.send(planned, &body, &because).await?;
        Ok(Outcome::Written)
    }

    async fn send<K: Applicable>(
        &self,
        planned: &K,
        body: &Value,
        because: &str,
    ) -> Result<DynamicObject, ApiError> {
        let params = PatchParams::apply(self.manager).force();
        let answer = self
            .api_of(planned)
            .patch(&planned.name_any(), &params, &Patch::Apply(body))
            .await
            .map_err(failed("apply", planned))?;
        tracing::info!(kind = %K::kind(&()), name = %full_name(planned), because, "applied");
        Ok(answer)
    }

    /// Creates an object that must not exist yet, so that somebody else's is never taken over.
    pub async fn create<K: Applicable>(&self, planned: &K) -> Result<(), ApiError> {
        let body = stamped("create", planned)?;
        let object: DynamicObject = serde_json::from_value(body)
            .map_err(|error| failed("create", planned)(kube::Error::SerdeError(error)))?;
        let params = PostParams {
            field_manager: Some(self.manager.to_owned()),
            ..PostParams::default()
        };
        self.api_of(planned)
            .create(&params, &object)
            .await
            .map_err(failed("create", planned))?;
        tracing::info!(kind = %K::kind(&()), name = %full_name(planned), "created");
        Ok(())
    }

    /// Deletes exactly the object that was seen: a cache that is behind loses with a conflict.
    pub async fn delete<K: Applicable>(&self, seen: &K) -> Result<(), ApiError> {
        let preconditions = Preconditions {
            uid: seen.uid(),
            resource_version: seen.resource_version(),
        };
        let params = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        match self.api_of(seen).delete(&seen.name_any(), &params).await {
            Ok(_) => {
                tracing::info!(kind = %K::kind(&()), name = %full_name(seen), "deleted");
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(failed("delete", seen)(error)),
        }
    }

    /// Deletes what is ours and no longer planned; `ours` is what carries our labels, as watched.
    pub async fn prune<'a, K: Applicable + 'a>(
        &self,
        ours: impl IntoIterator<Item = &'a K>,
        planned: impl IntoIterator<Item = &'a K>,
    ) -> Result<(), ApiError> {
        let keep: BTreeSet<_> = planned
            .into_iter()
            .map(|object| (object.namespace(), object.name_any()))
            .collect();
        for object in ours {
            let gone = keep.contains(&(object.namespace(), object.name_any()))
                || object.meta().deletion_timestamp.is_some();
            if !gone {
                self.delete(object).await?;
            }
        }
        Ok(())
    }

    pub(crate) fn api_of<K: Applicable>(&self, object: &K) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), &namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

/// `namespace/name`, or the name of what has no namespace.
pub fn full_name<K: Resource>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

fn stamped<K: Applicable>(verb: &'static str, planned: &K) -> Result<Value, ApiError> {
    let mut body = to_value(verb, planned)?;
    drift::stamp(&mut body);
    Ok(body)
}

fn to_value<K: Applicable>(verb: &'static str, object: &K) -> Result<Value, ApiError> {
    serde_json::to_value(object)
        .map_err(|error| failed(verb, object)(kube::Error::SerdeError(error)))
}

fn failed<K: Applicable>(
    verb: &'static str,
    object: &K,
) -> impl FnOnce(kube::Error) -> ApiError + use<K> {
    ApiError::of(verb, &K::kind(&()), &full_name(object))
}
