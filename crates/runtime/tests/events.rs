//! Events on a real API server.

#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

use butler_runtime::{
    clock::SystemClock,
    events::{Events, Note},
};
use butler_testkit::{
    Namespace, Server,
    faults::{self, Fault, Plan, Refusal},
};
use k8s_openapi::api::{core::v1::ConfigMap, events::v1::Event};
use kube::{
    Client,
    api::{ListParams, ObjectMeta, PostParams},
};

/// Tells the same twice about an object, and counts what people then read.
async fn told_twice(client: Client, home: &Namespace) -> usize {
    let events = Events::new(client, "events-test", SystemClock::shared());
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("settings".to_owned()),
            namespace: Some(home.name().to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let maps = home.api::<ConfigMap>();
    let map = maps.create(&PostParams::default(), &map).await.unwrap();
    let note = Note {
        warning: false,
        reason: "Changed",
        action: "Change",
        message: "it was changed".to_owned(),
    };
    events.tell(&map, &note).await;
    events.tell(&map, &note).await;
    let written = home.api::<Event>().list(&ListParams::default()).await;
    written.unwrap().items.len()
}

#[tokio::test]
async fn the_same_words_are_told_once() {
    let server = Server::shared().await;
    let home = server.namespace("events").await;
    let (client, sent) = faults::client(&server, Plan::none());
    assert_eq!(told_twice(client, &home).await, 1);
    assert_eq!(sent.writes(), 1, "and sent once");
}

#[tokio::test]
async fn words_that_could_not_be_written_are_told_the_next_time() {
    let server = Server::shared().await;
    let home = server.namespace("events").await;
    let plan = Plan::at_write(1, Fault::Refuse(Refusal::Internal));
    let (client, _sent) = faults::client(&server, plan);
    assert_eq!(told_twice(client, &home).await, 1);
}
