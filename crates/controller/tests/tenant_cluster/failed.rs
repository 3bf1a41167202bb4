//! What waiting does not make better: a cluster that never worked is `Failed` until its user does something.

use butler_api::butler::{TenantCluster, tenant_cluster::Phase};
use butler_testkit::{Options, PATIENCE, Server, wait_for};
use futures::StreamExt as _;
use kube::{Api, ResourceExt as _, runtime::watcher};
use serde_json::{Value, json};

use crate::{
    DEMO, clusters,
    driver::Driver,
    join::{install, install_with},
    patch,
    sources::{NUTANIX, set_password},
    stage,
};

/// A provider whose machines have two processors at the most, which only its schema knows.
async fn scene() -> Server {
    let server = stage::server(Options::default().with_controller_manager()).await;
    server.apply_yaml(NUTANIX).await;
    set_password(&server, "sesame").await;
    let with = |name: &str, inner: Value| {
        json!({
            "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {name: inner},
        })
    };
    let sockets = with("vcpuSockets", json!({"type": "integer", "maximum": 2}));
    let strict = with("spec", with("template", with("spec", sockets)));
    install(&server, "NutanixCluster").await;
    install_with(&server, "NutanixMachineTemplate", &strict).await;
    server
}

fn phase(demo: &TenantCluster) -> Option<Phase> {
    demo.status.as_ref().and_then(|status| status.phase)
}

/// The phases that are reported after a change, until `done`.
async fn phases(
    clusters: &Api<TenantCluster>,
    change: Value,
    done: impl Fn(&TenantCluster) -> bool,
) -> Vec<Phase> {
    let mut heard = Vec::new();
    let mut seen = Box::pin(watcher::watch_object(clusters.clone(), "demo"));
    let follow = async {
        let mut change = Some(change);
        while let Some(seen) = seen.next().await {
            let Ok(Some(demo)) = seen else { continue };
            if let Some(change) = change.take() {
                patch(clusters, change).await;
                continue;
            }
            heard.extend(phase(&demo));
            if heard.contains(&Phase::Pending) && done(&demo) {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(PATIENCE, follow).await;
    assert!(waited.is_ok(), "waited {PATIENCE:?}, heard {heard:?}");
    heard.dedup();
    heard
}

#[tokio::test]
async fn an_object_that_is_refused_fails_a_new_cluster_until_it_is_retried_or_changed() {
    let server = scene().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-f"))
        .await;
    let clusters = clusters(&server, "team-f");
    let demo = wait_for(&clusters, "demo", "its failure", PATIENCE, |demo| {
        phase(demo) == Some(Phase::Failed)
    });
    let conditions = demo.await.status.unwrap().conditions;
    let ready = conditions.iter().find(|it| it.type_ == "Ready").unwrap();
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_str()),
        ("False", "Invalid")
    );
    assert!(ready.message.contains("vcpuSockets"), "{}", ready.message);

    // It is tried again once, and the wish is gone.
    let again = json!({"metadata": {"annotations": {"butler.butlerlabs.dev/retry": "true"}}});
    let heard = phases(&clusters, again, |demo| {
        phase(demo) == Some(Phase::Failed) && demo.annotations().is_empty()
    });
    assert_eq!(heard.await, [Phase::Failed, Phase::Pending, Phase::Failed]);

    let smaller = json!({"spec": {"workers": {"machineTemplate": {"cpu": 2}}}});
    let heard = phases(&clusters, smaller, |demo| {
        matches!(phase(demo), Some(Phase::Provisioning | Phase::Installing))
    });
    assert_eq!(heard.await[..2], [Phase::Failed, Phase::Pending]);
}
