//! Hosted control planes for `cargo xtask up`: an etcd for tenants, pods that really run, and Steward.

use std::time::Duration;

use anyhow::{Context, Result};
use butler_api::steward::TenantControlPlane;
use butler_runtime::{
    clock::SystemClock,
    conditions,
    endpoints::Readiness,
    metrics::Metrics,
    task::{self, Task},
};
use butler_steward::{Reach, Settings, Surroundings, rbac};
use butler_testkit::{PodOptions, Pods, Server, User, etcd::TlsEtcd};
use kube::Api;
use tokio_util::sync::CancellationToken;

/// How long the example may take: three components start from nothing.
const PATIENCE: Duration = Duration::from_mins(2);

/// What runs; dropping it ends it.
pub(super) struct Hosting {
    steward: Task,
    _pods: Pods,
    _etcd: TlsEtcd,
}

impl Hosting {
    /// Waits until Steward has ended in order.
    pub(super) async fn end(self) {
        self.steward.join().await;
    }
}

/// Starts everything and the example, and waits until it serves. `None` where pods cannot be run.
pub(super) async fn start(
    server: &Server,
    stop: &CancellationToken,
    metrics: &Metrics,
) -> Result<Option<Hosting>> {
    println!("==> Steward: an etcd for tenants, pods, a hosted control plane");
    let etcd = TlsEtcd::start()
        .await
        .context("could not start an etcd for tenants")?;
    let pods = match Pods::start(server, PodOptions::default().reach(etcd.port())).await {
        Ok(pods) => pods,
        Err(error) => {
            println!("    left out: {error}");
            return Ok(None);
        }
    };
    server
        .try_apply_yaml(&etcd.data_store("default").to_string())
        .await?;
    let settings = Settings {
        default_store: "default".to_owned(),
        management_domain: "cluster.local".to_owned(),
        reach: Reach::Endpoint,
    };
    let surroundings = Surroundings::new(
        SystemClock::shared(),
        metrics,
        Readiness::default(),
        settings,
    );
    let user = User::service_account(rbac::NAMESPACE, rbac::ACCOUNT);
    let work = butler_steward::run(server.client_for(&user), surroundings, stop.clone());
    let steward = task::spawn("steward", work);
    super::apply(server, "examples/control-plane").await?;
    let planes: Api<TenantControlPlane> = Api::namespaced(server.client(), "team-a");
    let is_ready = |plane: Option<&TenantControlPlane>| {
        let status = plane.and_then(|plane| plane.status.as_ref());
        status.is_some_and(|status| conditions::is_true(&status.conditions, "Ready"))
    };
    Box::pin(super::until(planes, "hosted", stop, PATIENCE, is_ready)).await?;
    Ok(Some(Hosting {
        steward,
        _pods: pods,
        _etcd: etcd,
    }))
}
