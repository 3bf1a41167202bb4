//! Machines whose provider has to be told their addresses: they are drawn from its pools, and given back last.

use butler_api::butler::{IPAllocation, TenantCluster, ip_allocation::AllocationType};
use butler_testkit::{Options, PATIENCE, wait_for, wait_until_gone};
use kube::{Api, api::DeleteParams};
use serde_json::json;

use crate::{
    DEMO, clusters,
    driver::{self, Driver, object},
    join::{home, install},
    load_balancer::pool,
    patch, stage,
};

const PROXMOX: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: butler-system}
---
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata: {name: local, namespace: butler-system}
spec:
  provider: proxmox
  credentialsRef: {name: pve}
  network:
    mode: ipam
    poolRefs: [{name: ten}]
    subnet: 10.40.0.0/24
    gateway: 10.40.0.254
    dnsServers: [10.40.0.253]
    loadBalancer: {defaultPoolSize: 1}
  proxmox: {endpoint: 'https://pve.example.com:8006', nodes: [pve1], storage: fast, templateID: 9000}
";

fn says(demo: &TenantCluster, words: &str) -> bool {
    let conditions = demo.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|condition| condition.message.contains(words))
}

#[tokio::test]
async fn machines_get_addresses_of_the_pool_and_more_as_there_are_more_of_them() {
    let server = stage::server(Options::default().with_controller_manager()).await;
    server.apply_yaml(PROXMOX).await;
    for kind in ["ProxmoxCluster", "ProxmoxMachineTemplate"] {
        install(&server, kind).await;
    }
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-x"))
        .await;
    let clusters = clusters(&server, "team-x");
    let waits = "no addresses were allocated for the machines yet: NetworkPool ten is not there";
    wait_for(&clusters, "demo", waits, PATIENCE, |demo| says(demo, waits)).await;

    server.apply_yaml(&pool("10.40.0.20")).await;
    let home = home(&clusters).await;
    let told = |count: usize| {
        let (server, home) = (&server, &home);
        async move {
            driver::until(server, home, "ProxmoxCluster", "demo", |cluster| {
                let ranges = &cluster["spec"]["ipv4Config"]["addresses"];
                ranges
                    .as_array()
                    .is_some_and(|ranges| ranges.len() == count)
            })
            .await;
            object(server, home, "ProxmoxCluster", "demo")
                .await
                .unwrap()
        }
    };
    let cluster = told(1).await;
    assert_eq!(cluster["spec"]["ipv4Config"]["gateway"], "10.40.0.254");
    let has_claim = |demo: &TenantCluster| {
        let status = demo.status.as_ref();
        status.is_some_and(|status| status.ip_allocation_ref.is_some())
    };
    let demo = wait_for(&clusters, "demo", "its claim", PATIENCE, has_claim).await;
    let name = demo.status.unwrap().ip_allocation_ref.unwrap().name;
    let claims: Api<IPAllocation> = Api::namespaced(server.client(), "butler-system");
    let claim = claims.get(&name).await.unwrap();
    assert_eq!(claim.spec.type_, AllocationType::Nodes);
    assert_eq!(
        claim.spec.count,
        Some(3),
        "two workers, and one more while one is replaced"
    );

    patch(&clusters, json!({"spec": {"workers": {"replicas": 4}}})).await;
    let before = &cluster["spec"]["ipv4Config"]["addresses"][0];
    let cluster = told(2).await;
    let ranges = cluster["spec"]["ipv4Config"]["addresses"].as_array();
    assert!(
        ranges.unwrap().contains(before),
        "machines have these already"
    );

    let parameters = DeleteParams::default();
    clusters.delete("demo", &parameters).await.unwrap();
    wait_until_gone(&clusters, "demo").await;
    wait_until_gone(&claims, &name).await;
}
