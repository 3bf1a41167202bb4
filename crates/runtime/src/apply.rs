//! Apply and prune: one field manager, whole objects, nothing sent that is already so.

mod ownership;
mod target;

use std::{collections::BTreeSet, fmt::Debug, sync::Arc};

use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
    core::ApiResource,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
pub use target::Target;

use crate::{
    brief, drift,
    error::{ApiError, is_already_there, is_not_found},
    own_writes::OwnWrites,
    pressure,
};

/// Writes planned objects under one field manager.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    manager: &'static str,
    own_writes: Arc<OwnWrites>,
}

/// What became of a planned object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It stood already; nothing was sent.
    Unchanged,
    /// It was sent.
    Written,
    /// It is left to the next pass.
    PutOff,
}

/// Kinds that can be applied: known at compile time, with metadata.
pub trait Applicable: Resource<DynamicType = ()> + Serialize + Debug {}
impl<K: Resource<DynamicType = ()> + Serialize + Debug> Applicable for K {}

impl Applier {
    /// An applier that owns its fields as `manager`.
    pub fn new(client: Client, manager: &'static str) -> Self {
        Self {
            client,
            manager,
            own_writes: Arc::default(),
        }
    }

    /// The name our fields are owned under.
    pub fn manager(&self) -> &'static str {
        self.manager
    }

    /// The reports that were made through this applier and its clones, until the watches tell of them.
    pub fn own_writes(&self) -> &OwnWrites {
        &self.own_writes
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

    /// Makes sure that the planned object stands: made if there is none, applied unless the live one, as watched,
    /// already has all of it.
    pub async fn apply<K: Applicable>(
        &self,
        planned: &K,
        live: Option<&K>,
    ) -> Result<Outcome, ApiError> {
        let live = live.map(|live| to_value("apply", live)).transpose()?;
        self.apply_body(&Target::of(planned)?, live.as_ref()).await
    }

    /// The same for an object whose kind is known only when it is planned.
    pub async fn apply_body(
        &self,
        target: &Target,
        live: Option<&Value>,
    ) -> Result<Outcome, ApiError> {
        let Some(live) = live else {
            self.make(target).await?;
            return Ok(Outcome::Written);
        };
        let body = target.stamped();
        let Some(because) = drift::difference(&body, live) else {
            return Ok(Outcome::Unchanged);
        };
        if drift::was_created(live) {
            self.adopt(target, None).await?;
        }
        self.send(target, &body, &because).await?;
        Ok(Outcome::Written)
    }

    /// Makes an object that is not watched yet, and gives it as the server filled it in. Nothing is done, nor given,
    /// where an object of this name stands that has another controller, or none.
    pub async fn apply_new<K: Applicable + DeserializeOwned>(
        &self,
        planned: &K,
    ) -> Result<Option<K>, ApiError> {
        let target = Target::of(planned)?;
        let request = self.creation(&target).map_err(target.failed("create"))?;
        match self.client.request(request).await {
            Err(error) if is_already_there(&error) => {}
            made => {
                let made = made.map_err(target.failed("create"))?;
                created(&target);
                return Ok(Some(made));
            }
        }
        if !self.is_of_controller(&target, controller(planned)).await? {
            return Ok(None);
        }
        let answer = self.take_over(&target).await?;
        let typed = serde_json::to_value(&answer).and_then(serde_json::from_value);
        typed
            .map(Some)
            .map_err(|error| target.failed("apply")(kube::Error::SerdeError(error)))
    }

    /// The same where nobody needs the answer; whether the object stands.
    pub async fn make_new<K: Applicable>(&self, planned: &K) -> Result<bool, ApiError> {
        let target = Target::of(planned)?;
        match self.post(&target).await {
            Err(error) if is_already_there(&error) => {}
            made => return made.map(|()| true).map_err(target.failed("create")),
        }
        let ours = self.is_of_controller(&target, controller(planned)).await?;
        if ours {
            self.take_over(&target).await?;
        }
        Ok(ours)
    }

    /// Whether what stands under the name of a target has this controller.
    async fn is_of_controller(&self, target: &Target, uid: Option<&str>) -> Result<bool, ApiError> {
        let live = target.api(&self.client).get_metadata(&target.name).await;
        Ok(controller(&live.map_err(target.failed("get"))?) == uid)
    }

    /// Applies over exactly the object that was seen: a view that is behind loses with a conflict. For content that
    /// was made from what was read, such as keys.
    pub async fn apply_over<K: Applicable>(
        &self,
        planned: &K,
        seen: &K,
    ) -> Result<Outcome, ApiError> {
        let (target, live) = (Target::of(planned)?, to_value("apply", seen)?);
        let mut body = target.stamped();
        let Some(because) = drift::difference(&body, &live) else {
            return Ok(Outcome::Unchanged);
        };
        let mut version = seen.resource_version();
        if drift::was_created(&live) {
            version = self.adopt(&target, version).await?;
        }
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
        self.send(&target, &body, &because).await?;
        Ok(Outcome::Written)
    }

    /// Creates what is probably not there: a create costs the API server less than an apply. What is there after all
    /// is applied.
    async fn make(&self, target: &Target) -> Result<(), ApiError> {
        match self.post(target).await {
            Err(error) if is_already_there(&error) => {}
            made => return made.map_err(target.failed("create")),
        }
        self.take_over(target).await.map(drop)
    }

    async fn take_over(&self, target: &Target) -> Result<DynamicObject, ApiError> {
        self.adopt(target, None).await?;
        self.send(target, &target.stamped(), "").await
    }

    async fn send(
        &self,
        target: &Target,
        body: &Value,
        because: &str,
    ) -> Result<DynamicObject, ApiError> {
        let params = PatchParams::apply(self.manager).force();
        let api = target.api(&self.client);
        let answer = api.patch(&target.name, &params, &Patch::Apply(body)).await;
        let answer = answer.map_err(target.failed("apply"))?;
        pressure::wrote();
        tracing::info!(kind = target.resource.kind, name = %target.full_name(), because, "applied");
        Ok(answer)
    }

    /// Turns the fields that our create set into fields that we applied. Returns the version to go on from: the one
    /// that was seen, if that is not the current one.
    async fn adopt(
        &self,
        target: &Target,
        seen: Option<String>,
    ) -> Result<Option<String>, ApiError> {
        let api = target.api(&self.client);
        let live = api.get_metadata(&target.name).await;
        let live = live.map_err(target.failed("get"))?.metadata;
        if seen.is_some() && seen != live.resource_version {
            return Ok(seen);
        }
        let held = live.managed_fields.unwrap_or_default();
        let Some(next) = ownership::applied(&held, self.manager) else {
            return Ok(live.resource_version);
        };
        let change = json!({"metadata": {
            "resourceVersion": live.resource_version,
            "managedFields": next,
        }});
        let params = PatchParams::default();
        let change = Patch::Merge(&change);
        let changed = api.patch_metadata(&target.name, &params, &change).await;
        let changed = changed.map_err(target.failed("adopt"))?;
        Ok(changed.metadata.resource_version)
    }

    /// Creates an object that must not exist yet, so that somebody else's is never taken over.
    pub async fn create<K: Applicable>(&self, planned: &K) -> Result<(), ApiError> {
        let target = Target::of(planned)?;
        let made = self.post(&target).await;
        made.map_err(target.failed("create"))
    }

    async fn post(&self, target: &Target) -> Result<(), kube::Error> {
        brief::send(&self.client, self.creation(target)?).await?;
        created(target);
        Ok(())
    }

    fn creation(&self, target: &Target) -> kube::Result<http::Request<Vec<u8>>> {
        let mut body = target.body.clone();
        drift::stamp_created(&mut body);
        let body = serde_json::to_vec(&body).map_err(kube::Error::SerdeError)?;
        let params = PostParams {
            field_manager: Some(self.manager.to_owned()),
            ..PostParams::default()
        };
        let request = target.request().create(&params, body);
        request.map_err(kube::Error::BuildRequest)
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
                pressure::wrote();
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

/// UID of the object that an object is controlled by.
fn controller(object: &impl Resource) -> Option<&str> {
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some(&owner.uid)
}

fn created(target: &Target) {
    pressure::wrote();
    target.log_created();
}

/// `namespace/name`, or the name of what has no namespace.
pub fn full_name<K: Resource>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
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
