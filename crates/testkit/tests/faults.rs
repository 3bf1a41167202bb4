//! Every fault, as a controller would see it.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails where it stands, and its tasks end with it"
)]

use std::time::Duration;

use butler_testkit::{
    Namespace, Server,
    faults::{self, Fault, Handle, Plan, Refusal},
};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    core::ObjectMeta,
};
use serde_json::json;
use tokio::time::{Instant, timeout};

/// Longer than anything here takes, shorter than anyone wants to wait.
const SOON: Duration = Duration::from_secs(10);

async fn set_up(plan: Plan) -> (Namespace, Api<ConfigMap>, Handle) {
    let server = Server::shared().await;
    let ns = server.namespace("faults").await;
    let (client, handle) = faults::client(&server, plan);
    let api = Api::namespaced(client, &ns);
    (ns, api, handle)
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

async fn create(api: &Api<ConfigMap>, name: &str) -> Result<ConfigMap, kube::Error> {
    api.create(&PostParams::default(), &config_map(name)).await
}

async fn exists(ns: &Namespace, name: &str) -> bool {
    ns.api::<ConfigMap>().get_opt(name).await.unwrap().is_some()
}

#[tokio::test]
async fn a_refused_request_fails_as_told_and_is_not_carried_out() {
    for (refusal, code) in [
        (Refusal::Internal, 500),
        (Refusal::Conflict, 409),
        (Refusal::TooMany, 429),
    ] {
        let (ns, api, _) = set_up(Plan::at_write(1, Fault::Refuse(refusal))).await;
        let kube::Error::Api(status) = create(&api, "a").await.unwrap_err() else {
            panic!("not an answer of the server");
        };
        assert_eq!(status.code, code);
        assert!(!exists(&ns, "a").await);
        create(&api, "a").await.unwrap();
    }
    let (ns, api, _) = set_up(Plan::at_write(1, Fault::Refuse(Refusal::Connection))).await;
    let error = create(&api, "a").await.unwrap_err();
    assert!(matches!(error, kube::Error::Service(_)), "{error}");
    assert!(!exists(&ns, "a").await);
}

#[tokio::test]
async fn a_lost_answer_hides_a_write_that_was_carried_out() {
    let (ns, api, handle) = set_up(Plan::at_request(2, Fault::LoseAnswer)).await;
    api.list(&ListParams::default()).await.unwrap();
    create(&api, "a").await.unwrap_err();
    assert!(exists(&ns, "a").await);
    assert_eq!((handle.requests(), handle.writes()), (2, 1));
    assert_eq!(handle.hit().unwrap().fault, Some(Fault::LoseAnswer));
}

#[tokio::test]
async fn a_duplicated_creation_is_answered_by_the_second() {
    let (ns, api, _) = set_up(Plan::at_write(1, Fault::Duplicate)).await;
    let kube::Error::Api(status) = create(&api, "a").await.unwrap_err() else {
        panic!("not an answer of the server");
    };
    assert!(status.is_already_exists(), "{status:?}");
    assert!(exists(&ns, "a").await);
}

#[tokio::test]
async fn a_delayed_request_takes_its_time() {
    let delay = Duration::from_millis(300);
    let rule = |sent: &faults::Sent| sent.is_about("configmaps");
    let (_ns, api, _) = set_up(Plan::none().and_at(1, rule, Fault::Delay(delay))).await;
    let begin = Instant::now();
    create(&api, "a").await.unwrap();
    assert!(begin.elapsed() >= delay);
}

#[tokio::test]
async fn a_crash_is_told_and_nothing_is_answered_after_it() {
    for (fault, carried_out) in [(Fault::CrashBefore, false), (Fault::CrashAfter, true)] {
        let (ns, api, handle) = set_up(Plan::at_write(1, fault)).await;
        tokio::select! {
            _ = create(&api, "a") => panic!("a crashed controller got an answer"),
            () = handle.crashed() => {}
        }
        assert_eq!(exists(&ns, "a").await, carried_out, "{fault}");
        let params = ListParams::default();
        let next = timeout(Duration::from_millis(200), api.list(&params));
        assert!(next.await.is_err(), "a crashed controller got an answer");
    }
}

#[tokio::test]
async fn a_stale_client_reads_the_past_until_its_time_is_over() {
    let window = Duration::from_millis(1500);
    let (ns, api, _) = set_up(Plan::at_write(2, Fault::Stale(window))).await;
    create(&api, "a").await.unwrap();
    let begin = Instant::now();
    let patch = Patch::Merge(json!({ "data": { "key": "new" } }));
    api.patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    create(&api, "b").await.unwrap();

    let a = api.get("a").await.unwrap();
    assert_eq!((a.name_any(), a.data), ("a".to_owned(), None));
    assert!(api.get_opt("b").await.unwrap().is_none());
    assert_eq!(
        api.list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
    assert!(exists(&ns, "b").await);
    assert!(begin.elapsed() < window, "too slow to have tested anything");
    tokio::time::sleep_until(begin + window * 2).await;
    assert!(api.get("a").await.unwrap().data.is_some());
}

#[tokio::test]
async fn a_stale_client_gets_its_events_late() {
    let window = Duration::from_millis(700);
    let (_ns, api, _) = set_up(Plan::at_write(1, Fault::Stale(window))).await;
    let version = api
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let mut events = api
        .watch(&WatchParams::default(), &version)
        .await
        .unwrap()
        .boxed();
    let begin = Instant::now();
    create(&api, "a").await.unwrap();
    let event = timeout(SOON, events.next())
        .await
        .expect("waited 10 s for an event");
    assert!(matches!(event, Some(Ok(WatchEvent::Added(_)))), "{event:?}");
    assert!(begin.elapsed() >= window);
}
