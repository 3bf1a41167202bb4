//! A store of several members, some of which are lost.

use butler_testkit::{PATIENCE, etcd::TlsEtcd, wait_for};
use k8s_openapi::api::apps::v1::Deployment;

use crate::stage::{self, FAST};

#[tokio::test]
async fn one_of_three_members_may_be_lost_and_tenants_come_and_go() {
    let (server, etcd) = tokio::join!(stage::server(), TlsEtcd::start_three());
    let mut etcd = etcd.unwrap();
    let home = server.namespace("tenants").await;
    let (_steward, metrics) = stage::steward(&server, FAST);
    server
        .apply_yaml(&etcd.data_store("main").to_string())
        .await;
    let ready = stage::store_is(&server, "main", "Ready", "True", "Ready").await;
    assert_eq!(ready.message, "3 of 3 members answer");
    home.apply_yaml(&stage::control_plane("blue", "main")).await;
    let deployments = home.api::<Deployment>();
    let pods = wait_for(&deployments, "blue", "its pods", PATIENCE, |_| true).await;
    let servers: Vec<String> = etcd
        .endpoints()
        .iter()
        .map(|endpoint| format!("https://{endpoint}"))
        .collect();
    let flag = format!("--etcd-servers={}", servers.join(","));
    let pods = serde_json::to_string(&pods).unwrap();
    assert!(pods.contains(&flag), "{flag} is missing in {pods}");

    // The first is the one that everybody talks to.
    etcd.stop(0).await.unwrap();
    let degraded = stage::store_is(&server, "main", "Ready", "True", "Degraded").await;
    let lost = &etcd.endpoints()[0];
    assert_eq!(
        degraded.message,
        format!("2 of 3 members answer: {lost} does not (Unreachable)")
    );
    home.apply_yaml(&stage::control_plane("green", "main"))
        .await;
    stage::plane_is(&home, "green", "StoreReady", "True", "Ready").await;
    server
        .kubectl(&["delete", "tcp", "blue", "-n", home.name(), "--timeout=60s"])
        .await;

    etcd.stop(1).await.unwrap();
    let lost = stage::store_is(&server, "main", "Ready", "False", "Unreachable").await;
    assert!(
        lost.message.contains("of 3 members answer"),
        "{}",
        lost.message
    );
    stage::plane_is(&home, "green", "StoreReady", "False", "Unreachable").await;
    // A store that stays as it is says the same, whoever was asked.
    let settled = stage::passes(&metrics) + 10;
    stage::until("ten more looks", async || {
        stage::passes(&metrics) >= settled
    })
    .await;
    let mark = server.mark().await;
    let again = stage::passes(&metrics) + 10;
    stage::until("ten more looks", async || stage::passes(&metrics) >= again).await;
    let told = server.writes(mark).await.by_agent(stage::AGENT);
    let told = told.only(|write| write.resource() != "events");
    assert_eq!(told.count(), 0, "{told}");

    etcd.resume(0).await.unwrap();
    stage::store_is(&server, "main", "Ready", "True", "Degraded").await;
    stage::plane_is(&home, "green", "StoreReady", "True", "Ready").await;
}
