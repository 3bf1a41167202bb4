//! What an upgrade would change: the API server is asked about every object by a dry run of the same apply.

use butler_addons::{
    diff::Change,
    manifest::{ObjectId, Planned},
    record::Record,
    request::ReleaseId,
};
use butler_runtime::error::ApiError;
use kube::{
    Client,
    api::{DynamicObject, PatchParams},
};
use serde_json::Value;

use super::{HELM, Kinds, LookError, apply, planned, with_kind, without_bookkeeping};

/// What becomes of the objects of a release: those of `rendered`, in its order, and those that only `stands` has.
pub async fn changes(
    client: &Client,
    kinds: &Kinds,
    release: &ReleaseId,
    stands: Option<&Record>,
    rendered: &str,
) -> Result<Vec<Change>, LookError> {
    let wanted = planned(release, rendered)?;
    let mut changes = Vec::new();
    for planned in &wanted {
        changes.push(one(client, kinds, release, planned).await?);
    }
    let held = stands.map_or("", |record| &record.manifest);
    let held = self::planned(release, held)?;
    for planned in held {
        let stays = wanted
            .iter()
            .any(|other| is_same(release, &planned.id, &other.id));
        if stays || is_kept(&planned.body) {
            continue;
        }
        let Some(api) = kinds.api(client, release, &planned.id).await? else {
            continue;
        };
        let ObjectId { kind, name, .. } = &planned.id;
        let live = api.get_opt(name).await;
        let live = live.map_err(ApiError::of("get", kind, name))?;
        changes.push(Change {
            before: live.map(|live| shown(&live, &planned.id)),
            id: planned.id,
            after: None,
            refused: None,
        });
    }
    Ok(changes)
}

async fn one(
    client: &Client,
    kinds: &Kinds,
    release: &ReleaseId,
    planned: &Planned,
) -> Result<Change, LookError> {
    let mut change = Change {
        id: planned.id.clone(),
        before: None,
        after: Some(planned.body.clone()),
        refused: None,
    };
    // Its kind comes with the same release, or before it.
    let Some(api) = kinds.api(client, release, &planned.id).await? else {
        return Ok(change);
    };
    let ObjectId { kind, name, .. } = &planned.id;
    let live = api.get_opt(name).await;
    let live = live.map_err(ApiError::of("get", kind, name))?;
    change.before = live.map(|live| shown(&live, &planned.id));
    match apply(&api, planned, PatchParams::apply(HELM).force().dry_run()).await {
        Ok(after) => change.after = Some(shown(&after, &planned.id)),
        Err(error) => match answer(&error) {
            // Its namespace is made first.
            Some((404, _)) => {}
            Some((400..=499, why)) => change.refused = Some(why),
            _ => return Err(error.into()),
        },
    }
    Ok(change)
}

fn answer(error: &ApiError) -> Option<(u16, String)> {
    match &*error.source {
        kube::Error::Api(status) => Some((status.code, status.message.clone())),
        _ => None,
    }
}

/// An object without what only the API server needs.
fn shown(object: &DynamicObject, id: &ObjectId) -> Value {
    let mut object = without_bookkeeping(with_kind(object, id));
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["uid", "creationTimestamp"] {
            metadata.remove(field);
        }
    }
    object
}

/// Whether both are one object, in whatever version.
fn is_same(release: &ReleaseId, one: &ObjectId, other: &ObjectId) -> bool {
    let group = |id: &ObjectId| {
        let version = &id.api_version;
        version.split_once('/').map(|(group, _)| group.to_owned())
    };
    let rest = |id: &ObjectId| {
        let namespace = id.namespace.as_ref().unwrap_or(&release.namespace);
        (id.kind.clone(), namespace.clone(), id.name.clone())
    };
    group(one) == group(other) && rest(one) == rest(other)
}

/// Whether Helm leaves it when it is no longer part of the chart.
fn is_kept(body: &Value) -> bool {
    let annotations = body.pointer("/metadata/annotations");
    let policy = annotations.and_then(|all| all.get("helm.sh/resource-policy"));
    policy.is_some_and(|said| said == "keep")
}
