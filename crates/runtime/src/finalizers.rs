//! Finalizers, added and removed under the version that was seen.
//!
//! kube's own helper removes the finalizer as soon as a clean-up returns; ours waits over many passes and
//! decides in the plan, so these two writes are all that is needed.

use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    apply::{Applicable, full_name},
    error::ApiError,
};

const ADD: &str = "add a finalizer to";

#[derive(Debug, Serialize)]
struct Change {
    metadata: Metadata,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    /// Refuses the write when somebody changed the object, and its list of finalizers, since.
    resource_version: Option<String>,
    finalizers: Vec<String>,
}

/// Whether the object carries this finalizer.
pub fn has<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.finalizers().iter().any(|held| held == finalizer)
}

/// Adds the finalizer.
pub async fn add<K: Applicable + Clone + DeserializeOwned>(
    api: &Api<K>,
    object: &K,
    finalizer: &str,
) -> Result<(), ApiError> {
    write(api, object, with(object, finalizer), ADD).await
}

/// Adds the finalizer; returns the object as it is stored afterwards.
pub async fn add_and_read<K: Applicable + Clone + DeserializeOwned>(
    api: &Api<K>,
    object: &K,
    finalizer: &str,
) -> Result<K, ApiError> {
    let change = change(object, with(object, finalizer));
    let params = PatchParams::default();
    api.patch(&object.name_any(), &params, &Patch::Merge(&change))
        .await
        .map_err(failed(object, ADD))
}

fn with<K: Resource>(object: &K, finalizer: &str) -> Vec<String> {
    let mut finalizers = object.finalizers().to_vec();
    finalizers.push(finalizer.to_owned());
    finalizers
}

/// Removes the finalizer.
pub async fn remove<K: Applicable + Clone + DeserializeOwned>(
    api: &Api<K>,
    object: &K,
    finalizer: &str,
) -> Result<(), ApiError> {
    let finalizers = object
        .finalizers()
        .iter()
        .filter(|held| *held != finalizer)
        .cloned()
        .collect();
    write(api, object, finalizers, "remove a finalizer from").await
}

async fn write<K: Applicable + Clone + DeserializeOwned>(
    api: &Api<K>,
    object: &K,
    finalizers: Vec<String>,
    verb: &'static str,
) -> Result<(), ApiError> {
    let change = change(object, finalizers);
    let params = PatchParams::default();
    // The object is not sent back whole.
    api.patch_metadata(&object.name_any(), &params, &Patch::Merge(&change))
        .await
        .map_err(failed(object, verb))
        .map(drop)
}

fn change<K: Resource>(object: &K, finalizers: Vec<String>) -> Change {
    Change {
        metadata: Metadata {
            resource_version: object.resource_version(),
            finalizers,
        },
    }
}

fn failed<K: Applicable>(
    object: &K,
    verb: &'static str,
) -> impl FnOnce(kube::Error) -> ApiError + use<K> {
    ApiError::of(verb, &K::kind(&()), &full_name(object))
}
