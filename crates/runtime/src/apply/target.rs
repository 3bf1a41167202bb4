//! One planned object, whatever its kind.

use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind, Request},
};
use serde_json::Value;

use super::{Applicable, to_value};
use crate::{drift, error::ApiError};

/// A planned object and where it belongs.
#[derive(Clone, Debug)]
pub struct Target {
    pub(super) resource: ApiResource,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) body: Value,
}

impl Target {
    /// Of a kind that is known at compile time.
    pub(super) fn of<K: Applicable>(planned: &K) -> Result<Self, ApiError> {
        Ok(Self {
            resource: ApiResource::erase::<K>(&()),
            namespace: planned.namespace(),
            name: planned.name_any(),
            body: to_value("apply", planned)?,
        })
    }

    /// Of any kind. `body` is the whole object.
    pub fn new(kind: &GroupVersionKind, namespace: Option<&str>, name: &str, body: Value) -> Self {
        Self {
            resource: ApiResource::from_gvk(kind),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            body,
        }
    }

    pub(super) fn stamped(&self) -> Value {
        let mut body = self.body.clone();
        drift::stamp(&mut body);
        body
    }

    pub(super) fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    pub(super) fn request(&self) -> Request {
        Request::new(DynamicObject::url_path(
            &self.resource,
            self.namespace.as_deref(),
        ))
    }

    pub(super) fn log_created(&self) {
        tracing::info!(kind = self.resource.kind, name = %self.full_name(), "created");
    }

    pub(super) fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    pub(super) fn failed(
        &self,
        verb: &'static str,
    ) -> impl FnOnce(kube::Error) -> ApiError + use<> {
        ApiError::of(verb, &self.resource.kind, &self.full_name())
    }
}
