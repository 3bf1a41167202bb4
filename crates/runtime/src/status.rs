//! Reporting: the status of an object, written only when it says something new.

use std::fmt::Debug;

use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
    core::Request,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    apply::{Applicable, Applier, Outcome, full_name},
    brief,
    error::ApiError,
    pressure,
};

/// Exactly what is sent: nothing of the object but its identity and its status.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a, S> {
    api_version: String,
    kind: String,
    metadata: Identity,
    status: &'a S,
}

/// The UID makes a report about a deleted object fail instead of landing on its successor of the same name.
#[derive(Debug, Serialize)]
struct Identity {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(rename = "resourceVersion", skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

/// Writes `next` as the status of `object` unless `held` says the same already.
pub async fn report<K: Applicable, S: Serialize + PartialEq + Debug + Sync>(
    applier: &Applier,
    object: &K,
    held: Option<&S>,
    next: &S,
) -> Result<Outcome, ApiError> {
    if held == Some(next) {
        return Ok(Outcome::Unchanged);
    }
    let request = request(applier, object, None, next).map_err(failed(object))?;
    let written = brief::send(applier.client(), request).await;
    let written = written.map_err(failed(object))?;
    applier.own_writes().record(object, &written);
    Ok(Outcome::Written)
}

/// Writes `next` unless `held` says the same already, or the pass wrote objects while many others wait: then the next
/// pass reports. For what was found at the end of a pass, not for what went wrong.
pub async fn report_in_turn<K: Applicable, S: Serialize + PartialEq + Debug + Sync>(
    applier: &Applier,
    object: &K,
    held: Option<&S>,
    next: &S,
) -> Result<Outcome, ApiError> {
    if held != Some(next) && pressure::put_off() {
        return Ok(Outcome::PutOff);
    }
    report(applier, object, held, next).await
}

/// Writes `next` as the status of exactly the object that was seen: a view that is behind loses with a conflict. For
/// a status that is itself the record of who has what. Returns the object as it is stored afterwards.
pub async fn report_over<K, S>(applier: &Applier, seen: &K, next: &S) -> Result<K, ApiError>
where
    K: Applicable + DeserializeOwned,
    S: Serialize + Debug + Sync,
{
    let request = request(applier, seen, seen.resource_version(), next).map_err(failed(seen))?;
    let written: K = applier
        .client()
        .request(request)
        .await
        .map_err(failed(seen))?;
    applier.own_writes().record(seen, &written);
    Ok(written)
}

fn request<K: Applicable, S: Serialize + Debug>(
    applier: &Applier,
    object: &K,
    resource_version: Option<String>,
    next: &S,
) -> kube::Result<http::Request<Vec<u8>>> {
    let body = Report {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        metadata: Identity {
            name: object.name_any(),
            namespace: object.namespace(),
            uid: object.uid(),
            resource_version,
        },
        status: next,
    };
    let params = PatchParams::apply(applier.manager()).force();
    let place = K::url_path(&(), object.namespace().as_deref());
    let body = Patch::Apply(&body);
    Request::new(place)
        .patch_subresource("status", &object.name_any(), &params, &body)
        .map_err(kube::Error::BuildRequest)
}

fn failed<K: Applicable>(object: &K) -> impl FnOnce(kube::Error) -> ApiError + use<K> {
    ApiError::of("report the status of", &K::kind(&()), &full_name(object))
}
