//! Runs one reconciler over one kind: bounded concurrency, patience for each object, a deadline, metrics.

use std::{
    collections::HashMap,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    Stream, StreamExt, future,
    stream::{self, FuturesUnordered},
};
use kube::{Resource, runtime::reflector::ObjectRef};
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    apply::full_name,
    backoff::{Backoff, spread},
    chance::chance,
    error::{Category, Classify, chain},
    metrics::ReconcileMetrics,
    own_writes::{self, OwnWrites},
    pressure,
    queue::{Claim, Queue},
    task,
    watch::{Change, Feed, Watchable},
};

/// After so many passes that left their report to the next one, somebody wants to know.
const PUT_OFF_IN_A_ROW: u32 = 3;

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

/// What is remembered of an object between its passes.
#[derive(Default)]
struct Memory {
    /// The generation of the spec that the last pass saw.
    generation: Option<i64>,
    /// Passes that failed in a row.
    failures: u32,
    /// Passes in a row that left their report to the next one.
    put_off: u32,
}

impl Memory {
    fn may_put_off(&self) -> bool {
        self.put_off < PUT_OFF_IN_A_ROW
    }
}

/// How a pass ended.
enum End {
    /// When to look again, if not only after a change.
    Well(Option<Duration>),
    /// It left its report to the next pass.
    Unsaid(Duration),
    /// It failed, and is worth another try or not.
    Badly { again: bool },
    /// The object went meanwhile.
    Gone,
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
    if shutdown.run_until_cancelled(feed.ready()).await.is_none() {
        return;
    }
    let reconciler = Arc::new(reconciler);
    let mut changes = std::pin::pin!(feed.subscribe());
    // Who has no triggers has none for ever, which is not the end.
    let mut triggers = std::pin::pin!(triggers.chain(stream::pending()));
    let mut queue = Queue::default();
    let mut memories: HashMap<ObjectRef<R::Object>, Memory> = HashMap::new();
    let mut passes = FuturesUnordered::new();
    let places = usize::from(bounds.concurrency);
    loop {
        while let Some(key) = queue.take(Instant::now(), places) {
            let object = feed.store().get(&key);
            let mut is_crowded = queue.waiting() > places;
            if let Some(object) = &object {
                let memory = memories.entry(key.clone()).or_default();
                memory.generation = object.meta().generation;
                is_crowded &= memory.may_put_off();
            }
            let pass = pass(
                Arc::clone(&reconciler),
                object,
                bounds,
                is_crowded,
                metrics.clone(),
            );
            let pass = task::spawn(R::NAME, pass);
            passes.push(async move { (key, pass.join().await) });
        }
        let due = queue.next_due();
        let room = passes.len() < places;
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some((key, end)) = passes.next() => {
                // A pass that panicked was logged by its task.
                let end = end.unwrap_or(End::Badly { again: true });
                let next = next(&mut memories, &key, &end, bounds.backoff);
                queue.done(&key, next.map(|delay| Instant::now() + delay));
            }
            Some(change) = changes.next() => match change {
                Change::Present(object) => {
                    let key = ObjectRef::from_obj(&*object);
                    let claim = claim(memories.get(&key), object.meta().generation);
                    queue.ask(key, Instant::now() + bounds.debounce, claim);
                }
                Change::Gone(object) => {
                    reconciler.own_writes().forget(&*object);
                    memories.remove(&ObjectRef::from_obj(&*object));
                }
            },
            Some(key) = triggers.next() => {
                queue.ask(key, Instant::now() + bounds.debounce, Claim::Again);
            }
            () = until(due), if room => {}
        }
    }
    while passes.next().await.is_some() {}
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due.into()).await,
        None => future::pending().await,
    }
}

/// A spec that no pass has seen is fresh.
fn claim(memory: Option<&Memory>, generation: Option<i64>) -> Claim {
    match memory {
        Some(memory) if memory.generation == generation => Claim::Again,
        _ => Claim::Fresh,
    }
}

/// How long to wait before the next pass after one that ended so; `None` waits for a change.
fn next<K: Watchable>(
    memories: &mut HashMap<ObjectRef<K>, Memory>,
    key: &ObjectRef<K>,
    end: &End,
    backoff: Backoff,
) -> Option<Duration> {
    let memory = memories.get_mut(key);
    match end {
        End::Well(next) => {
            if let Some(memory) = memory {
                (memory.failures, memory.put_off) = (0, 0);
            }
            *next
        }
        End::Unsaid(next) => {
            if let Some(memory) = memory {
                memory.failures = 0;
                memory.put_off += 1;
            }
            Some(*next)
        }
        End::Badly { again: false } => None,
        End::Badly { again: true } => {
            let memory = memory?;
            memory.failures = memory.failures.saturating_add(1);
            Some(backoff.delay(memory.failures, chance()))
        }
        End::Gone => {
            memories.remove(key);
            None
        }
    }
}

async fn pass<R: Reconciler>(
    reconciler: Arc<R>,
    object: Option<Arc<R::Object>>,
    bounds: Bounds,
    is_crowded: bool,
    metrics: ReconcileMetrics,
) -> End {
    let Some(object) = object else {
        return End::Gone;
    };
    if reconciler.own_writes().is_behind(&*object) {
        return End::Well(Some(own_writes::PATIENCE));
    }
    let span = tracing::info_span!(
        "reconcile",
        controller = R::NAME,
        object = full_name(&*object),
        generation = object.meta().generation,
    );
    let started = Instant::now();
    let work = reconciler.reconcile(object).instrument(span.clone());
    let (result, has_put_off) = pressure::run(is_crowded, timeout(bounds.deadline, work)).await;
    let result = match result {
        Ok(result) => result.map_err(PassError::Failed),
        Err(_) => Err(PassError::Deadline(bounds.deadline)),
    };
    let outcome = result
        .as_ref()
        .map_or_else(|error| error.category().as_str(), |_| "Ok");
    metrics.count(R::NAME, outcome, started.elapsed());
    match result {
        Ok(_) if has_put_off => End::Unsaid(bounds.debounce),
        Ok(Wake::OnChange) => End::Well(None),
        Ok(Wake::After(delay)) => End::Well(Some(spread(delay, chance()))),
        Err(error) => {
            let _inside = span.enter();
            tracing::warn!(error = chain(&error), category = outcome, "a pass failed");
            End::Badly {
                again: error.category().is_transient(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn what_was_left_unsaid_three_times_is_said_the_next_time_and_may_wait_again_after_that() {
        let key = ObjectRef::<ConfigMap>::new("a").within("b");
        let mut memories = HashMap::from([(key.clone(), Memory::default())]);
        let soon = Duration::from_millis(20);
        let mut ended = |end: &End| {
            let next = next(&mut memories, &key, end, Backoff::default());
            let may_put_off = memories.get(&key).is_some_and(Memory::may_put_off);
            (next, may_put_off)
        };
        assert_eq!(ended(&End::Unsaid(soon)), (Some(soon), true));
        assert_eq!(ended(&End::Unsaid(soon)), (Some(soon), true));
        assert_eq!(ended(&End::Unsaid(soon)), (Some(soon), false));
        assert_eq!(ended(&End::Well(None)), (None, true));
    }
}
