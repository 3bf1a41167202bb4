//! A private API server with the controllers running under their real permissions.

#![allow(dead_code, reason = "each test file uses its part")]

use std::{fs, path::Path};

use butler_controller::{MANAGER, Surroundings, addon_engine};
use butler_runtime::{
    clock::{SharedClock, SystemClock},
    endpoints::Readiness,
    metrics::Metrics,
    task::{self, Task},
};
use butler_testkit::{Options, Server, User};
use kube::Client;
use tokio_util::sync::CancellationToken;

/// The user that the controllers are to the API server.
pub(crate) fn controller_user() -> User {
    User::service_account(butler_api::names::SYSTEM_NAMESPACE, MANAGER)
}

/// A server of its own with the generated permissions applied.
pub(crate) async fn server(options: Options) -> Server {
    let server = Server::start(options).await.expect("an API server starts");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rbac");
    for entry in fs::read_dir(folder).expect("the generated permissions") {
        let text = fs::read_to_string(entry.expect("a file").path()).expect("a readable file");
        server.apply_yaml(&text).await;
    }
    server
}

/// The controllers, until dropped.
pub(crate) fn run(client: Client) -> Task {
    task::spawn("controllers", work(client))
}

/// The controllers as a future.
pub(crate) async fn work(client: Client) {
    work_with(client, Metrics::default()).await;
}

/// The controllers with the real Helm, until dropped.
pub(crate) fn run_with_addons(client: Client, settings: addon_engine::Settings) -> Task {
    task::spawn("controllers", work_with_addons(client, settings))
}

/// The controllers with the real Helm as a future.
pub(crate) async fn work_with_addons(client: Client, settings: addon_engine::Settings) {
    let surroundings = Surroundings::new(
        SystemClock::shared(),
        Metrics::default(),
        Readiness::default(),
    );
    let surroundings = surroundings.with_addons(settings);
    butler_controller::run(client, surroundings, CancellationToken::new()).await;
}

/// The controllers as a future, with metrics that the test reads.
pub(crate) async fn work_with(client: Client, metrics: Metrics) {
    work_at(client, metrics, SystemClock::shared()).await;
}

/// The controllers as a future, by a clock that the test sets.
pub(crate) async fn work_at(client: Client, metrics: Metrics, clock: SharedClock) {
    let surroundings = Surroundings::new(clock, metrics, Readiness::default());
    butler_controller::run(client, surroundings, CancellationToken::new()).await;
}
