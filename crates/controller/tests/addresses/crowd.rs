//! Many claims at once, controllers that are killed, and two of them at the same time: everybody gets what there is,
//! and nobody what somebody else has.

use std::time::Duration;

use butler_api::butler::{IPAllocation, ip_allocation::AllocationPhase};
use butler_runtime::task;
use butler_testkit::{
    Options, Server,
    faults::{self, Fault, Plan},
};
use futures::{StreamExt, stream};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;

use crate::{
    scene::{self, cluster, holders, phase},
    stage,
};

/// A pool of exactly this many addresses.
pub(crate) async fn pool(server: &Server, addresses: u32) {
    let (high, low) = (addresses >> 8, addresses & 255);
    let text = format!(
        "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: NetworkPool
metadata: {{name: ten, namespace: butler-system}}
spec:
  cidr: 10.40.0.0/16
  quarantineSeconds: 0
  retainReleasedSeconds: 0
  tenantAllocation: {{start: 10.40.0.1, end: 10.40.{high}.{low}}}
"
    );
    server.apply_yaml(&text).await;
    server.apply_yaml(&cluster("shop")).await;
}

/// Makes claims for `count` addresses each, many at a time.
pub(crate) async fn claim_all(server: &Server, names: impl Iterator<Item = String>, count: u32) {
    let api: Api<IPAllocation> = scene::claims(server);
    let made = names.map(|name| {
        let api = api.clone();
        async move {
            let claim: IPAllocation = serde_json::from_value(json!({
                "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "IPAllocation",
                "metadata": {"name": name},
                "spec": {
                    "poolRef": {"name": "ten"}, "type": "loadbalancer", "count": count,
                    "tenantClusterRef": {"name": "shop", "namespace": "default"},
                },
            }))
            .unwrap();
            api.create(&PostParams::default(), &claim)
                .await
                .expect("a claim is made");
        }
    });
    stream::iter(made)
        .buffer_unordered(16)
        .collect::<Vec<()>>()
        .await;
}

/// How many claims have addresses.
pub(crate) async fn served(server: &Server) -> usize {
    let all = scene::claims(server)
        .list(&ListParams::default())
        .await
        .expect("a list of claims");
    all.iter()
        .filter(|claim| phase(claim) == Some(AllocationPhase::Allocated))
        .count()
}

/// Waits until so many claims have addresses; every look checks that no address is held twice.
pub(crate) async fn until_served(server: &Server, wanted: usize, patience: Duration) {
    let deadline = tokio::time::Instant::now() + patience;
    loop {
        holders(server).await;
        let count = served(server).await;
        if count == wanted {
            return;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "waited {patience:?} for {wanted} claims with addresses; {count} have them"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_thousand_claims_on_a_pool_of_a_thousand_addresses_are_all_served() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    pool(&server, 1000).await;
    claim_all(&server, (0..1000).map(|number| format!("c{number}")), 1).await;
    until_served(&server, 1000, Duration::from_mins(2)).await;
    assert_eq!(holders(&server).await.len(), 1000);
}

#[tokio::test]
async fn storms_of_making_and_deleting_leave_nothing_behind() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    pool(&server, 300).await;
    claim_all(&server, (0..150).map(|number| format!("a{number}")), 2).await;
    // Half of them are deleted while the others are still being served, and new ones come.
    let api = scene::claims(&server);
    let deletes = (0..75).map(|number| {
        let api = api.clone();
        async move {
            api.delete(&format!("a{number}"), &DeleteParams::default())
                .await
                .expect("a delete")
        }
    });
    let deletes = stream::iter(deletes)
        .buffer_unordered(8)
        .collect::<Vec<_>>();
    tokio::join!(
        deletes,
        claim_all(&server, (0..75).map(|number| format!("b{number}")), 2)
    );
    until_served(&server, 150, Duration::from_mins(1)).await;
    let all = DeleteParams::default();
    api.delete_collection(&all, &ListParams::default())
        .await
        .expect("all claims are deleted");
    let free = butler_testkit::wait_for(
        &scene::pools(&server),
        "ten",
        "all addresses to be free",
        Duration::from_mins(1),
        |pool| {
            pool.status
                .as_ref()
                .is_some_and(|status| status.available_ips == Some(300))
        },
    )
    .await;
    assert_eq!(free.status.unwrap().fragmentation_percent, Some(0));
}

#[tokio::test]
async fn controllers_that_are_killed_between_any_two_requests_serve_everybody_once() {
    let server = stage::server(Options::default()).await;
    pool(&server, 200).await;
    claim_all(&server, (0..100).map(|number| format!("c{number}")), 2).await;
    let kills = async {
        for request in (1..).map(|life: usize| 20 + life * 7 % 61) {
            let fault = if request % 2 == 0 {
                Fault::CrashBefore
            } else {
                Fault::CrashAfter
            };
            let (client, handle) = faults::client(&server, Plan::at_request(request, fault));
            tokio::select! {
                () = handle.crashed() => {}
                () = stage::work(client) => {}
            }
        }
    };
    tokio::select! {
        () = kills => {}
        () = until_served(&server, 100, Duration::from_mins(2)) => {}
    }
    assert_eq!(holders(&server).await.len(), 200);
}

#[tokio::test]
async fn two_controllers_that_both_believe_they_are_alone_never_give_an_address_twice() {
    let server = stage::server(Options::default()).await;
    pool(&server, 400).await;
    let _first = stage::run(server.client());
    let _second = stage::run(server.client());
    claim_all(&server, (0..200).map(|number| format!("c{number}")), 2).await;
    until_served(&server, 200, Duration::from_mins(2)).await;
    assert_eq!(holders(&server).await.len(), 400);
}

#[tokio::test]
async fn a_controller_that_sleeps_between_the_record_and_the_claim_gives_nothing_away_when_it_wakes()
 {
    let server = stage::server(Options::default()).await;
    pool(&server, 20).await;
    // The first one gets stuck while it writes its grant on the claim.
    let late =
        |sent: &faults::Sent| sent.is_write() && sent.path.ends_with("/ipallocations/c0/status");
    let plan = Plan::none().and_at(1, late, Fault::Delay(Duration::from_secs(4)));
    let (client, handle) = faults::client(&server, plan);
    let first = task::spawn("the one that sleeps", stage::work(client));
    claim_all(&server, std::iter::once("c0".to_owned()), 10).await;
    let stuck = async {
        while handle.hit().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), stuck)
        .await
        .expect("the first grant is on its way");
    // Another takes over, and more want addresses than there are.
    let _second = stage::run(server.client());
    claim_all(&server, (1..3).map(|number| format!("c{number}")), 10).await;
    until_served(&server, 2, Duration::from_secs(30)).await;
    let before = holders(&server).await;
    // The sleeper wakes, its write comes too late, and it goes on as if nothing had happened.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(holders(&server).await, before);
    drop(first);
}
