//! Everything that a cluster says of itself on its way, as somebody who watches it hears it.

use butler_api::butler::{TenantCluster, tenant_cluster::Phase};
use butler_runtime::conditions;
use butler_testkit::PATIENCE;
use futures::StreamExt as _;
use kube::{Api, runtime::watcher};
use serde_json::{Value, json};

use crate::{DEMO, clusters, driver::Driver, patch, stage};

/// What was said, one report after the other, until a phase was reached again.
async fn reports(clusters: &Api<TenantCluster>, change: Value) -> Vec<TenantCluster> {
    let mut heard = Vec::new();
    let mut changes = Box::pin(watcher::watch_object(clusters.clone(), "demo"));
    let follow = async {
        let (mut change, mut has_left) = (Some(change), false);
        while let Some(seen) = changes.next().await {
            let Ok(Some(demo)) = seen else { continue };
            // Only what is said after the change counts, and nothing in between is missed.
            if let Some(change) = change.take() {
                patch(clusters, change).await;
                continue;
            }
            let phase = demo.status.as_ref().and_then(|status| status.phase);
            let is_about_it = demo.status.as_ref().is_some_and(|status| {
                status.observed_generation == demo.metadata.generation
                    && demo.metadata.generation > Some(1)
            });
            if !is_about_it {
                continue;
            }
            heard.push(demo);
            has_left |= phase == Some(Phase::Updating);
            if has_left && phase == Some(Phase::Ready) {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(PATIENCE, follow).await;
    assert!(
        waited.is_ok(),
        "waited {PATIENCE:?} for Updating and Ready, heard {:?}",
        heard.last().map(|demo| &demo.status)
    );
    heard
}

/// A cluster that says it is ready has its workers.
fn check(heard: &[TenantCluster]) {
    for demo in heard {
        let status = demo.status.as_ref().unwrap();
        let lacks = status.worker_nodes_ready < status.worker_nodes_desired;
        let has_workers = conditions::is_true(&status.conditions, "WorkersReady");
        let is_ready = status.phase == Some(Phase::Ready);
        assert!(!(is_ready && lacks), "Ready without workers: {status:?}");
        assert!(!(has_workers && lacks), "workers that are not: {status:?}");
        let no_workers_yet = status.worker_nodes_ready == Some(0) && lacks;
        let addons = conditions::is_true(&status.conditions, "AddonsReady");
        assert!(!(addons && no_workers_yet), "addons nowhere: {status:?}");
    }
}

#[tokio::test]
async fn a_cluster_that_scales_sleeps_or_wakes_never_says_ready_without_its_workers() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-p"))
        .await;
    let clusters = clusters(&server, "team-p");
    butler_testkit::wait_for_condition(&clusters, "demo", "Ready", "True").await;
    let changes = [
        json!({"spec": {"workers": {"replicas": 4}}}),
        json!({"spec": {"workers": {"replicas": 1}}}),
        json!({"spec": {"hibernation": {"enabled": true}}}),
        json!({"spec": {"hibernation": {"enabled": false}}}),
    ];
    for change in changes {
        let heard = reports(&clusters, change.clone()).await;
        assert!(heard.len() > 1, "{change}");
        check(&heard);
    }
}
