//! What an upgrade would change: the API server is asked about every object by a dry run of the same apply.

use butler_addons::{
    diff::{Change, Part},
    manifest::{ObjectId, Planned},
    record::Record,
    rendered::{Hook, Rendered},
    request::ReleaseId,
};
use butler_runtime::error::ApiError;
use kube::{
    Client,
    api::{DynamicObject, PatchParams},
};
use serde_json::Value;

use super::{HELM, Kinds, LookError, apply, planned, read, with_kind, without_bookkeeping};

/// What becomes of the objects of a release: kinds that come with it, objects in the order of `rendered`, those that only
/// `stands` has, and what runs beside them.
pub async fn changes(
    client: &Client,
    kinds: &Kinds,
    release: &ReleaseId,
    stands: Option<&Record>,
    rendered: &Rendered,
    definitions: &str,
) -> Result<Vec<Change>, LookError> {
    let wanted = planned(release, &rendered.manifest)?;
    let mut changes = Vec::new();
    for definition in read(release, definitions)? {
        let mut change = one(client, kinds, release, &definition).await?;
        change.part = Part::Definition;
        // Helm leaves those that are there as they are.
        if change.before.is_none() {
            changes.push(change);
        }
    }
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
            part: Part::Object,
            before: live.map(|live| shown(&live, &planned.id)),
            id: planned.id,
            after: None,
            refused: None,
        });
    }
    for hook in &rendered.hooks {
        changes.extend(run(release, hook)?);
    }
    Ok(changes)
}

/// What a hook makes. Nobody is asked about it: what an earlier run left behind is removed first.
fn run(release: &ReleaseId, hook: &Hook) -> Result<impl Iterator<Item = Change>, LookError> {
    let events = hook.events.clone();
    let made = read(release, &hook.manifest)?.into_iter();
    Ok(made.map(move |planned| Change {
        id: planned.id,
        part: Part::Hook(events.clone()),
        before: None,
        after: Some(planned.body),
        refused: None,
    }))
}

async fn one(
    client: &Client,
    kinds: &Kinds,
    release: &ReleaseId,
    planned: &Planned,
) -> Result<Change, LookError> {
    let mut change = Change {
        id: planned.id.clone(),
        part: Part::Object,
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
