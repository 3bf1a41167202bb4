//! Cluster API's contract for providers of addresses, served from the same pools.

use butler_api::{
    addresses::{IPAddress, IPAddressClaim},
    butler::{IPAllocation, NetworkPool},
};
use butler_testkit::{
    Options, PATIENCE, Scenario, World, at_every_write, wait_for, wait_for_condition,
    wait_until_gone,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    scene::{self, TEN, pools, sweep},
    stage,
};

const CLAIM: &str = "
apiVersion: ipam.cluster.x-k8s.io/v1beta2
kind: IPAddressClaim
metadata: {name: worker-1, namespace: default}
spec: {poolRef: {apiGroup: butler.butlerlabs.dev, kind: NetworkPool, name: ten}}
";

#[tokio::test]
async fn a_machine_gets_an_address_of_the_pool_and_gives_it_back() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server
        .apply_yaml(&TEN.replace("spec:", "spec:\n  gateway: 10.40.0.1"))
        .await;
    server.apply_yaml(CLAIM).await;
    let claims: Api<IPAddressClaim> = Api::namespaced(server.client(), "default");
    let claim = wait_for(
        &claims,
        "worker-1",
        "a reference to its address",
        PATIENCE,
        |claim: &IPAddressClaim| {
            claim
                .status
                .as_ref()
                .is_some_and(|status| status.address_ref.is_some())
        },
    )
    .await;
    let addresses: Api<IPAddress> = Api::namespaced(server.client(), "default");
    let name = claim.status.clone().unwrap().address_ref.unwrap().name;
    let address = addresses.get(&name).await.unwrap();
    assert_eq!(
        address.spec.address, "10.40.0.2",
        "the first one is the gateway"
    );
    assert_eq!(
        (address.spec.prefix, address.spec.gateway.as_deref()),
        (24, Some("10.40.0.1"))
    );
    assert_eq!(address.spec.claim_ref.name, "worker-1");
    assert_eq!(address.spec.pool_ref, claim.spec.pool_ref);
    let owner = &address.owner_references()[0];
    assert_eq!(
        (owner.uid.as_str(), owner.controller),
        (claim.uid().unwrap().as_str(), Some(true))
    );
    wait_for_condition(&claims, "worker-1", "Ready", "True").await;

    // Somebody deletes it: it comes back as it was, and nobody else could have got it.
    addresses
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    let again = wait_for(&addresses, &name, "its return", PATIENCE, |found| {
        found.uid() != address.uid()
    })
    .await;
    assert_eq!(again.spec, address.spec);

    claims
        .delete("worker-1", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&claims, "worker-1").await;
    wait_until_gone(&addresses, &name).await;
    wait_for(
        &pools(&server),
        "ten",
        "all addresses to be free",
        PATIENCE,
        |pool| {
            pool.status
                .as_ref()
                .is_some_and(|status| status.available_ips == Some(9))
        },
    )
    .await;
}

#[tokio::test]
async fn a_claim_waits_for_its_pool_says_so_and_leaves_the_pools_of_others_alone() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let foreign = CLAIM
        .replace("worker-1", "foreign")
        .replace("kind: NetworkPool", "kind: GlobalInClusterIPPool");
    server.apply_yaml(&foreign).await;
    server.apply_yaml(CLAIM).await;
    let claims: Api<IPAddressClaim> = Api::namespaced(server.client(), "default");
    let early = wait_for_condition(&claims, "worker-1", "Ready", "False").await;
    assert_eq!(early.status.unwrap().conditions[0].reason, "PoolNotFound");
    server.apply_yaml(TEN).await;
    wait_for_condition(&claims, "worker-1", "Ready", "True").await;
    let foreign = claims.get("foreign").await.unwrap();
    assert!(foreign.status.is_none() && foreign.finalizers().is_empty());
}

#[tokio::test]
async fn a_claim_of_a_paused_cluster_is_left_alone_until_it_goes_on() {
    let server = stage::server(Options::default()).await;
    server.apply_yaml(TEN).await;
    let paused = CLAIM.replace(
        "namespace: default",
        "namespace: default, annotations: {cluster.x-k8s.io/paused: ''}",
    );
    server.apply_yaml(&paused).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    // A claim that is not paused shows that the controllers went over both.
    server
        .apply_yaml(&CLAIM.replace("worker-1", "worker-2"))
        .await;
    let claims: Api<IPAddressClaim> = Api::namespaced(server.client(), "default");
    wait_for_condition(&claims, "worker-2", "Ready", "True").await;
    assert!(claims.get("worker-1").await.unwrap().status.is_none());
    let go_on = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}});
    claims
        .patch("worker-1", &PatchParams::default(), &Patch::Merge(&go_on))
        .await
        .unwrap();
    wait_for_condition(&claims, "worker-1", "Ready", "True").await;
}

/// A machine comes, and another goes.
struct Machines;

impl Machines {
    fn text(world: &World, name: &str) -> String {
        let namespace = world.namespace().name();
        CLAIM
            .replace("worker-1", name)
            .replace("namespace: default", &format!("namespace: {namespace}"))
    }
}

impl Scenario for Machines {
    async fn set_up(&self, world: &World) {
        let client = world.server().client();
        sweep::<IPAddressClaim>(&client).await;
        sweep::<IPAddress>(&client).await;
        sweep::<IPAllocation>(&client).await;
        sweep::<NetworkPool>(&client).await;
        let namespace = world.namespace().name();
        let pool = TEN.replace(
            "namespace: butler-system",
            &format!("namespace: {namespace}"),
        );
        world.server().apply_yaml(&pool).await;
        let _controllers = stage::run(client);
        world.server().apply_yaml(&Self::text(world, "old")).await;
        let claims: Api<IPAddressClaim> = world.namespace().api();
        wait_for_condition(&claims, "old", "Ready", "True").await;
        let pools: Api<NetworkPool> = world.namespace().api();
        wait_for(&pools, "ten", "an empty record", PATIENCE, |pool| {
            pool.status
                .as_ref()
                .is_some_and(|status| status.available_ips == Some(9) && status.grants.is_empty())
        })
        .await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn user(&self, world: &World) {
        world.server().apply_yaml(&Self::text(world, "new")).await;
        let claims: Api<IPAddressClaim> = world.namespace().api();
        wait_for_condition(&claims, "new", "Ready", "True").await;
        claims
            .delete("old", &DeleteParams::default())
            .await
            .expect("the machine goes");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let claims: Api<IPAddressClaim> = world.namespace().api();
        if claims
            .get_opt("old")
            .await
            .map_err(|error| error.to_string())?
            .is_some()
        {
            return Err("the old claim is still there".to_owned());
        }
        let allocations: Api<IPAllocation> = world.namespace().api();
        let left = allocations
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let pools: Api<NetworkPool> = world.namespace().api();
        let pool = pools
            .get("ten")
            .await
            .map_err(|error| error.to_string())?
            .status
            .unwrap_or_default();
        if left.items.len() == 1 && pool.available_ips == Some(9) && pool.grants.is_empty() {
            Ok(())
        } else {
            Err(format!("{} allocations, {pool:?}", left.items.len()))
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("ipam.cluster.x-k8s.io/v1beta2", "IPAddressClaim"),
            ("ipam.cluster.x-k8s.io/v1beta2", "IPAddress"),
            ("butler.butlerlabs.dev/v1alpha1", "IPAllocation"),
            ("butler.butlerlabs.dev/v1alpha1", "NetworkPool"),
        ]
    }

    fn parallel(&self) -> usize {
        1
    }
}

#[tokio::test]
async fn machines_get_and_give_back_addresses_whatever_goes_wrong() {
    let server = stage::server(Options::default()).await;
    let summary = at_every_write(&server, &Machines).await;
    println!("{summary:?}");
    assert!(summary.writes >= 8, "{summary:?}");
}

#[tokio::test]
async fn a_claim_of_a_namespace_without_the_pool_draws_from_the_platforms() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server.apply_yaml(TEN).await;
    let team = server.namespace("team").await;
    team.apply_yaml(&CLAIM.replace(", namespace: default", ""))
        .await;
    let claims: Api<IPAddressClaim> = team.api();
    wait_for_condition(&claims, "worker-1", "Ready", "True").await;
    let held = scene::claims(&server)
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(held.items.len(), 1, "it is held where the pool is");
}

const TENANT: &str = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata: {name: local, namespace: butler-system}
spec:
  provider: local
  network: {mode: ipam, poolRefs: [{name: ten}], quotaPerTenant: {maxNodeIPs: 2}}
---
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: TenantCluster
metadata: {name: shop, namespace: default}
spec: {kubernetesVersion: v1.35.4, providerConfigRef: {name: local}, workers: {replicas: 0}}
---
apiVersion: v1
kind: Namespace
metadata:
  name: shop-machines
  labels: {butler.butlerlabs.dev/source-name: shop, butler.butlerlabs.dev/source-namespace: default}
";

#[tokio::test]
async fn a_cluster_gets_no_more_addresses_for_machines_than_it_may_have_and_the_next_when_one_is_free()
 {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server.apply_yaml(TEN).await;
    server.apply_yaml(TENANT).await;
    let claims: Api<IPAddressClaim> = Api::namespaced(server.client(), "shop-machines");
    for number in 1..=3 {
        let claim = CLAIM
            .replace("worker-1", &format!("worker-{number}"))
            .replace("namespace: default", "namespace: shop-machines");
        server.apply_yaml(&claim).await;
    }
    wait_for_condition(&claims, "worker-1", "Ready", "True").await;
    wait_for_condition(&claims, "worker-2", "Ready", "True").await;
    let denied = wait_for_condition(&claims, "worker-3", "Ready", "False").await;
    let conditions = denied.status.unwrap().conditions;
    let ready = conditions
        .iter()
        .find(|held| held.type_ == "Ready")
        .unwrap();
    assert_eq!(ready.reason, "QuotaExceeded");
    assert!(ready.message.contains("maxNodeIPs"), "{}", ready.message);

    claims
        .delete("worker-1", &DeleteParams::default())
        .await
        .unwrap();
    wait_for_condition(&claims, "worker-3", "Ready", "True").await;
}
