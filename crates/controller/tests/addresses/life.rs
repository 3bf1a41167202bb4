//! A claim from its making to its end, and the pool around it.

use butler_api::butler::{ProviderConfig, TenantCluster, ip_allocation::AllocationPhase};
use butler_runtime::{metrics::Metrics, task};
use butler_testkit::{Options, PATIENCE, wait_for, wait_for_condition, wait_until_gone};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    scene::{self, TEN, claim, claims, cluster, granted, holders, phase, pools, refused},
    stage,
};

#[tokio::test]
async fn a_claim_gets_the_lowest_addresses_that_fit_and_the_pool_says_what_is_left() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server.apply_yaml(TEN).await;
    server.apply_yaml(&cluster("shop")).await;
    server.apply_yaml(&claim("one", "count: 4")).await;
    let status = granted(&server, "one").await;
    assert_eq!(status.ranges, ["10.40.0.1-10.40.0.4"]);
    assert_eq!(status.start_address.as_deref(), Some("10.40.0.1"));
    assert_eq!(status.addresses.len(), 4);
    assert_eq!(
        status.allocated_by.as_deref(),
        Some("networkpool-controller")
    );
    let shop: Api<TenantCluster> = Api::namespaced(server.client(), "default");
    assert_eq!(
        status.owner_uid,
        shop.get("shop").await.unwrap().metadata.uid
    );

    let pool = wait_for(
        &pools(&server),
        "ten",
        "figures after the grant",
        PATIENCE,
        |pool| {
            pool.status
                .as_ref()
                .is_some_and(|status| status.available_ips == Some(6) && status.grants.is_empty())
        },
    )
    .await;
    let status = pool.status.unwrap();
    assert_eq!(
        (
            status.total_ips,
            status.allocated_ips,
            status.largest_free_block
        ),
        (Some(10), Some(4), Some(6))
    );
    assert_eq!(
        (status.pool_size_ips, status.allocation_count),
        (Some(256), Some(1))
    );
    let table = server
        .kubectl(&["get", "np", "ten", "-n", scene::SYSTEM])
        .await;
    let columns: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        columns,
        ["NAME", "CIDR", "SIZE", "USED", "FREE", "LARGEST", "AGE"]
    );
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..6], ["ten", "10.40.0.0/24", "10", "4", "6", "6"]);
}

#[tokio::test]
async fn a_full_pool_serves_the_next_one_the_moment_space_frees() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server.apply_yaml(TEN).await;
    server.apply_yaml(&cluster("shop")).await;
    server.apply_yaml(&claim("first", "count: 10")).await;
    granted(&server, "first").await;
    server.apply_yaml(&claim("second", "count: 3")).await;
    let why = refused(&server, "second", "PoolExhausted").await;
    assert!(why.contains("as soon as there are"), "{why}");
    wait_for_condition(&pools(&server), "ten", "CapacityExhausted", "True").await;

    let started = std::time::Instant::now();
    claims(&server)
        .delete("first", &DeleteParams::default())
        .await
        .unwrap();
    granted(&server, "second").await;
    // Nothing polls: half a second would be a timer's work.
    println!("served {:?} after the space was freed", started.elapsed());
    wait_until_gone(&claims(&server), "first").await;
    wait_for_condition(&pools(&server), "ten", "CapacityExhausted", "False").await;
    let events = server
        .kubectl(&[
            "get",
            "events",
            "-n",
            scene::SYSTEM,
            "-o",
            "jsonpath={.items[*].reason}",
        ])
        .await;
    assert!(
        events.contains("PoolCapacityExhausted") && events.contains("PoolCapacityRecovered"),
        "{events}"
    );
}

#[tokio::test]
async fn addresses_rest_before_somebody_else_gets_them_and_the_same_cluster_gets_them_at_once() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let resting = TEN
        .replace("quarantineSeconds: 0", "quarantineSeconds: 3")
        .replace("Seconds: 0", "Seconds: 600");
    server.apply_yaml(&resting).await;
    for name in ["shop", "farm"] {
        server.apply_yaml(&cluster(name)).await;
    }
    server.apply_yaml(&claim("mine", "count: 10")).await;
    granted(&server, "mine").await;
    claims(&server)
        .delete("mine", &DeleteParams::default())
        .await
        .unwrap();
    let kept = wait_for(
        &claims(&server),
        "mine",
        "phase Released",
        PATIENCE,
        |claim| phase(claim) == Some(AllocationPhase::Released),
    )
    .await;
    let kept = kept.status.unwrap();
    assert!(
        kept.released_at.is_some() && kept.ranges == ["10.40.0.1-10.40.0.10"],
        "kept for those who look back"
    );

    let started = std::time::Instant::now();
    server
        .apply_yaml(&scene::claim_of("farm", "ten", "theirs", "count: 3"))
        .await;
    refused(&server, "theirs", "PoolExhausted").await;
    server
        .apply_yaml(&claim(
            "mine-again",
            "pinnedRange: {startAddress: 10.40.0.5, endAddress: 10.40.0.6}",
        ))
        .await;
    assert_eq!(
        granted(&server, "mine-again").await.ranges,
        ["10.40.0.5-10.40.0.6"]
    );
    assert_eq!(
        granted(&server, "theirs").await.ranges,
        ["10.40.0.1-10.40.0.3"]
    );
    assert!(
        started.elapsed() >= std::time::Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(holders(&server).await.len(), 5);
}

#[tokio::test]
async fn a_pool_with_holders_stays_and_names_them_and_leaves_nothing_behind() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server
        .apply_yaml(&TEN.replace("Seconds: 0", "Seconds: 900"))
        .await;
    server.apply_yaml(&cluster("shop")).await;
    server.apply_yaml(&claim("one", "count: 4")).await;
    granted(&server, "one").await;
    pools(&server)
        .delete("ten", &DeleteParams::default())
        .await
        .unwrap();
    wait_for(
        &pools(&server),
        "ten",
        "a word about its holders",
        PATIENCE,
        |pool| {
            let conditions = pool.status.iter().flat_map(|status| &status.conditions);
            conditions
                .into_iter()
                .any(|held| held.reason == "Deleting" && held.message.contains("one"))
        },
    )
    .await;
    server.apply_yaml(&claim("late", "count: 1")).await;
    refused(&server, "late", "PoolNotReady").await;
    claims(&server)
        .delete("one", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&pools(&server), "ten").await;
    wait_until_gone(&claims(&server), "one").await;
}

#[tokio::test]
async fn a_claim_goes_when_its_cluster_is_gone_and_a_new_cluster_of_the_same_name_does_not_inherit_it()
 {
    let server = stage::server(Options::default()).await;
    let controllers = stage::run(server.client_for(&stage::controller_user()));
    server.apply_yaml(TEN).await;
    server.apply_yaml(&cluster("shop")).await;
    server.apply_yaml(&claim("one", "count: 4")).await;
    granted(&server, "one").await;
    // While nobody looks, the cluster is replaced by another of the same name.
    drop(controllers);
    let clusters: Api<TenantCluster> = Api::namespaced(server.client(), "default");
    clusters
        .delete("shop", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&clusters, "shop").await;
    server.apply_yaml(&cluster("shop")).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    wait_until_gone(&claims(&server), "one").await;
}

#[tokio::test]
async fn addresses_that_the_platform_uses_are_seen_and_never_given_out() {
    let server = stage::server(Options::default()).await;
    let service = "
apiVersion: v1
kind: Service
metadata: {name: ingress, namespace: default}
spec: {type: LoadBalancer, ports: [{port: 443}]}
status: {loadBalancer: {ingress: [{ip: 10.40.0.1}]}}
";
    server.apply_yaml(service).await;
    let services: Api<k8s_openapi::api::core::v1::Service> =
        Api::namespaced(server.client(), "default");
    let ip = json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.40.0.1"}]}}});
    services
        .patch_status("ingress", &PatchParams::default(), &Patch::Merge(&ip))
        .await
        .unwrap();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    server.apply_yaml(&node.to_string()).await;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(server.client());
    let ip = json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.40.0.2"}]}});
    nodes
        .patch_status("n1", &PatchParams::default(), &Patch::Merge(&ip))
        .await
        .unwrap();
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server.apply_yaml(TEN).await;
    server.apply_yaml(&cluster("shop")).await;
    server.apply_yaml(&claim("one", "count: 4")).await;
    assert_eq!(
        granted(&server, "one").await.ranges,
        ["10.40.0.3-10.40.0.6"]
    );
    let pool = pools(&server).get("ten").await.unwrap().status.unwrap();
    let seen: Vec<(&str, &str)> = pool
        .infrastructure_allocations
        .iter()
        .map(|seen| (seen.ip.as_str(), seen.source.as_str()))
        .collect();
    assert_eq!(seen, [("10.40.0.1", "metallb"), ("10.40.0.2", "node")]);
}

#[tokio::test]
async fn a_provider_says_what_its_pools_have_left() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let provider = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata: {name: local, namespace: butler-system}
spec: {provider: local, network: {mode: ipam, poolRefs: [{name: big}]}}
";
    server.apply_yaml(provider).await;
    let providers: Api<ProviderConfig> = Api::namespaced(server.client(), scene::SYSTEM);
    let missing = wait_for_condition(&providers, "local", "PoolAvailable", "False").await;
    assert_eq!(missing.status.unwrap().ready, Some(false));
    let big = TEN
        .replace("name: ten", "name: big")
        .replace("10.40.0.10", "10.40.0.130");
    server.apply_yaml(&big).await;
    let ready = wait_for_condition(&providers, "local", "PoolAvailable", "True").await;
    let capacity = ready.status.unwrap().capacity.unwrap();
    assert_eq!(
        (capacity.available_ips, capacity.estimated_tenants),
        (Some(130), Some(10))
    );
}

#[tokio::test]
async fn settled_pools_and_claims_are_not_written_again_by_a_restart() {
    let server = stage::server(Options::default()).await;
    let user = stage::controller_user();
    let controllers = stage::run(server.client_for(&user));
    server.apply_yaml(TEN).await;
    server.apply_yaml(&cluster("shop")).await;
    for (name, more) in [
        ("one", "count: 4"),
        ("two", "count: 3"),
        ("waits", "count: 5"),
    ] {
        server.apply_yaml(&claim(name, more)).await;
    }
    granted(&server, "one").await;
    granted(&server, "two").await;
    refused(&server, "waits", "PoolExhausted").await;
    wait_for(
        &pools(&server),
        "ten",
        "an empty record",
        PATIENCE,
        |pool| {
            pool.status
                .as_ref()
                .is_some_and(|status| status.grants.is_empty() && status.available_ips == Some(3))
        },
    )
    .await;
    let clusters: Api<TenantCluster> = Api::namespaced(server.client(), "default");
    wait_for_condition(&clusters, "shop", "Ready", "False").await;
    drop(controllers);
    let mark = server.mark().await;
    let _restarted = stage::run(server.client_for(&user));
    // Only the restarted controllers can answer this.
    let other = TEN
        .replace("name: ten", "name: other")
        .replace("10.40.", "10.50.");
    server.apply_yaml(&other).await;
    wait_for_condition(&pools(&server), "other", "Ready", "True").await;
    let writes = server.writes(mark).await.by_user(user.name());
    let others = writes.only(|write| write.name() != "other");
    assert_eq!(others.count(), 0, "{others}");
}

#[tokio::test]
async fn an_ipv6_pool_works_like_any_other() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let pool = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: NetworkPool
metadata: {name: ten, namespace: butler-system}
spec: {cidr: 'fd00:40::/64', gateway: 'fd00:40::1'}
";
    server.apply_yaml(pool).await;
    server.apply_yaml(&cluster("shop")).await;
    server.apply_yaml(&claim("one", "count: 3")).await;
    assert_eq!(
        granted(&server, "one").await.ranges,
        ["fd00:40::2-fd00:40::4"]
    );
    server.apply_yaml(&claim("two", "count: 4")).await;
    let two = granted(&server, "two").await;
    assert_eq!(
        two.addresses,
        ["fd00:40::5", "fd00:40::6", "fd00:40::7", "fd00:40::8"]
    );
    let pool = wait_for_condition(&pools(&server), "ten", "Ready", "True")
        .await
        .status
        .unwrap();
    assert_eq!(
        pool.total_ips,
        Some(i64::MAX),
        "as much as the field can show"
    );
}

#[tokio::test]
async fn metrics_of_a_pool_are_there_as_long_as_the_pool() {
    let server = stage::server(Options::default()).await;
    let metrics = Metrics::default();
    let _controllers = task::spawn(
        "controllers",
        stage::work_with(server.client(), metrics.clone()),
    );
    server.apply_yaml(TEN).await;
    server.apply_yaml(&cluster("shop")).await;
    server.apply_yaml(&claim("one", "count: 4")).await;
    granted(&server, "one").await;
    let series = |name: &str, value: &str| {
        let labels = "{pool=\"ten\",namespace=\"butler-system\"";
        let text = metrics.encode().unwrap();
        let wanted = format!("{name}{labels}");
        text.lines()
            .any(|line| line.starts_with(&wanted) && line.ends_with(value))
    };
    let until = async |what: &str, done: &dyn Fn() -> bool| {
        let waited = async {
            while !done() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waited)
            .await
            .unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}"));
    };
    until("the figures", &|| {
        series("butler_network_pool_allocated_ips", " 4")
    })
    .await;
    until("a success", &|| {
        series("butler_ip_allocation_processed_total", " 1")
    })
    .await;
    assert!(series("butler_network_pool_largest_free_block", " 6"));
    claims(&server)
        .delete("one", &DeleteParams::default())
        .await
        .unwrap();
    pools(&server)
        .delete("ten", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&pools(&server), "ten").await;
    until("the series to go", &|| {
        !metrics.encode().unwrap().contains("pool=\"ten\"")
    })
    .await;
}
