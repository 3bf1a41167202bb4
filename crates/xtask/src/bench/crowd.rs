//! Crowds of objects: when they are settled, and how fast the API server would take them from a bare loop.

#![expect(
    clippy::indexing_slicing,
    reason = "objects of the API server are JSON objects: what is not there is null"
)]

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use butler_testkit::Server;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DynamicObject, PostParams},
    core::ApiResource,
    runtime::watcher,
};
use serde_json::{Value, json};

use super::{Figure, figure};

/// Requests under way at the same time.
pub(super) const AT_ONCE: usize = 32;

/// An object that a bare loop creates.
pub(super) struct Planned {
    resource: ApiResource,
    object: DynamicObject,
}

impl Planned {
    /// A new object.
    pub(super) fn new<K: Resource<DynamicType = ()>>(object: Value) -> Result<Self> {
        Ok(Self {
            resource: ApiResource::erase::<K>(&()),
            object: serde_json::from_value(object)?,
        })
    }

    /// What was written as an object, for another namespace.
    pub(super) fn copy(
        resource: &ApiResource,
        mut object: Value,
        namespace: Option<&str>,
    ) -> Result<Self> {
        let metadata = &object["metadata"];
        let mut copied = json!({"name": metadata["name"], "labels": metadata["labels"], "annotations": metadata["annotations"]});
        if let Some(namespace) = namespace {
            copied["namespace"] = namespace.into();
        }
        object["metadata"] = copied;
        object["apiVersion"] = resource.api_version.as_str().into();
        object["kind"] = resource.kind.as_str().into();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        Ok(Self {
            resource: resource.clone(),
            object: serde_json::from_value(object)?,
        })
    }
}

/// How long a bare loop of creates takes for these objects, with as many writers for all rows.
pub(super) async fn create(
    client: &Client,
    objects: Vec<Planned>,
    at_once: usize,
) -> Result<Duration> {
    let started = Instant::now();
    stream::iter(objects)
        .map(|Planned { resource, object }| {
            let client = client.clone();
            let api: Api<DynamicObject> = match object.namespace() {
                Some(namespace) => Api::namespaced_with(client, &namespace, &resource),
                None => Api::all_with(client, &resource),
            };
            async move { api.create(&PostParams::default(), &object).await.map(drop) }
        })
        .buffer_unordered(at_once)
        .try_collect::<()>()
        .await?;
    Ok(started.elapsed())
}

/// What a crowd took, beside the same objects written by bare creates, 32 at a time and one after the other.
pub(super) fn beside_floor(took: f64, at_once: f64, in_turn: f64) -> [Figure; 4] {
    let unbounded = f64::INFINITY;
    [
        figure(
            "the same objects by bare creates, 32 at once",
            at_once,
            unbounded,
            "s",
        ),
        figure("times the floor", took / at_once, 2.0, ""),
        figure(
            "the same objects one after the other",
            in_turn,
            unbounded,
            "s",
        ),
        figure("times that", took / in_turn, unbounded, ""),
    ]
}

/// What is waited for, and how often the clock is looked at.
pub(super) struct Awaited {
    /// What a thing is called.
    pub(super) what: &'static str,
    pub(super) count: usize,
    /// Things between two looks at the clock.
    pub(super) stride: usize,
    /// How long to wait for the next one.
    pub(super) patience: Duration,
}

/// When each further stride of things was there, by a watch: lists would be part of the load. `name` says which thing an
/// object tells of.
pub(super) async fn marks<O, N: Ord>(
    awaited: &Awaited,
    watch: impl Stream<Item = watcher::Result<O>>,
    name: impl Fn(&O) -> Option<N>,
) -> Result<Vec<Duration>> {
    let Awaited {
        what,
        count,
        stride,
        patience,
    } = *awaited;
    let started = Instant::now();
    let mut watch = std::pin::pin!(watch);
    let (mut seen, mut marks) = (BTreeSet::new(), Vec::new());
    while marks.len() < count / stride {
        let next = tokio::time::timeout(patience, watch.next()).await;
        let next = next.with_context(|| format!("waited {patience:?} for a {what}"))?;
        let object = match next {
            None => break,
            // It begins anew by itself, with what is there then.
            Some(Err(error)) => {
                println!("the watch was interrupted: {error}");
                continue;
            }
            Some(Ok(object)) => object,
        };
        seen.extend(name(&object));
        if (marks.len() + 1) * stride <= seen.len() {
            marks.push(started.elapsed());
        }
    }
    Ok(marks)
}

/// Waits until nothing was written for three seconds; how long that took before them.
pub(super) async fn settle(server: &Server) -> Duration {
    let started = Instant::now();
    loop {
        let (mark, before) = (server.mark().await, started.elapsed());
        tokio::time::sleep(Duration::from_secs(3)).await;
        if server.writes(mark).await.count() == 0 {
            return before;
        }
    }
}
