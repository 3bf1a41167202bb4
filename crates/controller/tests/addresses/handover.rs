//! Two replicas and one lease: the lease is taken from the one that works in the middle of a storm of claims.

use std::time::Duration;

use butler_controller::LEASE;
use butler_runtime::{
    clock::SystemClock,
    lease::{self, Settings},
    task::{self, Task},
};
use butler_testkit::{Options, Server, wait_for};
use futures::FutureExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    crowd::{claim_all, pool, served, until_served},
    scene::{SYSTEM, holders},
    stage,
};

/// A replica as the binary runs it, less patient.
fn replica(server: &Server, identity: &'static str) -> Task {
    let client = server.client_for(&stage::controller_user());
    let work = async move {
        let settings = Settings {
            duration: Duration::from_secs(3),
            renew_every: Duration::from_secs(1),
            ..Settings::new(SYSTEM, LEASE, identity)
        };
        let shutdown = CancellationToken::new();
        let work = || stage::work(client.clone()).boxed();
        lease::guard(
            client.clone(),
            &settings,
            SystemClock::shared(),
            &shutdown,
            work,
        )
        .await;
    };
    task::spawn(identity, work)
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

async fn held_by(leases: &Api<Lease>, who: &'static str) {
    let what = format!("the lease to be held by {who}");
    wait_for(leases, LEASE, &what, Duration::from_mins(1), |lease| {
        holder(lease) == Some(who)
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_changes_hands_in_the_middle_of_a_storm_loses_nothing_and_gives_nothing_twice()
{
    let server = stage::server(Options::default()).await;
    pool(&server, 600).await;
    let leases: Api<Lease> = Api::namespaced(server.client(), SYSTEM);
    let _first = replica(&server, "first");
    held_by(&leases, "first").await;
    let _second = replica(&server, "second");

    let storm = claim_all(&server, (0..300).map(|number| format!("c{number}")), 2);
    let take_away = async {
        let some = async {
            while served(&server).await < 20 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), some)
            .await
            .expect("the first replica serves some claims");
        let before = served(&server).await;
        // Somebody takes the lease: the first replica finds out at its next renewal, and works on until then.
        let taken = json!({"spec": {"holderIdentity": "second"}});
        let params = PatchParams::default();
        leases
            .patch(LEASE, &params, &Patch::Merge(&taken))
            .await
            .expect("the lease is taken");
        before
    };
    let ((), before) = tokio::join!(storm, take_away);
    assert!(
        before < 300,
        "the storm was over before the lease changed hands"
    );
    until_served(&server, 300, Duration::from_mins(2)).await;
    assert_eq!(holders(&server).await.len(), 600);
    held_by(&leases, "second").await;
}

#[tokio::test]
async fn a_replica_that_dies_without_a_word_is_followed_by_one_that_finishes_its_grants() {
    let server = stage::server(Options::default()).await;
    pool(&server, 400).await;
    let leases: Api<Lease> = Api::namespaced(server.client(), SYSTEM);
    let first = replica(&server, "first");
    held_by(&leases, "first").await;
    let _second = replica(&server, "second");
    let storm = claim_all(&server, (0..200).map(|number| format!("c{number}")), 2);
    let kill = async {
        let some = async {
            while served(&server).await < 10 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), some)
            .await
            .expect("the first replica serves some claims");
        drop(first);
    };
    tokio::join!(storm, kill);
    until_served(&server, 200, Duration::from_mins(2)).await;
    assert_eq!(holders(&server).await.len(), 400);
    held_by(&leases, "second").await;
}
