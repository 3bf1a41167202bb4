//! Waiting for an object to become what a test expects, by watch, with a reason when it does not.

use std::{fmt::Debug, pin::pin, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt as _, watcher},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::timeout;

/// How long the helpers without a deadline wait: generous, because a busy machine is slow and a test that
/// passes does not wait.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// What can be awaited.
pub trait Awaited:
    Resource + Clone + Debug + Serialize + DeserializeOwned + Send + 'static
{
}

impl<K: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + 'static> Awaited for K {}

/// Waits until the object is there and `done` holds for it.
///
/// # Panics
/// When the deadline passes first; the message has `what` and the object as it was last seen.
pub async fn wait_for<K: Awaited>(
    api: &Api<K>,
    name: &str,
    what: &str,
    deadline: Duration,
    done: impl Fn(&K) -> bool,
) -> K {
    let found = wait(api, name, what, deadline, |seen| seen.is_some_and(&done)).await;
    found.expect("only an object that is there satisfies the predicate")
}

/// Waits until the object has the condition with this status (`True`, `False` or `Unknown`).
///
/// # Panics
/// When it does not within [`PATIENCE`].
pub async fn wait_for_condition<K: Awaited>(
    api: &Api<K>,
    name: &str,
    condition: &str,
    status: &str,
) -> K {
    let what = format!("condition {condition}={status}");
    wait_for(api, name, &what, PATIENCE, |object| {
        let object = serde_json::to_value(object).unwrap_or_default();
        let mut held = object["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        held.any(|held| held["type"] == condition && held["status"] == status)
    })
    .await
}

/// Waits until the object is gone.
///
/// # Panics
/// When it is still there after [`PATIENCE`].
pub async fn wait_until_gone<K: Awaited>(api: &Api<K>, name: &str) {
    wait(api, name, "it to be gone", PATIENCE, |seen| seen.is_none()).await;
}

async fn wait<K: Awaited>(
    api: &Api<K>,
    name: &str,
    what: &str,
    deadline: Duration,
    done: impl Fn(Option<&K>) -> bool,
) -> Option<K> {
    let mut last = Seen::Nothing;
    let mut changes = pin!(watcher::watch_object(api.clone(), name).default_backoff());
    let waited = timeout(deadline, async {
        while let Some(change) = changes.next().await {
            match change {
                Ok(object) if done(object.as_ref()) => return object,
                Ok(object) => last = object.as_ref().map_or(Seen::Absent, Seen::object),
                Err(error) => last = Seen::Failure(error.to_string()),
            }
        }
        unreachable!("a watch with backoff does not end")
    });
    let result = waited.await;
    result.unwrap_or_else(|_| {
        let url = api.resource_url();
        panic!("waited {deadline:?} for {what} of {url}/{name}\nlast seen: {last}")
    })
}

/// What the watch saw last, for the message.
enum Seen {
    Nothing,
    Absent,
    Failure(String),
    Object(Value),
}

impl Seen {
    fn object(object: &impl Serialize) -> Self {
        let mut object = serde_json::to_value(object).unwrap_or_default();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        Self::Object(object)
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing, not even that it is absent"),
            Self::Absent => f.write_str("no such object"),
            Self::Failure(error) => write!(f, "the watch failed: {error}"),
            Self::Object(object) => {
                for condition in object["status"]["conditions"]
                    .as_array()
                    .into_iter()
                    .flatten()
                {
                    let text = |field: &str| condition[field].as_str().unwrap_or("-").to_owned();
                    writeln!(
                        f,
                        "  condition {}={} {}: {}",
                        text("type"),
                        text("status"),
                        text("reason"),
                        text("message")
                    )?;
                }
                write!(f, "{object:#}")
            }
        }
    }
}
