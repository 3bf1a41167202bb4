//! Feeds: what is there, what changes, and what goes.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

use std::{pin::pin, time::Duration};

use butler_runtime::watch::{Change, Feed};
use butler_testkit::Server;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    ResourceExt,
    api::{DeleteParams, ObjectMeta, PostParams},
    runtime::watcher,
};

fn named(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

async fn next(changes: &mut (impl Stream<Item = Change<ConfigMap>> + Unpin)) -> String {
    let patience = Duration::from_secs(20);
    let change = tokio::time::timeout(patience, changes.next()).await;
    match change.unwrap_or_else(|_| panic!("waited {patience:?} for a change")) {
        Some(Change::Present(object)) => format!("{} is there", object.name_any()),
        Some(Change::Gone(object)) => format!("{} is gone", object.name_any()),
        None => "the feed ended".to_owned(),
    }
}

#[tokio::test]
async fn every_subscriber_hears_of_what_is_there_what_comes_and_what_goes() {
    let home = Server::shared().await.namespace("watch").await;
    let api = home.api::<ConfigMap>();
    api.create(&PostParams::default(), &named("early"))
        .await
        .unwrap();
    let feed = Feed::start(api.clone(), watcher::Config::default());
    feed.ready().await;
    let mut first = pin!(feed.subscribe());
    assert_eq!(next(&mut first).await, "early is there");
    api.create(&PostParams::default(), &named("late"))
        .await
        .unwrap();
    assert_eq!(next(&mut first).await, "late is there");
    api.delete("late", &DeleteParams::default()).await.unwrap();
    assert_eq!(next(&mut first).await, "late is gone");
    let mut second = pin!(feed.subscribe());
    assert_eq!(next(&mut second).await, "early is there");
    assert!(feed.get(Some(&home), "late").is_none());
}

#[tokio::test]
async fn what_is_kept_has_no_managed_fields() {
    let home = Server::shared().await.namespace("watch").await;
    let api = home.api::<ConfigMap>();
    api.create(&PostParams::default(), &named("slim"))
        .await
        .unwrap();
    let feed = Feed::start(api, watcher::Config::default());
    feed.ready().await;
    let kept = feed
        .get(Some(&home), "slim")
        .expect("the first list is complete");
    assert!(kept.managed_fields().is_empty());
}

#[tokio::test]
async fn what_is_in_a_namespace_is_found_by_it_and_what_went_is_not() {
    let server = Server::shared().await;
    let (home, other) = (
        server.namespace("watch").await,
        server.namespace("watch").await,
    );
    let post = PostParams::default();
    for (place, name) in [(&home, "a"), (&home, "b"), (&other, "c")] {
        let api = place.api::<ConfigMap>();
        api.create(&post, &named(name)).await.unwrap();
    }
    let everywhere = kube::Api::<ConfigMap>::all(server.client());
    let feed = Feed::start_by_namespace(everywhere, watcher::Config::default());
    feed.ready().await;
    let names = |place: &str| -> Vec<String> {
        let found = feed.all_in(place);
        found.iter().map(|object| object.name_any()).collect()
    };
    assert_eq!(names(home.name()), ["a", "b"]);
    assert_eq!(names(other.name()), ["c"]);
    let mut changes = pin!(feed.subscribe().filter(|change| {
        let here = change.object().namespace().as_deref() == Some(home.name());
        std::future::ready(here && matches!(change, Change::Gone(_)))
    }));
    let api = home.api::<ConfigMap>();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(next(&mut changes).await, "a is gone");
    assert_eq!(names(home.name()), ["b"]);
    assert!(names("nowhere").is_empty());
}
