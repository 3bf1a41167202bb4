//! Clients of tenants: made anew when their kubeconfig changes, gone when unused, and never filled up.

use std::{fs, time::Duration};

use butler_runtime::error::chain;
use butler_steward::tenant::{
    client::{ClientSettings, TenantClients},
    plan,
    sync::sync,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::stage::{LIMITS, look, server, settings};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[tokio::test]
async fn a_renewed_kubeconfig_makes_another_client_and_an_unused_one_goes() {
    let server = server().await;
    let settings = settings(&server);
    let kubeconfig = fs::read_to_string(server.kubeconfig()).unwrap();
    let clients = TenantClients::new(ClientSettings {
        keep: Duration::from_mins(1),
        ..ClientSettings::default()
    });

    let client = clients
        .client("a", kubeconfig.as_bytes(), at(0))
        .await
        .unwrap();
    look(&client, &settings).await;
    let client = clients
        .client("a", kubeconfig.as_bytes(), at(50))
        .await
        .unwrap();
    assert!(!look(&client, &settings).await.has_changed());

    // Another content under the same name, as after a renewal: the old client must not answer for it.
    let elsewhere = kubeconfig.replace(
        &server.url().trim_end_matches('/').to_owned(),
        "https://127.0.0.1:1",
    );
    assert_ne!(elsewhere, kubeconfig);
    let client = clients
        .client("a", elsewhere.as_bytes(), at(60))
        .await
        .unwrap();
    let error = sync(&client, &plan(&settings).unwrap(), LIMITS)
        .await
        .unwrap_err();
    assert!(error.is_outage(), "{}", chain(&error));

    clients
        .client("b", kubeconfig.as_bytes(), at(90))
        .await
        .unwrap();
    assert_eq!(clients.drop_unused(at(119)), 2);
    assert_eq!(clients.drop_unused(at(120)), 1);
    clients.forget("b");
    assert_eq!(clients.drop_unused(at(120)), 0);
}

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
    let clients = TenantClients::new(ClientSettings::default());
    let kubeconfig = fs::read(server.kubeconfig()).unwrap();
    let client = clients.client("a", &kubeconfig, at(0)).await.unwrap();
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
