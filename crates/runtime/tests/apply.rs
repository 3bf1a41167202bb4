//! Applying, pruning and reporting against a real API server.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

use std::collections::BTreeMap;

use butler_runtime::{
    apply::{Applier, Outcome},
    error::{Category, Classify},
    finalizers, status,
};
use butler_testkit::{Namespace, Server};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace as KubeNamespace, NamespaceStatus};
use kube::{
    Api, Resource as _,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams},
};

const AGENT: &str = "apply-test";

fn map(namespace: &Namespace, name: &str, data: &[(&str, &str)]) -> ConfigMap {
    let data: BTreeMap<String, String> = data
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.name().to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    }
}

async fn home() -> (Namespace, Applier) {
    let server = Server::shared().await;
    let namespace = server.namespace("apply").await;
    (namespace, Applier::new(server.client_called(AGENT), AGENT))
}

#[tokio::test]
async fn what_stands_already_is_not_sent_again() {
    let (home, applier) = home().await;
    let planned = map(&home, "settings", &[("color", "blue")]);
    assert_eq!(
        applier.apply(&planned, None).await.unwrap(),
        Outcome::Written
    );
    let live = home.api::<ConfigMap>().get("settings").await.unwrap();
    let mark = home.server().mark().await;
    assert_eq!(
        applier.apply(&planned, Some(&live)).await.unwrap(),
        Outcome::Unchanged
    );
    assert_eq!(
        home.server()
            .audit(mark)
            .await
            .by_agent(AGENT)
            .in_namespace(&home)
            .count(),
        0
    );
}

#[tokio::test]
async fn a_change_by_somebody_else_is_put_back_and_their_own_field_is_left() {
    let (home, applier) = home().await;
    let planned = map(&home, "settings", &[("color", "blue")]);
    applier.apply(&planned, None).await.unwrap();
    let api = home.api::<ConfigMap>();
    let change = serde_json::json!({"data": {"color": "red", "theirs": "stays"}});
    let live = api
        .patch("settings", &PatchParams::default(), &Patch::Merge(&change))
        .await
        .unwrap();
    assert_eq!(
        applier.apply(&planned, Some(&live)).await.unwrap(),
        Outcome::Written
    );
    let data = api.get("settings").await.unwrap().data.unwrap();
    assert_eq!(data["color"], "blue");
    assert_eq!(data["theirs"], "stays");
}

#[tokio::test]
async fn a_field_that_leaves_the_plan_leaves_the_object() {
    let (home, applier) = home().await;
    applier
        .apply(&map(&home, "settings", &[("a", "1"), ("b", "2")]), None)
        .await
        .unwrap();
    let live = home.api::<ConfigMap>().get("settings").await.unwrap();
    applier
        .apply(&map(&home, "settings", &[("a", "1")]), Some(&live))
        .await
        .unwrap();
    let data = home
        .api::<ConfigMap>()
        .get("settings")
        .await
        .unwrap()
        .data
        .unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["a"]);
}

#[tokio::test]
async fn what_is_there_without_our_knowledge_is_brought_to_the_plan() {
    let (home, applier) = home().await;
    let earlier = map(&home, "settings", &[("color", "blue"), ("size", "7")]);
    applier.create(&earlier).await.unwrap();
    let planned = map(&home, "settings", &[("color", "red")]);
    applier.apply(&planned, None).await.unwrap();
    let live = home.api::<ConfigMap>().get("settings").await.unwrap();
    assert_eq!(live.data, planned.data);
    assert_eq!(
        applier.apply(&planned, Some(&live)).await.unwrap(),
        Outcome::Unchanged
    );
}

#[tokio::test]
async fn a_field_that_was_created_leaves_when_it_is_applied_over() {
    let (home, applier) = home().await;
    let earlier = map(&home, "settings", &[("color", "blue"), ("size", "7")]);
    applier.create(&earlier).await.unwrap();
    let seen = home.api::<ConfigMap>().get("settings").await.unwrap();
    let planned = map(&home, "settings", &[("color", "blue")]);
    applier.apply_over(&planned, &seen).await.unwrap();
    let live = home.api::<ConfigMap>().get("settings").await.unwrap();
    assert_eq!(live.data, planned.data);
    let other = map(&home, "settings", &[("color", "green")]);
    let late = applier.apply_over(&other, &seen).await.unwrap_err();
    assert_eq!(late.category(), Category::Conflict);
}

#[tokio::test]
async fn applying_over_an_old_view_loses_and_over_a_current_view_wins() {
    let (home, applier) = home().await;
    let api = home.api::<ConfigMap>();
    applier
        .create(&map(&home, "settings", &[("a", "1")]))
        .await
        .unwrap();
    let old = api.get("settings").await.unwrap();
    applier
        .apply_over(&map(&home, "settings", &[("a", "2")]), &old)
        .await
        .unwrap();
    let error = applier
        .apply_over(&map(&home, "settings", &[("a", "3")]), &old)
        .await
        .unwrap_err();
    assert_eq!(error.category(), Category::Conflict);
    let current = api.get("settings").await.unwrap();
    assert_eq!(current.data.as_ref().unwrap()["a"], "2");
    let planned = map(&home, "settings", &[("a", "2")]);
    assert_eq!(
        applier.apply_over(&planned, &current).await.unwrap(),
        Outcome::Unchanged
    );
}

#[tokio::test]
async fn creating_never_takes_over_what_exists() {
    let (home, applier) = home().await;
    let planned = map(&home, "settings", &[("color", "blue")]);
    applier.create(&planned).await.unwrap();
    let error = applier.create(&planned).await.unwrap_err();
    assert_eq!(error.category(), Category::Conflict);
}

/// A map that somebody controls.
fn map_of(home: &Namespace, owner: &ConfigMap, color: &str) -> ConfigMap {
    let mut made = map(home, "settings", &[("color", color)]);
    made.metadata.owner_references = owner.controller_owner_ref(&()).map(|it| vec![it]);
    made
}

#[tokio::test]
async fn what_is_new_is_made_taken_over_from_the_same_owner_and_left_to_any_other() {
    let (home, applier) = home().await;
    let api = home.api::<ConfigMap>();
    for name in ["owner", "other"] {
        applier.create(&map(&home, name, &[])).await.unwrap();
    }
    let owner = api.get("owner").await.unwrap();
    let other = api.get("other").await.unwrap();
    let color = async || api.get("settings").await.unwrap().data.unwrap()["color"].clone();

    assert!(
        applier
            .make_new(&map_of(&home, &owner, "blue"))
            .await
            .unwrap()
    );
    assert_eq!(color().await, "blue");
    // As after a crash between the write and the watch.
    assert!(
        applier
            .make_new(&map_of(&home, &owner, "red"))
            .await
            .unwrap()
    );
    assert_eq!(color().await, "red");
    let made = applier.apply_new(&map_of(&home, &owner, "green")).await;
    assert_eq!(made.unwrap().unwrap().data.unwrap()["color"], "green");

    assert!(
        !applier
            .make_new(&map_of(&home, &other, "grey"))
            .await
            .unwrap()
    );
    let refused = applier.apply_new(&map_of(&home, &other, "grey")).await;
    assert_eq!(refused.unwrap(), None);
    assert_eq!(color().await, "green");
}

#[tokio::test]
async fn a_delete_on_an_old_view_loses_and_one_on_a_current_view_wins() {
    let (home, applier) = home().await;
    applier
        .apply(&map(&home, "settings", &[("a", "1")]), None)
        .await
        .unwrap();
    let api = home.api::<ConfigMap>();
    let old = api.get("settings").await.unwrap();
    let change = serde_json::json!({"data": {"a": "2"}});
    api.patch("settings", &PatchParams::default(), &Patch::Merge(&change))
        .await
        .unwrap();
    assert_eq!(
        applier.delete(&old).await.unwrap_err().category(),
        Category::Conflict
    );
    let current = api.get("settings").await.unwrap();
    applier.delete(&current).await.unwrap();
    applier
        .delete(&current)
        .await
        .expect("what is gone need not be deleted");
}

#[tokio::test]
async fn pruning_removes_what_is_ours_and_no_longer_planned() {
    let (home, applier) = home().await;
    let keep = map(&home, "keep", &[]);
    for planned in [&keep, &map(&home, "drop", &[])] {
        applier.apply(planned, None).await.unwrap();
    }
    let api = home.api::<ConfigMap>();
    let ours = [
        api.get("keep").await.unwrap(),
        api.get("drop").await.unwrap(),
    ];
    applier.prune(&ours, [&keep]).await.unwrap();
    assert!(api.get_opt("keep").await.unwrap().is_some());
    assert!(api.get_opt("drop").await.unwrap().is_none());
}

#[tokio::test]
async fn a_report_about_a_dead_object_does_not_land_on_its_successor() {
    let (home, applier) = home().await;
    let api: Api<KubeNamespace> = Api::all(home.server().client());
    let mut object = api.get(home.name()).await.unwrap();
    let said = NamespaceStatus {
        phase: Some("Active".to_owned()),
        ..NamespaceStatus::default()
    };
    object.metadata.uid = Some("00000000-0000-0000-0000-000000000000".to_owned());
    let error = status::report(&applier, &object, None, &said)
        .await
        .unwrap_err();
    assert_eq!(error.category(), Category::Conflict);
}

#[tokio::test]
async fn a_finalizer_holds_an_object_until_it_is_removed() {
    let (home, applier) = home().await;
    let finalizer = "butler.butlerlabs.dev/test";
    applier.apply(&map(&home, "held", &[]), None).await.unwrap();
    let api = home.api::<ConfigMap>();
    let seen = api.get("held").await.unwrap();
    finalizers::add(&api, &seen, finalizer).await.unwrap();
    let error = finalizers::add(&api, &seen, finalizer).await.unwrap_err();
    assert_eq!(
        error.category(),
        Category::Conflict,
        "an old view must not write the list"
    );
    api.delete("held", &DeleteParams::default()).await.unwrap();
    let ending = api.get("held").await.unwrap();
    assert!(finalizers::has(&ending, finalizer) && ending.metadata.deletion_timestamp.is_some());
    finalizers::remove(&api, &ending, finalizer).await.unwrap();
    assert!(api.get_opt("held").await.unwrap().is_none());
}
