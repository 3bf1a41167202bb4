//! A lease guards work: on a real API server, with two replicas.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use butler_runtime::{
    clock::SystemClock,
    lease::{self, Settings},
    task::{self, Task},
};
use butler_testkit::{Namespace, Server, wait_for};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(20);

/// Work that tells when it starts and when it is dropped, and counts how many of it run at once.
struct Work {
    who: &'static str,
    tell: UnboundedSender<String>,
    running: Arc<AtomicUsize>,
}

impl Work {
    fn start(
        who: &'static str,
        tell: &UnboundedSender<String>,
        running: &Arc<AtomicUsize>,
    ) -> Self {
        assert_eq!(
            running.fetch_add(1, Ordering::SeqCst),
            0,
            "two replicas work at once"
        );
        let _ = tell.send(format!("{who} works"));
        Self {
            who,
            tell: tell.clone(),
            running: Arc::clone(running),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
        let _ = self.tell.send(format!("{} stops", self.who));
    }
}

struct Stage {
    home: Namespace,
    tell: UnboundedSender<String>,
    heard: UnboundedReceiver<String>,
    running: Arc<AtomicUsize>,
}

impl Stage {
    async fn new() -> Self {
        let home = Server::shared().await.namespace("lease").await;
        let (tell, heard) = unbounded_channel();
        Self {
            home,
            tell,
            heard,
            running: Arc::default(),
        }
    }

    fn replica(&self, who: &'static str, stop: &CancellationToken) -> Task {
        let settings = Settings {
            duration: Duration::from_secs(3),
            renew_every: Duration::from_millis(300),
            ..Settings::new(&self.home, "work", who)
        };
        let (tell, running, stop) = (self.tell.clone(), Arc::clone(&self.running), stop.clone());
        let client = self.home.server().client();
        task::spawn(who, async move {
            lease::guard(client, &settings, SystemClock::shared(), &stop, || async {
                let _work = Work::start(who, &tell, &running);
                stop.cancelled().await;
            })
            .await;
        })
    }

    async fn hears(&mut self, expected: &str) {
        let heard = tokio::time::timeout(PATIENCE, self.heard.recv()).await;
        let heard = heard.unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {expected:?}"));
        assert_eq!(heard.as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn one_replica_works_and_the_next_starts_at_once_when_it_ends_in_order() {
    let mut stage = Stage::new().await;
    let (stop_a, stop_b) = (CancellationToken::new(), CancellationToken::new());
    let a = stage.replica("a", &stop_a);
    stage.hears("a works").await;
    let _b = stage.replica("b", &stop_b);
    stop_a.cancel();
    stage.hears("a stops").await;
    a.join().await;
    stage.hears("b works").await;
}

#[tokio::test]
async fn a_replica_that_dies_silently_is_replaced_after_its_time() {
    let mut stage = Stage::new().await;
    let stop = CancellationToken::new();
    let a = stage.replica("a", &stop);
    stage.hears("a works").await;
    let _b = stage.replica("b", &stop);
    // Dropped like a killed process: nothing is given back.
    drop(a);
    stage.hears("a stops").await;
    stage.hears("b works").await;
}

#[tokio::test]
async fn a_replica_whose_lease_is_taken_drops_its_work() {
    let mut stage = Stage::new().await;
    let stop = CancellationToken::new();
    let _a = stage.replica("a", &stop);
    stage.hears("a works").await;
    let api = stage.home.api::<Lease>();
    let stolen = serde_json::json!({"spec": {"holderIdentity": "thief"}});
    api.patch("work", &PatchParams::default(), &Patch::Merge(&stolen))
        .await
        .unwrap();
    stage.hears("a stops").await;
    // The thief never renews, so the lease comes back.
    stage.hears("a works").await;
    let back = wait_for(
        &api,
        "work",
        "the lease to be a's again",
        PATIENCE,
        |lease| {
            lease
                .spec
                .as_ref()
                .and_then(|spec| spec.holder_identity.as_deref())
                == Some("a")
        },
    )
    .await;
    assert_eq!(back.spec.unwrap().lease_transitions, Some(1));
}
