//! The namespace of a release: made where there is none, and removed after the release unless somebody uses it.
//!
//! Helm can make namespaces and never removes them, nor does it say afterwards which ones it made.

use std::fmt::Debug;

use butler_addons::failure::Class;
use butler_runtime::error::{ApiError, Category, Classify, chain, is_already_there, is_not_found};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{DaemonSet, Deployment, StatefulSet},
        batch::v1::CronJob,
        core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Pod, Secret},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions},
};
use serde::de::DeserializeOwned;

use crate::StepError;

/// Label of namespaces that were made for releases.
const MADE: &str = "butler.butlerlabs.dev/made-for-addons";
/// What Kubernetes itself puts into every namespace.
const USUAL: &str = "kube-root-ca.crt";

/// Makes a namespace unless it is there. One that is on its way out is waited for.
pub async fn make(client: &Client, name: &str) -> Result<(), StepError> {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(MADE.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let api: Api<Namespace> = Api::all(client.clone());
    match api.create(&PostParams::default(), &namespace).await {
        Ok(_) => return Ok(()),
        Err(error) if is_already_there(&error) => {}
        Err(error) => return Err(trouble(&ApiError::of("create", "Namespace", name)(error))),
    }
    let held = api.get_opt(name).await;
    let held = held.map_err(|error| trouble(&ApiError::of("get", "Namespace", name)(error)))?;
    if held.is_some_and(|held| held.metadata.deletion_timestamp.is_none()) {
        return Ok(());
    }
    let message = format!("namespace {name} is being removed; it is made again when it is gone");
    Err(StepError::new(Class::Busy, message))
}

fn trouble(error: &ApiError) -> StepError {
    let class = match error.category() {
        Category::Unavailable => Class::Unreachable,
        _ => Class::Refused,
    };
    StepError::new(class, chain(error))
}

/// Removes a namespace that was made for releases and holds nothing any more that somebody would miss.
pub async fn remove(client: &Client, name: &str) -> Result<(), ApiError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = api.get_opt(name).await;
    let found = found.map_err(ApiError::of("get", "Namespace", name))?;
    let ours = found.filter(|found| {
        found.labels().contains_key(MADE) && found.metadata.deletion_timestamp.is_none()
    });
    let Some(namespace) = ours else { return Ok(()) };
    if let Some(held) = held(client, name).await? {
        tracing::info!(namespace = name, held, "a namespace stays: it is in use");
        return Ok(());
    }
    // Not another one of the same name.
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: namespace.uid(),
        resource_version: None,
    });
    match api.delete(name, &params).await {
        Err(error) if !is_not_found(&error) => {
            Err(ApiError::of("delete", "Namespace", name)(error))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Something in a namespace that is nobody's part and not on its way out. What releases themselves leave for a moment, such
/// as pods, belongs to something; leases and events are missed by nobody.
async fn held(client: &Client, namespace: &str) -> Result<Option<String>, ApiError> {
    let found = one::<PersistentVolumeClaim>(client, namespace).await?;
    let found = found.or(one::<Secret>(client, namespace).await?);
    let found = found.or(one::<ConfigMap>(client, namespace).await?);
    let found = found.or(one::<Pod>(client, namespace).await?);
    let found = found.or(one::<Deployment>(client, namespace).await?);
    let found = found.or(one::<StatefulSet>(client, namespace).await?);
    let found = found.or(one::<DaemonSet>(client, namespace).await?);
    Ok(found.or(one::<CronJob>(client, namespace).await?))
}

async fn one<K>(client: &Client, namespace: &str) -> Result<Option<String>, ApiError>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let listed = api.list_metadata(&ListParams::default()).await;
    let kind = K::kind(&());
    let what = format!("{kind}s in namespace");
    let listed = listed.map_err(ApiError::of("list", &what, namespace))?;
    let mut missed = listed.into_iter().filter(|found| {
        found.owner_references().is_empty()
            && found.metadata.deletion_timestamp.is_none()
            && found.name_any() != USUAL
    });
    Ok(missed
        .next()
        .map(|found| format!("{kind} {}", found.name_any())))
}
