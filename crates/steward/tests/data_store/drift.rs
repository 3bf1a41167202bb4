//! Users and roles of tenants that somebody changes by hand.

use butler_steward::{
    Pace,
    store::{Chosen, Identity, Owner},
};
use butler_testkit::{Namespace, etcd::TlsEtcd};
use k8s_openapi::api::events::v1::Event;
use kube::{ResourceExt, api::ListParams};

use crate::{
    raw::User,
    stage::{self, FAST, SLOW, until},
};

/// A tenant's place, by what its control plane reports.
async fn place(home: &Namespace, name: &str) -> Identity {
    let (plane, _) = stage::plane_is(home, name, "StoreReady", "True", "Ready").await;
    let owner = Owner {
        namespace: home.name().to_owned(),
        name: name.to_owned(),
        uid: plane.uid().unwrap(),
    };
    Identity::of(owner, &Chosen::default(), &Chosen::default()).unwrap()
}

/// Whether the tenant's own user can write below its prefix, and nowhere else.
async fn works(etcd: &TlsEtcd, tenant: &Identity) -> bool {
    let user = User::connect(
        &etcd.endpoint(),
        etcd.authority().0,
        etcd.client(tenant.user()),
    );
    let own = [tenant.prefix(), b"x".to_vec()].concat();
    user.put(own, b"x").await.is_ok() && user.put("/elsewhere", b"x").await.is_err()
}

async fn events(home: &Namespace) -> Vec<String> {
    let list = home.api::<Event>().list(&ListParams::default()).await;
    let reasons = list.unwrap().into_iter().filter_map(|event| event.reason);
    reasons.collect()
}

#[tokio::test]
async fn what_somebody_changes_by_hand_is_put_right_and_nothing_else_is_written() {
    let (server, etcd) = (stage::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let pace = Pace {
        round: SLOW.round,
        ..FAST
    };
    let _steward = stage::steward(&server, pace);
    server
        .apply_yaml(&etcd.data_store("main").to_string())
        .await;
    for name in ["blue", "green"] {
        home.apply_yaml(&stage::control_plane(name, "main")).await;
    }
    let (blue, green) = (place(&home, "blue").await, place(&home, "green").await);
    let root = stage::root(&etcd);

    root.delete_user(blue.user()).await;
    until("the user of blue", async || works(&etcd, &blue).await).await;
    root.delete_role(green.role()).await;
    until("the role of green", async || works(&etcd, &green).await).await;
    root.grant_role(blue.user(), green.role()).await;
    until("the role of green to be taken from blue", async || {
        let user = User::connect(
            &etcd.endpoint(),
            etcd.authority().0,
            etcd.client(blue.user()),
        );
        user.range(&green.prefix(), &green.range_end())
            .await
            .is_err()
    })
    .await;
    until("an event about each", async || {
        let told = events(&home).await;
        told.iter().any(|reason| reason == "StoreAccessRestored")
    })
    .await;

    for name in ["blue", "green"] {
        stage::counted(&home, name).await;
    }
    // Nothing of this is the business of control planes: nothing is written about them.
    let mark = server.mark().await;
    root.delete_user(blue.user()).await;
    until("the user of blue", async || works(&etcd, &blue).await).await;
    let writes = server.writes(mark).await.by_agent(stage::AGENT);
    let writes = writes.only(|write| write.resource() != "events");
    assert_eq!(writes.count(), 0, "{writes}");
}
