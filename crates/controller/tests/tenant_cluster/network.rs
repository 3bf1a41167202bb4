//! Whether a cluster's load balancers have addresses: said with the remedy while they have none, and no reason to call a
//! cluster anything but ready.

use butler_api::butler::{
    IPAllocation, NetworkPool, TenantCluster, network_pool::NetworkPoolStatus,
    tenant_cluster::Phase,
};
use butler_runtime::conditions;
use butler_testkit::{PATIENCE, wait_for};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    addons::{Scene, message},
    load_balancer::{PROVIDER, announces, api, metallb_kinds, pool},
};

/// Moves the end of the pool, and waits until the pool has that many addresses.
async fn resize(scene: &Scene, end: &str, total: i64) {
    let pools: Api<NetworkPool> = Api::namespaced(scene.server.client(), "butler-system");
    let change = json!({"spec": {"tenantAllocation": {"end": end}}});
    let change = Patch::Merge(&change);
    let parameters = PatchParams::default();
    pools.patch("ten", &parameters, &change).await.unwrap();
    let what = format!("to have {total} addresses");
    wait_for(&pools, "ten", &what, PATIENCE, |pool| {
        let counts = |status: &NetworkPoolStatus| status.total_ips == Some(total);
        pool.status.as_ref().is_some_and(counts)
    })
    .await;
}

fn is_ready(demo: &TenantCluster) -> bool {
    let status = demo.status.as_ref().unwrap();
    status.phase == Some(Phase::Ready) && conditions::is_true(&status.conditions, "Ready")
}

#[tokio::test]
async fn missing_addresses_are_said_with_the_remedy_and_given_as_soon_as_a_pool_has_them() {
    let scene = Scene::new("team-v").await;
    scene.server.apply_yaml(&metallb_kinds()).await;
    scene.server.apply_yaml(PROVIDER).await;
    scene.define("metallb", "loadbalancer", &json!({})).await;
    let _controllers = scene.run();
    let asked = json!({"addons": {"loadBalancer": {"provider": "metallb"}}});
    scene.make(&asked).await;
    let demo = scene.until("NetworkReady", "False", "NoPool").await;
    let said = message(&demo, "NetworkReady");
    assert!(said.contains("there is no NetworkPool ten"), "{said}");

    // It becomes ready all the same.
    let demo = scene.until("Ready", "True", "NoPool").await;
    assert!(is_ready(&demo), "{:?}", demo.status);

    // With two addresses, where three are asked for.
    scene.server.apply_yaml(&pool("10.40.0.2")).await;
    let demo = scene.until("NetworkReady", "False", "PoolExhausted").await;
    let said = message(&demo, "NetworkReady");
    assert_eq!(
        said,
        "NetworkPool ten has not 3 free addresses side by side; give a pool more addresses, or name another in \
         spec.network.poolRefs of ProviderConfig butler-system/local"
    );

    resize(&scene, "10.40.0.4", 4).await;
    let demo = scene.until("NetworkReady", "True", "Allocated").await;
    let said = message(&demo, "NetworkReady");
    assert_eq!(said, "load balancers may use 10.40.0.1-10.40.0.3");
    let claims: Api<IPAllocation> = Api::namespaced(scene.server.client(), "butler-system");
    let named = demo.status.and_then(|status| status.lb_allocation_ref);
    let claim = claims.get(&named.expect("its claim is named").name).await;
    assert_eq!(claim.unwrap().spec.pool_ref.name, "ten");
    announces(&api(&scene, "IPAddressPool"), &["10.40.0.1-10.40.0.3"]).await;
    let demo = scene.until("Ready", "True", "Ready").await;
    assert!(is_ready(&demo), "{:?}", demo.status);

    // What is held stays held when the pool shrinks; what is given back then is not to be had again.
    resize(&scene, "10.40.0.2", 2).await;
    let (how, all) = (DeleteParams::default(), ListParams::default());
    claims.delete_collection(&how, &all).await.unwrap();
    let demo = scene.until("NetworkReady", "False", "PoolExhausted").await;
    assert!(is_ready(&demo), "{:?}", demo.status);
    assert_eq!(demo.status.unwrap().lb_allocation_ref, None);
}
