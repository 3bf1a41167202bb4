//! What stands in a cluster: records of releases, and their objects. Reads only, but for the three small writes that a
//! plan can ask for without Helm.

mod kinds;
mod preview;

use std::collections::BTreeMap;

use butler_addons::{
    health::{self, Health, State},
    manifest::{self, ObjectId, Planned},
    output,
    record::{self, HEALTHY, Record, Revision},
    request::{Drift, ReleaseId, Request},
    values,
};
use butler_runtime::{
    drift,
    error::{ApiError, Category, Classify as _},
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

pub use self::{kinds::Kinds, preview::changes};

/// The name under which Helm owns fields.
const HELM: &str = "helm";

/// Why a cluster could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// Its API server.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Its API server does not take an object.
    #[error("{object} is not accepted as it was installed: {why}")]
    Refused {
        /// Which one.
        object: ObjectId,
        /// What it says, fit to be shown.
        why: String,
    },
    /// A record that Helm did not write.
    #[error("release {release}")]
    Record {
        /// Which release.
        release: ReleaseId,
        /// What is wrong.
        #[source]
        source: record::RecordError,
    },
    /// A manifest that cannot be read.
    #[error("release {release}")]
    Manifest {
        /// Which release.
        release: ReleaseId,
        /// What is wrong.
        #[source]
        source: manifest::ManifestError,
    },
}

/// The records of a release.
#[derive(Debug, Default)]
pub struct Records {
    /// All revisions, oldest first.
    pub revisions: Vec<Revision>,
    /// The last one, whole.
    pub latest: Option<Record>,
}

fn secrets(client: &Client, release: &ReleaseId) -> Api<Secret> {
    Api::namespaced(client.clone(), &release.namespace)
}

fn secret_name(release: &ReleaseId, revision: u32) -> String {
    format!("sh.helm.release.v1.{}.v{revision}", release.name)
}

/// Reads the records of a release: the labels of all, and all of the last.
pub async fn records(client: &Client, release: &ReleaseId) -> Result<Records, LookError> {
    let api = secrets(client, release);
    let selector = format!("owner=helm,name={}", release.name);
    let listed = api
        .list_metadata(&ListParams::default().labels(&selector))
        .await;
    let name = release.to_string();
    let listed = listed.map_err(ApiError::of("list", "records of release", &name))?;
    let labels = listed.iter().map(ResourceExt::labels);
    let mut revisions: Vec<Revision> = labels.filter_map(Revision::from_labels).collect();
    revisions.sort_by_key(|revision| revision.number);
    let Some(last) = revisions.last() else {
        return Ok(Records::default());
    };
    let packed = packed(&api, release, last.number).await?;
    let latest = packed.map(|(data, _)| record::read(&data)).transpose();
    let latest = latest.map_err(|source| LookError::Record {
        release: release.clone(),
        source,
    })?;
    Ok(Records { revisions, latest })
}

/// The content of a record and its version, if it is there.
async fn packed(
    api: &Api<Secret>,
    release: &ReleaseId,
    revision: u32,
) -> Result<Option<(Vec<u8>, Option<String>)>, ApiError> {
    let name = secret_name(release, revision);
    let found = api.get_opt(&name).await;
    let found = found.map_err(ApiError::of("get", "Secret", &name))?;
    Ok(found.and_then(|mut secret| {
        let version = secret.resource_version();
        let data = secret.data.as_mut()?.remove("release")?;
        Some((data.0, version))
    }))
}

/// Marks a record that was left pending as failed.
pub async fn recover(client: &Client, release: &ReleaseId, revision: u32) -> Result<(), LookError> {
    let api = secrets(client, release);
    let Some((data, version)) = packed(&api, release, revision).await? else {
        return Ok(());
    };
    let why = "interrupted: the controller that was at it ended";
    let marked = record::mark_failed(&data, why).map_err(|source| LookError::Record {
        release: release.clone(),
        source,
    })?;
    let marked = k8s_openapi::ByteString(marked);
    let change = json!({
        "metadata": {"resourceVersion": version, "labels": {"status": "failed"}},
        "data": {"release": marked},
    });
    change_record(&api, release, revision, &change).await
}

/// Notes that a revision became healthy.
pub async fn mark_healthy(
    client: &Client,
    release: &ReleaseId,
    revision: u32,
) -> Result<(), LookError> {
    let change = json!({"metadata": {"labels": {HEALTHY: "true"}}});
    change_record(&secrets(client, release), release, revision, &change).await
}

async fn change_record(
    api: &Api<Secret>,
    release: &ReleaseId,
    revision: u32,
    change: &Value,
) -> Result<(), LookError> {
    let name = secret_name(release, revision);
    let changed = api
        .patch_metadata(&name, &PatchParams::default(), &Patch::Merge(change))
        .await;
    changed.map_err(ApiError::of("change", "Secret", &name))?;
    Ok(())
}

/// The objects of a release as they are.
#[derive(Debug, Default)]
pub struct Objects {
    /// How they are.
    pub health: Health,
    /// Those that are not as they were installed.
    pub drifted: Vec<ObjectId>,
}

/// Looks at every object of a release.
pub async fn objects(
    client: &Client,
    kinds: &Kinds,
    request: &Request,
    record: &Record,
) -> Result<Objects, LookError> {
    let (release, drift) = (&request.release, request.drift);
    let mut states = Vec::new();
    let mut drifted = Vec::new();
    for planned in planned(release, &record.manifest)? {
        let Some(api) = kinds.api(client, release, &planned.id).await? else {
            states.push((planned.id, State::Missing));
            continue;
        };
        let live = api.get_opt(&planned.id.name).await;
        let live = live.map_err(ApiError::of("get", &planned.id.kind, &planned.id.name))?;
        let Some(live) = live else {
            if drift != Drift::Off {
                drifted.push(planned.id.clone());
            }
            states.push((planned.id, State::Missing));
            continue;
        };
        let live = with_kind(&live, &planned.id);
        let mut state = health::assess_by(&request.health, &live);
        if let State::Progressing(why) = &state
            && let Some(trouble) = trouble(client, release, &live).await?
        {
            state = State::Progressing(format!("{why}: {trouble}"));
        }
        if drift != Drift::Off && has_drifted(&api, record, &planned, &live).await? {
            drifted.push(planned.id.clone());
        }
        states.push((planned.id, state));
    }
    Ok(Objects {
        health: Health::of(states),
        drifted,
    })
}

fn read(release: &ReleaseId, manifest: &str) -> Result<Vec<Planned>, LookError> {
    manifest::objects(manifest).map_err(|source| LookError::Manifest {
        release: release.clone(),
        source,
    })
}

fn planned(release: &ReleaseId, manifest: &str) -> Result<Vec<Planned>, LookError> {
    let mut objects = read(release, manifest)?;
    for planned in &mut objects {
        own(release, &mut planned.body);
    }
    Ok(objects)
}

fn with_kind(live: &DynamicObject, id: &ObjectId) -> Value {
    let mut live = serde_json::to_value(live).unwrap_or_default();
    if let Some(fields) = live.as_object_mut() {
        fields.insert("apiVersion".to_owned(), id.api_version.as_str().into());
        fields.insert("kind".to_owned(), id.kind.as_str().into());
    }
    live
}

/// Why the pods of a workload do not run, as the first of them that knows says.
async fn trouble(
    client: &Client,
    release: &ReleaseId,
    live: &Value,
) -> Result<Option<String>, LookError> {
    let labels = live.pointer("/spec/selector/matchLabels");
    let labels: Option<BTreeMap<String, String>> =
        labels.and_then(|labels| serde_json::from_value(labels.clone()).ok());
    let Some(labels) = labels.filter(|labels| !labels.is_empty()) else {
        return Ok(None);
    };
    let namespace = live.pointer("/metadata/namespace").and_then(Value::as_str);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace.unwrap_or(&release.namespace));
    let pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let selector = ListParams::default().labels(&pairs.join(",")).limit(10);
    let listed = pods.list(&selector).await;
    let listed = listed.map_err(ApiError::of("list", "Pods of release", &release.name))?;
    let mut pods = listed
        .iter()
        .filter_map(|pod| serde_json::to_value(pod).ok());
    Ok(pods.find_map(|pod| health::pod_trouble(&pod)))
}

/// Whether an object is not what Helm applied. A difference in the text may be another spelling of the same, such as
/// `1000m` and `1`, so the API server has the last word: what would an apply change?
async fn has_drifted(
    api: &Api<DynamicObject>,
    record: &Record,
    planned: &Planned,
    live: &Value,
) -> Result<bool, LookError> {
    if drift::stands_in(&planned.body, live) {
        return Ok(false);
    }
    let params = PatchParams::apply(HELM).force().dry_run();
    let after = match apply(api, planned, params).await {
        Ok(after) => after,
        Err(error) => match refused(error, record, planned) {
            // It differs, and cannot be put back.
            LookError::Refused { .. } => return Ok(true),
            other => return Err(other),
        },
    };
    let after = with_kind(&after, &planned.id);
    Ok(without_bookkeeping(after) != without_bookkeeping(live.clone()))
}

fn without_bookkeeping(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
    }
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

async fn apply(
    api: &Api<DynamicObject>,
    planned: &Planned,
    params: PatchParams,
) -> Result<DynamicObject, ApiError> {
    let ObjectId { kind, name, .. } = &planned.id;
    let applied = api.patch(name, &params, &Patch::Apply(&planned.body)).await;
    applied.map_err(ApiError::of("apply", kind, name))
}

/// Tells an object that is not accepted from other trouble. What is wrong with it is often said by quoting it.
fn refused(error: ApiError, record: &Record, planned: &Planned) -> LookError {
    match &*error.source {
        kube::Error::Api(status)
            if matches!(error.category(), Category::Invalid | Category::Forbidden) =>
        {
            LookError::Refused {
                object: planned.id.clone(),
                why: output::presentable(&status.message, &values::texts(&record.values)),
            }
        }
        _ => error.into(),
    }
}

/// Puts objects back as Helm applied them, in its name.
pub async fn correct(
    client: &Client,
    kinds: &Kinds,
    release: &ReleaseId,
    record: &Record,
    drifted: &[ObjectId],
) -> Result<(), LookError> {
    for planned in planned(release, &record.manifest)? {
        if !drifted.contains(&planned.id) {
            continue;
        }
        if let Some(api) = kinds.api(client, release, &planned.id).await? {
            let applied = apply(&api, &planned, PatchParams::apply(HELM).force()).await;
            applied.map_err(|error| refused(error, record, &planned))?;
            tracing::info!(release = %release, object = %planned.id, "put back");
        }
    }
    Ok(())
}

/// What Helm writes on every object of a release besides the manifest: without it an apply in Helm's name would take it
/// away, and one that is made anew would be nobody's.
fn own(release: &ReleaseId, body: &mut Value) {
    let marks = json!({"metadata": {
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {
            "meta.helm.sh/release-name": release.name,
            "meta.helm.sh/release-namespace": release.namespace,
        },
    }});
    values::lay_over(body, &marks);
}
