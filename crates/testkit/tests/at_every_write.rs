//! The harness on a small controller that copies `ConfigMap`s: a correct one passes, and two with the bugs that
//! controllers really have are caught.

#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::{sync::Arc, time::Duration};

use butler_testkit::{Scenario, Server, World, at_every_write, try_at_every_write};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::ObjectMeta,
    runtime::{Controller, controller::Action, watcher},
};
use serde_json::json;

/// How the copier writes.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// Applies a copy with a fixed name, and says on the source that it did.
    Correct,
    /// Creates a copy with a generated name unless the source says that there is one.
    GeneratedName,
    /// Says on the source that it is copied, and then copies it.
    ReportsFirst,
}

struct Copier {
    style: Style,
    api: Api<ConfigMap>,
}

impl Copier {
    async fn reconcile(source: Arc<ConfigMap>, copier: Arc<Self>) -> Result<Action, kube::Error> {
        let reported = source.annotations().contains_key("copied");
        match copier.style {
            Style::Correct => {
                copier.apply_copy(&source).await?;
                if !reported {
                    copier.report(&source).await?;
                }
            }
            Style::GeneratedName if !reported => {
                copier.create_copy(&source).await?;
                copier.report(&source).await?;
            }
            Style::ReportsFirst if !reported => {
                copier.report(&source).await?;
                copier.apply_copy(&source).await?;
            }
            Style::GeneratedName | Style::ReportsFirst => {}
        }
        Ok(Action::await_change())
    }

    async fn apply_copy(&self, source: &ConfigMap) -> Result<(), kube::Error> {
        let name = format!("{}-copy", source.name_any());
        if self
            .api
            .get_opt(&name)
            .await?
            .is_some_and(|copy| copy.data == source.data)
        {
            return Ok(());
        }
        let copy = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "labels": { "role": "copy" } },
            "data": source.data,
        });
        let params = PatchParams::apply("copier").force();
        self.api
            .patch(&name, &params, &Patch::Apply(copy))
            .await
            .map(drop)
    }

    async fn create_copy(&self, source: &ConfigMap) -> Result<(), kube::Error> {
        let metadata = ObjectMeta {
            generate_name: Some(format!("{}-", source.name_any())),
            labels: Some([("role".to_owned(), "copy".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let copy = ConfigMap {
            metadata,
            data: source.data.clone(),
            ..ConfigMap::default()
        };
        self.api
            .create(&PostParams::default(), &copy)
            .await
            .map(drop)
    }

    async fn report(&self, source: &ConfigMap) -> Result<(), kube::Error> {
        let patch = json!({ "metadata": { "annotations": { "copied": "yes" } } });
        let (name, params) = (source.name_any(), PatchParams::default());
        self.api
            .patch(&name, &params, &Patch::Merge(patch))
            .await
            .map(drop)
    }
}

struct Copying(Style);

impl Scenario for Copying {
    async fn set_up(&self, world: &World) {
        let source = "{apiVersion: v1, kind: ConfigMap, metadata: {name: before, labels: {role: source}}, data: {a: b}}";
        world.namespace().apply_yaml(source).await;
    }

    async fn controller(&self, client: Client, world: &World) {
        let api: Api<ConfigMap> = Api::namespaced(client, world.namespace());
        let copier = Arc::new(Copier {
            style: self.0,
            api: api.clone(),
        });
        Controller::new(api, watcher::Config::default().labels("role=source"))
            .run(
                Copier::reconcile,
                |_, _, _| Action::requeue(Duration::from_millis(50)),
                copier,
            )
            .for_each(|_| async {})
            .await;
    }

    async fn user(&self, world: &World) {
        let source = "{apiVersion: v1, kind: ConfigMap, metadata: {name: during, labels: {role: source}}, data: {c: d}}";
        world.namespace().apply_yaml(source).await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let sources = ListParams::default().labels("role=source");
        let sources = world
            .namespace()
            .api::<ConfigMap>()
            .list(&sources)
            .await
            .unwrap();
        let open = sources
            .iter()
            .filter(|source| !source.annotations().contains_key("copied"));
        match open.count() {
            0 => Ok(()),
            open => Err(format!("{open} sources are not copied")),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![("v1", "ConfigMap")]
    }
}

#[tokio::test]
async fn a_correct_controller_ends_the_same_whatever_goes_wrong() {
    let server = Server::shared().await;
    let summary = at_every_write(&server, &Copying(Style::Correct)).await;
    assert_eq!(
        (summary.writes, summary.runs, summary.not_reached),
        (4, 24, 0)
    );
}

#[tokio::test]
async fn a_creation_that_is_not_idempotent_is_caught() {
    let server = Server::shared().await;
    let failures = try_at_every_write(&server, &Copying(Style::GeneratedName))
        .await
        .unwrap_err();
    let text = failures.to_string();
    assert!(text.contains("crash after it"), "{text}");
    assert!(
        text.contains("(number 2): not in the undisturbed run"),
        "{text}"
    );
    assert!(
        !text.contains("write 1 (POST /api/v1/namespaces/world/configmaps): crash before it"),
        "{text}"
    );
}

#[tokio::test]
async fn a_report_before_the_work_is_caught() {
    let server = Server::shared().await;
    let failures = try_at_every_write(&server, &Copying(Style::ReportsFirst))
        .await
        .unwrap_err();
    let text = failures.to_string();
    assert!(
        text.contains("ConfigMap world/before-copy: missing"),
        "{text}"
    );
}
