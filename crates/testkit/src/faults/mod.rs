//! A `kube::Client` on which things go wrong as planned.
//!
//! The faults sit between the controller and the complete client of kube, its retries included: what a plan injects
//! is what a controller sees after kube has given up, and a retry of kube never moves the k-th request. So a 429
//! reaches the controller even though kube would have tried again.

mod past;
mod plan;
mod request;
mod service;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use tokio::{sync::watch, time::Instant};

pub use self::{
    plan::{Fault, Plan, Refusal},
    request::Sent,
};
use crate::Server;

/// A client of the admin that follows a plan, and the handle to look at what it did.
///
/// ```no_run
/// # async fn example() {
/// use butler_testkit::{Server, faults::{self, Fault, Plan}};
/// let server = Server::shared().await;
/// let (client, handle) = faults::client(&server, Plan::at_write(1, Fault::LoseAnswer));
/// # drop((client, handle));
/// # }
/// ```
pub fn client(server: &Server, plan: Plan) -> (Client, Handle) {
    over(server.client(), plan)
}

/// Puts a plan over any client: one of another user, or with a user agent of its own.
pub fn over(client: Client, plan: Plan) -> (Client, Handle) {
    reporting(client, plan, Activity::default())
}

/// Tells how many writes were sent, over the lives of several clients.
pub(crate) type Activity = Arc<watch::Sender<usize>>;

/// Like [`over`], and adds its writes to those of others.
pub(crate) fn reporting(client: Client, plan: Plan, activity: Activity) -> (Client, Handle) {
    let namespace = client.default_namespace().to_owned();
    let state = State {
        plan,
        log: Vec::new(),
        past: None,
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        crashed: watch::Sender::new(false),
        activity,
    });
    let service = service::Faulty::new(client, Arc::clone(&shared));
    (Client::new(service, namespace), Handle { shared })
}

/// What a client with faults has done so far.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

/// One request in the log.
#[derive(Clone, Debug)]
pub struct Logged {
    /// What was sent.
    pub sent: Sent,
    /// What went wrong with it.
    pub fault: Option<Fault>,
}

impl Handle {
    /// Every request so far, in order.
    pub fn log(&self) -> Vec<Logged> {
        self.shared.lock().log.clone()
    }

    /// How many requests were made.
    pub fn requests(&self) -> usize {
        self.shared.lock().log.len()
    }

    /// How many of them were writes.
    pub fn writes(&self) -> usize {
        self.count(Sent::is_write)
    }

    /// How many of them match.
    pub fn count(&self, matches: impl Fn(&Sent) -> bool) -> usize {
        self.shared
            .lock()
            .log
            .iter()
            .filter(|logged| matches(&logged.sent))
            .count()
    }

    /// The request that something went wrong with first, if it was reached.
    pub fn hit(&self) -> Option<Logged> {
        self.shared
            .lock()
            .log
            .iter()
            .find(|logged| logged.fault.is_some())
            .cloned()
    }

    /// Resolves when a fault has ended the controller: whoever runs it must drop it then. No request of its client is
    /// answered any more.
    pub async fn crashed(&self) {
        let mut crashed = self.shared.crashed.subscribe();
        // The sender lives as long as this handle.
        let _ = crashed.wait_for(|crashed| *crashed).await;
    }
}

/// What the service and its handles share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    crashed: watch::Sender<bool>,
    activity: Activity,
}

#[derive(Debug)]
struct State {
    plan: Plan,
    log: Vec<Logged>,
    past: Option<Past>,
}

/// The moment the client is held in, and how long.
#[derive(Clone, Debug)]
struct Past {
    revision: String,
    until: Instant,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock, but a predicate of a test may.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The past the client is in just now.
    fn past(&self) -> Option<Past> {
        self.lock()
            .past
            .clone()
            .filter(|past| Instant::now() < past.until)
    }
}
