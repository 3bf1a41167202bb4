//! Pausing, and answers for programs.

use serde_json::{Value, json};

use crate::program::{Desk, ready};

#[tokio::test]
async fn a_cluster_is_paused_and_resumed() {
    let desk = Desk::with(json!({})).await;
    desk.report(ready(Some(1), "v1.34.4", 3)).await;
    let not = desk.cluster_command(&["resume", "my-cluster"]).await.good();
    assert!(not.contains("is not paused"), "{not}");
    let said = desk.cluster_command(&["pause", "my-cluster"]).await.good();
    assert!(said.contains("what runs goes on running"), "{said}");
    assert!(desk.cluster().await.spec.paused);
    let again = desk.cluster_command(&["pause", "my-cluster"]).await.good();
    assert!(again.contains("already"), "{again}");
    let text = desk.cluster_command(&["get", "my-cluster"]).await.good();
    assert!(text.contains("Paused:           yes"), "{text}");
    let waits = ["scale", "my-cluster", "-w", "4", "--wait"];
    desk.report(ready(Some(3), "v1.34.4", 3)).await;
    let waits = desk.cluster_command(&waits).await;
    // What it saw on the way comes first.
    assert!(
        waits.code == 6 && waits.err.contains("`butlerctl cluster resume`"),
        "{waits:#?}"
    );
    desk.cluster_command(&["resume", "my-cluster"]).await.good();
    assert!(!desk.cluster().await.spec.paused);
    desk.cluster_command(&["pause", "my-cluster"]).await.good();
    assert!(desk.cluster().await.spec.paused, "it can be paused again");
}

#[tokio::test]
async fn a_change_is_answered_with_the_cluster_for_programs() {
    let desk = Desk::new().await;
    let read = |text: String| -> Value { serde_saphyr::from_str(&text).unwrap() };
    let made = ["create", "my-cluster", "--version", "v1.34.4", "-o", "json"];
    let made = desk.cluster_command(&made).await.good();
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["kind"], "TenantCluster");
    assert_eq!(made["metadata"]["name"], "my-cluster");
    assert!(made["metadata"]["managedFields"].is_null());
    let scaled = ["scale", "my-cluster", "-w", "4", "-o", "yaml"];
    let scaled = read(desk.cluster_command(&scaled).await.good());
    assert_eq!(scaled["spec"]["workers"]["replicas"], 4);
    let to = ["upgrade", "my-cluster", "--to", "v1.35.4", "-o", "yaml"];
    let to = read(desk.cluster_command(&to).await.good());
    assert_eq!(to["spec"]["kubernetesVersion"], "v1.35.4");
}

#[tokio::test]
async fn a_removal_may_be_waited_for_by_name() {
    let desk = Desk::with(json!({})).await;
    let both = ["destroy", "my-cluster", "--yes", "--wait", "--no-wait"];
    assert_eq!(desk.cluster_command(&both).await.code, 2);
    let gone = ["destroy", "my-cluster", "--yes", "--wait"];
    let gone = desk.cluster_command(&gone).await.good();
    assert!(gone.contains("is gone"), "{gone}");
}
