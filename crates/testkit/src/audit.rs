//! What the server was asked, from its audit log: the truth about how much a controller writes.

use std::{
    fmt,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use http::Request;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::{Server, server::must_answer};

/// The path by which a reader of the log finds its own place in it.
const MARKER: &str = "/version?testkit-marker=";

/// A moment in the life of a server, to count from.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

/// One request, as the server recorded it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// What the client called itself.
    #[serde(default)]
    pub user_agent: String,
    user: Identity,
    impersonated_user: Option<Identity>,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
}

#[derive(Clone, Debug, Deserialize)]
struct Identity {
    #[serde(default)]
    username: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    api_group: String,
}

#[derive(Clone, Debug, Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl AuditEvent {
    /// On whose behalf the request was made.
    pub fn user(&self) -> &str {
        &self
            .impersonated_user
            .as_ref()
            .unwrap_or(&self.user)
            .username
    }

    /// The plural of the kind, such as `configmaps`; empty for paths that are no resource.
    pub fn resource(&self) -> &str {
        self.object_ref
            .as_ref()
            .map_or("", |object| &object.resource)
    }

    /// The sub-resource, such as `status`, or nothing.
    pub fn subresource(&self) -> &str {
        self.object_ref
            .as_ref()
            .map_or("", |object| &object.subresource)
    }

    /// The namespace, or nothing.
    pub fn namespace(&self) -> &str {
        self.object_ref
            .as_ref()
            .map_or("", |object| &object.namespace)
    }

    /// The object's name; nothing for lists, and for creations where the server was told it in the body.
    pub fn name(&self) -> &str {
        self.object_ref.as_ref().map_or("", |object| &object.name)
    }

    /// The HTTP status of the answer.
    pub fn code(&self) -> u16 {
        self.response_status
            .as_ref()
            .map_or(0, |status| status.code)
    }

    /// Whether the request could change something that is stored: no read, dry run or access review.
    pub fn is_write(&self) -> bool {
        let verb = matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        );
        let stored = self.object_ref.as_ref().is_some_and(|object| {
            !matches!(
                object.api_group.as_str(),
                "authorization.k8s.io" | "authentication.k8s.io"
            )
        });
        verb && stored && !self.uri.contains("dryRun=All")
    }
}

impl fmt::Display for AuditEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb,
            uri,
            user_agent,
            ..
        } = self;
        write!(
            f,
            "{verb} {uri} -> {} by {} ({user_agent})",
            self.code(),
            self.user()
        )
    }
}

/// Requests in the order they were answered, to be narrowed down and counted.
#[derive(Clone, Debug, Default)]
pub struct Requests(Vec<AuditEvent>);

impl Requests {
    /// Only those that could change something.
    #[must_use]
    pub fn writes(self) -> Self {
        self.only(AuditEvent::is_write)
    }

    /// Only those the server accepted.
    #[must_use]
    pub fn accepted(self) -> Self {
        self.only(|event| event.code() < 400)
    }

    /// Only those on behalf of this user.
    #[must_use]
    pub fn by_user(self, user: &str) -> Self {
        self.only(|event| event.user() == user)
    }

    /// Only those of clients whose user agent begins so.
    #[must_use]
    pub fn by_agent(self, agent: &str) -> Self {
        self.only(|event| event.user_agent.starts_with(agent))
    }

    /// Only those about this resource, by its plural.
    #[must_use]
    pub fn of(self, resource: &str) -> Self {
        self.only(|event| event.resource() == resource)
    }

    /// Only those in this namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        self.only(|event| event.namespace() == namespace)
    }

    /// Only those for which the predicate holds.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(&AuditEvent) -> bool) -> Self {
        self.0.retain(|event| keep(event));
        self
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// One by one.
    pub fn iter(&self) -> std::slice::Iter<'_, AuditEvent> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Requests {
    type Item = &'a AuditEvent;
    type IntoIter = std::slice::Iter<'a, AuditEvent>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}

impl Server {
    /// Remembers this moment: every request answered before it is before it in the log.
    pub async fn mark(&self) -> Mark {
        let length = std::fs::metadata(self.folder().join("audit.log")).map_or(0, |log| log.len());
        let (end, _) = self.read_log(length).await;
        Mark(end)
    }

    /// Every request answered since a moment, without the server's own, probes and this kit's markers.
    pub async fn audit(&self, since: Mark) -> Requests {
        let (_, text) = self.read_log(since.0).await;
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let requests = Requests(events.collect());
        requests.only(|event| !event.uri.starts_with(MARKER))
    }

    /// Every request since a moment that could change something.
    pub async fn writes(&self, since: Mark) -> Requests {
        self.audit(since).await.writes()
    }

    /// Reads the log from an offset up to now; returns the offset where it ends.
    ///
    /// The server writes a line when it has finished with a request, which can be a little after the
    /// client has the answer. A request of our own that shows up in the log proves the earlier ones are
    /// there.
    async fn read_log(&self, from: u64) -> (u64, String) {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        const PATIENCE: Duration = Duration::from_secs(10);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let marker = format!("{MARKER}{}-{number}.", process::id());
        let request = Request::get(&marker)
            .body(Vec::new())
            .expect("a well-formed path");
        must_answer(
            self.client().request_text(request).await,
            "ask for the version",
        );

        let log = self.folder().join("audit.log");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = read_from(&log, from).unwrap_or_default();
            let end = text
                .find(&marker)
                .and_then(|at| Some(at + text.get(at..)?.find('\n')? + 1));
            if let Some(end) = end {
                let read = text.get(..end).unwrap_or_default().to_owned();
                return (from + u64::try_from(end).unwrap_or_default(), read);
            }
            assert!(
                Instant::now() < deadline,
                "waited {PATIENCE:?} for {marker} in the audit log"
            );
            sleep(Duration::from_millis(2)).await;
        }
    }
}

fn read_from(log: &Path, offset: u64) -> std::io::Result<String> {
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}
