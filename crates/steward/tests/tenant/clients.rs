//! Clients of tenants: their answers never fill our memory.

use std::fs;

use butler_runtime::error::chain;
use butler_steward::tenant::{client::connect, plan, sync::sync};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::stage::{LIMITS, server, settings};

#[tokio::test]
async fn a_tenant_cannot_fill_our_memory_with_objects_that_look_like_ours() {
    let server = server().await;
    let settings = settings(&server);
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "kube-system");
    for number in 0..10 {
        let large = json!({
            "metadata": { "name": format!("large-{number}"), "labels": { "steward.butlerlabs.dev/project": "steward" } },
            "data": { "blob": "x".repeat(1_000_000) },
        });
        maps.create(
            &PostParams::default(),
            &serde_json::from_value(large).unwrap(),
        )
        .await
        .unwrap();
    }
    let kubeconfig = fs::read(server.kubeconfig()).unwrap();
    let client = connect(&kubeconfig).await.unwrap();
    let error = sync(&client, &plan(&settings).unwrap(), LIMITS)
        .await
        .unwrap_err();
    assert!(
        chain(&error).contains("list ConfigMap \"kube-system\""),
        "{}",
        chain(&error)
    );
    assert!(
        chain(&error).contains("length limit exceeded"),
        "{}",
        chain(&error)
    );
}
