//! Deployments behind a load balancer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use butler_testkit::{PodOptions, pods::USER_AGENT, wait_for};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, ResourceExt};
use tokio::time::{MissedTickBehavior, interval};

use crate::support::{LONG, get, list, load_balancer, rolled_out, store, world};

#[tokio::test]
async fn a_deployment_becomes_ready_and_is_reached_by_pod_and_load_balancer() {
    let (_server, pods, ns) = world(PodOptions::default()).await;
    let began = Instant::now();
    ns.apply_yaml(&store(1, "one")).await;
    rolled_out(&ns, "store").await;
    println!("rolled out after {:?}", began.elapsed());
    let list = list(&ns).await;
    let [pod] = list.as_slice() else {
        panic!("one pod, not {}", list.len());
    };
    let address = pod.status.as_ref().unwrap().pod_ip.clone().unwrap();
    get(&address, 2379, "/version").await.unwrap();
    let address = load_balancer(&ns, "store").await;
    get(&address, 2379, "/version").await.unwrap();
    let logs = pods.logs(&ns, &pod.name_any(), "etcd");
    assert!(logs.contains("ready to serve client requests"), "{logs}");
}

/// Asks ten times a second, each time with a new connection, until told to stop; returns how often, and what failed.
async fn probe(address: String, stop: Arc<AtomicBool>) -> (u32, Vec<String>) {
    let mut ticks = interval(Duration::from_millis(100));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut asked, mut failed) = (0, Vec::new());
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        asked += 1;
        if let Err(error) = get(&address, 2379, "/version").await {
            failed.push(error);
        }
    }
    (asked, failed)
}

#[tokio::test]
async fn a_rolling_update_behind_a_load_balancer_loses_no_request() {
    let (_server, _pods, ns) = world(PodOptions::default()).await;
    ns.apply_yaml(&store(2, "one")).await;
    rolled_out(&ns, "store").await;
    let address = load_balancer(&ns, "store").await;
    let stop = Arc::new(AtomicBool::new(false));
    let probing = tokio::spawn(probe(address, Arc::clone(&stop)));
    let before: Vec<_> = list(&ns)
        .await
        .iter()
        .filter_map(ResourceExt::uid)
        .collect();
    let began = Instant::now();
    ns.apply_yaml(&store(2, "two")).await;
    rolled_out(&ns, "store").await;
    println!("updated after {:?}", began.elapsed());
    let gone = wait_until_pods_are(&ns, 2).await;
    stop.store(true, Ordering::Relaxed);
    let (asked, failed) = probing.await.unwrap();
    println!("{asked} requests, {} failed", failed.len());
    assert!(failed.is_empty(), "of {asked}: {failed:?}");
    assert!(asked > 20, "only {asked}");
    let old = |uid: &String| before.contains(uid);
    assert!(!gone.iter().any(old), "old pods are still there");
}

/// The uids of the pods, once there are so many.
async fn wait_until_pods_are(ns: &butler_testkit::Namespace, count: usize) -> Vec<String> {
    let deadline = Instant::now() + LONG;
    loop {
        let pods = list(ns).await;
        if pods.len() == count {
            return pods.iter().filter_map(ResourceExt::uid).collect();
        }
        assert!(Instant::now() < deadline, "there are {} pods", pods.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn settled_pods_are_not_written_again_and_a_deleted_deployment_leaves_nothing() {
    let (server, pods, ns) = world(PodOptions::default().load_balancer_domain("lb.test")).await;
    ns.apply_yaml(&store(1, "one")).await;
    rolled_out(&ns, "store").await;
    let services: Api<Service> = ns.api();
    let name = |service: &Service| {
        let status = service.status.as_ref()?.load_balancer.as_ref()?;
        status.ingress.as_ref()?.first()?.hostname.clone()
    };
    let service = wait_for(&services, "store", "a name", LONG, |it| name(it).is_some()).await;
    let address = pods.resolve(&name(&service).unwrap()).unwrap().to_string();
    get(&address, 2379, "/version").await.unwrap();
    let node_port = service.spec.unwrap().ports.unwrap()[0].node_port.unwrap();
    let node = pods.node_address().to_string();
    let node_port = u16::try_from(node_port).unwrap();
    get(&node, node_port, "/version").await.unwrap();

    let mark = server.mark().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let writes = server.writes(mark).await.by_agent(USER_AGENT);
    assert_eq!(writes.count(), 0, "{writes}");

    server
        .kubectl(&[
            "delete",
            "deployment/store",
            "-n",
            &ns,
            "--cascade=foreground",
        ])
        .await;
    assert!(list(&ns).await.is_empty());
    assert!(get(&address, 2379, "/version").await.is_err());
    let left: Vec<_> = std::fs::read_dir(pods.folder().join("pods"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
