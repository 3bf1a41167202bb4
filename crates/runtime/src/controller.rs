//! Runs one reconciler over one kind: bounded concurrency, patience for each object, a deadline, metrics.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt, future};
use kube::{
    Resource,
    runtime::{
        controller::{Action, Config, Controller, Error as ControllerError},
        reflector::ObjectRef,
    },
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    apply::full_name,
    backoff::{Backoff, spread},
    chance::chance,
    error::{Category, Classify, chain},
    metrics::ReconcileMetrics,
    own_writes::{self, OwnWrites},
    sync::lock,
    urgency::Urgency,
    watch::{Change, Feed, Watchable},
};

/// When to look at an object again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Wake {
    /// When something that is watched changes.
    OnChange,
    /// When something changes, and about this much later in any case.
    After(Duration),
}

/// Brings objects of one kind to what their specs say.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind.
    type Object: Watchable;
    /// What can go wrong.
    type Error: Classify;
    /// The name of the controller in logs and metrics.
    const NAME: &'static str;

    /// One pass over one object. It never waits for long work: it says when to look again.
    fn reconcile(
        &self,
        object: Arc<Self::Object>,
    ) -> impl Future<Output = Result<Wake, Self::Error>> + Send;

    /// Its own reports: a pass waits until the watch has told of them.
    fn own_writes(&self) -> &OwnWrites;
}

/// Bounds of a controller.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Objects worked on at the same time.
    pub concurrency: u16,
    /// How long events about one object are gathered before it is worked on.
    pub debounce: Duration,
    /// The longest a pass may take.
    pub deadline: Duration,
    /// Patience after failures.
    pub backoff: Backoff,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            concurrency: 8,
            debounce: Duration::from_millis(20),
            deadline: Duration::from_mins(1),
            backoff: Backoff::default(),
        }
    }
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
enum PassError<E: Classify> {
    #[error("the pass took longer than {0:?}")]
    Deadline(Duration),
    #[error(transparent)]
    Failed(E),
}

impl<E: Classify> PassError<E> {
    fn category(&self) -> Category {
        match self {
            Self::Deadline(_) => Category::Unavailable,
            Self::Failed(error) => error.category(),
        }
    }
}

/// Passes that failed in a row, for each object that is in trouble.
type Failures<K> = Mutex<HashMap<ObjectRef<K>, u32>>;

struct Context<R: Reconciler> {
    reconciler: R,
    bounds: Bounds,
    metrics: ReconcileMetrics,
    failures: Failures<R::Object>,
    urgency: Urgency,
}

/// Runs until `shutdown` is cancelled and the passes under way have ended.
///
/// `feed` is the watch of the kind itself; `triggers` names further objects to look at.
pub async fn run<R: Reconciler>(
    reconciler: R,
    feed: &Feed<R::Object>,
    triggers: impl Stream<Item = ObjectRef<R::Object>> + Send + 'static,
    bounds: Bounds,
    metrics: ReconcileMetrics,
    shutdown: CancellationToken,
) {
    let context = Arc::new(Context {
        reconciler,
        bounds,
        metrics,
        failures: Mutex::default(),
        urgency: Urgency::default(),
    });
    let noted = Arc::clone(&context);
    let present = feed.subscribe().filter_map(move |change| {
        future::ready(match change {
            Change::Present(object) => {
                noted.urgency.seen(&*object);
                Some(object)
            }
            Change::Gone(object) => {
                noted.urgency.forget(&*object);
                noted.reconciler.own_writes().forget(&*object);
                None
            }
        })
    });
    let config = Config::default()
        .concurrency(bounds.concurrency)
        .debounce(bounds.debounce);
    let passes = Controller::for_shared_stream(present, feed.store())
        .reconcile_on(triggers)
        .with_config(config)
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(pass, after_failure, Arc::clone(&context));
    let mut passes = std::pin::pin!(passes);
    while let Some(result) = passes.next().await {
        match result {
            // A failure was logged where it happened, with what it was about.
            Ok(_) | Err(ControllerError::ReconcilerFailed(..)) => {}
            // Gone between the event and the pass: nothing to do, and nothing to remember.
            Err(ControllerError::ObjectNotFound(object)) => {
                lock(&context.failures).retain(|held, _| {
                    held.name != object.name || held.namespace != object.namespace
                });
            }
            Err(error) => {
                tracing::error!(
                    controller = R::NAME,
                    error = chain(&error),
                    "controller trouble"
                );
            }
        }
    }
}

async fn pass<R: Reconciler>(
    object: Arc<R::Object>,
    context: Arc<Context<R>>,
) -> Result<Action, PassError<R::Error>> {
    if context.reconciler.own_writes().is_behind(&*object) {
        return Ok(Action::requeue(own_writes::PATIENCE));
    }
    if let Some(wait) = context.urgency.wait(&*object) {
        return Ok(Action::requeue(spread(wait, chance())));
    }
    let span = tracing::info_span!(
        "reconcile",
        controller = R::NAME,
        object = full_name(&*object),
        generation = object.meta().generation,
    );
    let started = Instant::now();
    let key = ObjectRef::from_obj(&*object);
    let deadline = context.bounds.deadline;
    let work = context
        .reconciler
        .reconcile(object)
        .instrument(span.clone());
    let result = match timeout(deadline, work).await {
        Ok(result) => result.map_err(PassError::Failed),
        Err(_) => Err(PassError::Deadline(deadline)),
    };
    let outcome = result
        .as_ref()
        .map_or_else(|error| error.category().as_str(), |_| "Ok");
    context.metrics.count(R::NAME, outcome, started.elapsed());
    match result {
        Ok(wake) => {
            lock(&context.failures).remove(&key);
            Ok(action(wake))
        }
        Err(error) => {
            let _inside = span.enter();
            tracing::warn!(error = chain(&error), category = outcome, "a pass failed");
            Err(error)
        }
    }
}

fn action(wake: Wake) -> Action {
    match wake {
        Wake::OnChange => Action::await_change(),
        Wake::After(delay) => Action::requeue(spread(delay, chance())),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
fn after_failure<R: Reconciler>(
    object: Arc<R::Object>,
    error: &PassError<R::Error>,
    context: Arc<Context<R>>,
) -> Action {
    if !error.category().is_transient() {
        return Action::await_change();
    }
    let mut failures = lock(&context.failures);
    let count = failures.entry(ObjectRef::from_obj(&*object)).or_default();
    *count = count.saturating_add(1);
    Action::requeue(context.bounds.backoff.delay(*count, chance()))
}
