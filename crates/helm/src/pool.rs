//! A bounded pool of steps. A reconcile submits one and goes on; the end of it wakes the object.

use std::{
    collections::HashMap,
    future::Future,
    hash::Hash,
    sync::{Arc, Mutex},
};

use butler_addons::plan::{Failure, Job};
use butler_runtime::{
    clock::SharedClock,
    sync::{lock, received},
    task::{self, Task},
};
use futures::Stream;
use jiff::SignedDuration;
use tokio::sync::{
    Semaphore,
    mpsc::{UnboundedSender, unbounded_channel},
};

use crate::StepError;

/// Steps under way and their failures, by whom they are for.
pub struct Pool<K> {
    permits: Arc<Semaphore>,
    held: Arc<Mutex<HashMap<K, Held>>>,
    ended: UnboundedSender<K>,
    clock: SharedClock,
}

struct Held {
    /// Ends the step when dropped.
    running: Option<Task>,
    failed: Option<Failure>,
    failures: u32,
}

impl<K: Clone + Eq + Hash + Send + 'static> Pool<K> {
    /// A pool of so many steps at once, and a stream of those whose step ended.
    pub fn new(size: usize, clock: SharedClock) -> (Self, impl Stream<Item = K> + Send + use<K>) {
        let (ended, receiver) = unbounded_channel();
        let pool = Self {
            permits: Arc::new(Semaphore::new(size)),
            held: Arc::default(),
            ended,
            clock,
        };
        (pool, received(receiver))
    }

    /// What is known about somebody's last step.
    pub fn job(&self, key: &K) -> Job {
        match lock(&self.held).get(key) {
            None => Job::Idle,
            Some(held) if held.running.is_some() => Job::Running,
            Some(held) => held.failed.clone().map_or(Job::Idle, Job::Failed),
        }
    }

    /// Starts a step unless one is under way; `request` is what it is about.
    pub fn submit(
        &self,
        key: K,
        request: Option<String>,
        work: impl Future<Output = Result<(), StepError>> + Send + 'static,
    ) {
        let mut held = lock(&self.held);
        let entry = held.entry(key.clone()).or_insert(Held {
            running: None,
            failed: None,
            failures: 0,
        });
        if entry.running.is_some() {
            return;
        }
        let (permits, shared) = (Arc::clone(&self.permits), Arc::clone(&self.held));
        let (ended, clock) = (self.ended.clone(), Arc::clone(&self.clock));
        entry.running = Some(task::spawn("helm", async move {
            let result = match permits.acquire().await {
                Ok(_permit) => work.await,
                // The pool is never closed; a step that does not run does not count.
                Err(_) => return,
            };
            end(&shared, &key, result, request, &clock);
            // Nobody listens any more when the controllers are ending.
            let _ = ended.send(key);
        }));
    }

    /// Forgets somebody who is gone.
    pub fn forget(&self, key: &K) {
        lock(&self.held).remove(key);
    }
}

fn end<K: Eq + Hash>(
    held: &Mutex<HashMap<K, Held>>,
    key: &K,
    result: Result<(), StepError>,
    request: Option<String>,
    clock: &SharedClock,
) {
    let mut held = lock(held);
    let Some(entry) = held.get_mut(key) else {
        return;
    };
    entry.running = None;
    match result {
        Ok(()) => drop(held.remove(key)),
        Err(error) => {
            entry.failures = entry.failures.saturating_add(1);
            let wait = error.class.patience(entry.failures);
            let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
            entry.failed = Some(Failure {
                class: error.class,
                message: error.message,
                retry_at: clock.now() + wait,
                request,
            });
        }
    }
}
