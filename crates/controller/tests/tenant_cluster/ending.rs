//! Deletions that would never end.

use butler_testkit::{PATIENCE, wait_for, wait_until_gone};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

use crate::{
    DEMO, clusters,
    driver::{self, Driver},
    patch, stage,
};

#[tokio::test]
async fn a_machine_that_never_goes_keeps_a_cluster_until_its_user_gives_up_and_is_named() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-f"))
        .await;
    let clusters = clusters(&server, "team-f");
    let demo = butler_testkit::wait_for_condition(&clusters, "demo", "Ready", "True").await;
    let home = demo.status.unwrap().tenant_namespace.unwrap();
    // Its provider was uninstalled: nobody takes this away.
    let held = json!({"metadata": {"finalizers": ["example.com/provider"]}});
    driver::patch(&server, &home, "Machine", "demo-workers-0", &held).await;

    let gone = clusters.delete("demo", &DeleteParams::default()).await;
    gone.unwrap();
    let wait = wait_for(&clusters, "demo", "what it waits for", PATIENCE, |demo| {
        let conditions = demo.status.iter().flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .any(|it| it.message.contains("demo-workers-0"))
    });
    wait.await;
    drop(driver);
    let force =
        json!({"metadata": {"annotations": {"butler.butlerlabs.dev/force-delete": "true"}}});
    patch(&clusters, force).await;
    wait_until_gone(&clusters, "demo").await;

    let events: Api<Event> = Api::namespaced(server.client(), "team-f");
    let events = events.list(&ListParams::default()).await.unwrap();
    let told = events
        .iter()
        .find(|event| event.reason.as_deref() == Some("DeletionForced"))
        .and_then(|event| event.note.clone());
    let told = told.expect("an event names what is left");
    assert!(
        told.contains("machine demo-workers-0") && told.contains(&home),
        "{told}"
    );
}
