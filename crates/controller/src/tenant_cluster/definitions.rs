//! Whether the definitions are there that clusters are made of. Without them nothing can be known about clusters, and
//! nothing is decided; who waits for it is told what is missing, and goes on once it is there.

use std::{sync::Arc, time::Duration};

use butler_capi::core::{BOOTSTRAP, CONTROL_PLANE, GROUP};
use butler_runtime::{
    error::is_not_found,
    task::{self, Task},
};
use futures::{Stream, stream};
use kube::Client;
use tokio::{sync::watch, time::timeout};

use super::live::Children;

/// How long a start waits before anybody is told that something is missing.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is asked what is still missing.
const PAUSE: Duration = Duration::from_secs(5);

/// What is needed, by group and version.
const NEEDED: [(&str, &str, &[&str]); 3] = [
    (
        GROUP,
        "v1beta2",
        &[
            "clusters",
            "machinedeployments",
            "machinehealthchecks",
            "machines",
        ],
    ),
    (BOOTSTRAP, "v1beta2", &["kubeadmconfigtemplates"]),
    (CONTROL_PLANE, "v1alpha1", &["stewardcontrolplanes"]),
];

/// How far the watches are over what clusters are made of.
#[derive(Clone, PartialEq)]
enum State {
    Starting,
    /// With what to tell.
    Missing(String),
    Known,
}

/// What is missing, as it was last seen.
pub(super) struct Definitions {
    seen: watch::Receiver<State>,
    _task: Task,
}

impl Definitions {
    pub(super) fn look(client: &Client, children: &Arc<Children>) -> Self {
        let (tell, seen) = watch::channel(State::Starting);
        let work = follow(client.clone(), Arc::clone(children), tell);
        Self {
            seen,
            _task: task::spawn("definitions of Cluster API", work),
        }
    }

    /// Waits until everything is known, or it is known what is missing.
    pub(super) async fn settled(&self) {
        let mut seen = self.seen.clone();
        // It ends only after it said that everything is known.
        let _ = seen.wait_for(|state| *state != State::Starting).await;
    }

    /// What is missing, and what to do about it.
    pub(super) fn missing(&self) -> Option<String> {
        match &*self.seen.borrow() {
            State::Known => None,
            State::Missing(what) => Some(what.clone()),
            State::Starting => Some(unknown()),
        }
    }

    /// An item whenever that is something else.
    pub(super) fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        stream::unfold(self.seen.clone(), |mut seen| async move {
            seen.changed().await.ok()?;
            Some(((), seen))
        })
    }
}

async fn follow(client: Client, children: Arc<Children>, tell: watch::Sender<State>) {
    let mut patience = PATIENCE;
    while timeout(patience, children.ready()).await.is_err() {
        let next = State::Missing(missing(&client).await);
        tell.send_if_modified(|state| {
            let is_news = *state != next;
            *state = next;
            is_news
        });
        patience = PAUSE;
    }
    tell.send_replace(State::Known);
}

/// What the API server does not serve, in a sentence.
async fn missing(client: &Client) -> String {
    let mut missing = Vec::new();
    for (group, version, plurals) in NEEDED {
        let served = match client
            .list_api_group_resources(&format!("{group}/{version}"))
            .await
        {
            Ok(served) => served.resources,
            Err(error) if is_not_found(&error) => Vec::new(),
            Err(error) => {
                tracing::warn!(group, %error, "could not ask which definitions there are");
                return unknown();
            }
        };
        let is_served = |plural: &str| served.iter().any(|it| it.name == plural);
        let absent = plurals.iter().filter(|plural| !is_served(plural));
        missing.extend(absent.map(|plural| format!("{plural}.{group} ({version})")));
    }
    if missing.is_empty() {
        return unknown();
    }
    tracing::warn!(missing = missing.join(", "), "Cluster API is not installed");
    format!(
        "Cluster API is not installed: the API server has no definition of {}; install Cluster API and Butler's definitions, and it goes on by itself",
        missing.join(", ")
    )
}

fn unknown() -> String {
    "what clusters are made of is not known yet: the API server has not answered all watches"
        .to_owned()
}
