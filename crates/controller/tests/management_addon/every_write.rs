//! An addon of the management cluster that is installed, changed and removed, disturbed at every write of the controller.

use butler_api::butler::ManagementAddon;
use butler_testkit::{
    Options, Scenario, Server, World, at_every_write,
    faults::{Fault, Refusal},
    wait_for_condition,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{add, definition, give_password, repository::Repository, stage, surroundings};

/// An addon is asked for, and another version of it while the first is being installed.
struct Installing {
    repository: Repository,
    folder: TempDir,
}

impl Installing {
    async fn new() -> Self {
        Self {
            repository: Repository::start().await,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    async fn ask(&self, world: &World) {
        add(
            world.server(),
            &world.name("web"),
            &json!({"addon": world.name("small")}),
        )
        .await;
    }
}

fn addons(world: &World) -> Api<ManagementAddon> {
    Api::all(world.server().client())
}

async fn greeting(world: &World) -> Result<Option<String>, String> {
    let maps: Api<ConfigMap> = Api::namespaced(world.server().client(), world.namespace().name());
    let found = maps.get_opt(&world.name("web")).await;
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.and_then(|map| map.data?.get("greeting").cloned()))
}

impl Scenario for Installing {
    async fn set_up(&self, world: &World) {
        let here = json!({"spec": {"defaults": {"namespace": world.namespace().name()}}});
        let entry = definition(&self.repository, &world.name("small"), &here);
        world.server().apply_yaml(&entry.to_string()).await;
    }

    async fn controller(&self, client: Client, world: &World) {
        let surroundings = surroundings(world.server(), self.folder.path());
        butler_controller::run_addons(client, surroundings, CancellationToken::new()).await;
    }

    async fn user(&self, world: &World) {
        self.ask(world).await;
        wait_for_condition(&addons(world), &world.name("web"), "Ready", "True").await;
        let change =
            Patch::Merge(json!({"spec": {"version": "2.0.0", "values": {"greeting": "hi"}}}));
        let (name, parameters) = (world.name("web"), PatchParams::default());
        let changed = addons(world).patch(&name, &parameters, &change).await;
        changed.expect("a user changes the addon");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let addon = addons(world).get_opt(&world.name("web")).await;
        let addon = addon.map_err(|error| error.to_string())?;
        let addon = addon.ok_or("there is no addon")?;
        let status = addon.status.unwrap_or_default();
        let mut conditions = status.conditions.iter();
        let is_ready = conditions.any(|held| held.type_ == "Ready" && held.status == "True");
        let is_current = status.observed_generation == addon.metadata.generation;
        let has_version = status.installed_version.as_deref() == Some("2.0.0");
        match greeting(world).await?.as_deref() {
            Some("hi") if is_ready && is_current && has_version => Ok(()),
            greeting => Err(format!("not ready: {greeting:?}, {:?}", status.message)),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("butler.butlerlabs.dev/v1alpha1", "ManagementAddon"),
            ("v1", "ConfigMap"),
        ]
    }

    /// A step that was broken off is another revision of the release.
    fn simplify(&self, object: &mut serde_json::Value) {
        if let Some(release) = object.pointer_mut("/status/helmRelease") {
            release["revision"] = json!(1);
        }
    }

    fn faults(&self) -> Vec<Fault> {
        vec![
            Fault::CrashBefore,
            Fault::CrashAfter,
            Fault::Refuse(Refusal::Conflict),
            Fault::Stale(self.quiet() / 2),
        ]
    }

    // The controllers look after the whole server.
    fn parallel(&self) -> usize {
        1
    }
}

struct Removing(Installing);

impl Scenario for Removing {
    async fn set_up(&self, world: &World) {
        self.0.set_up(world).await;
        let client = world.server().client();
        let surroundings = surroundings(world.server(), self.0.folder.path());
        let _controllers = butler_runtime::task::spawn("addons", async move {
            butler_controller::run_addons(client, surroundings, CancellationToken::new()).await;
        });
        self.0.ask(world).await;
        wait_for_condition(&addons(world), &world.name("web"), "Ready", "True").await;
    }

    async fn controller(&self, client: Client, world: &World) {
        self.0.controller(client, world).await;
    }

    async fn user(&self, world: &World) {
        let (name, parameters) = (world.name("web"), DeleteParams::default());
        let deleted = addons(world).delete(&name, &parameters).await;
        deleted.expect("a user deletes the addon");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let addon = addons(world).get_opt(&world.name("web")).await;
        if let Some(addon) = addon.map_err(|error| error.to_string())? {
            return Err(format!("the addon is still there: {:?}", addon.status));
        }
        let secrets: Api<Secret> =
            Api::namespaced(world.server().client(), world.namespace().name());
        let records = ListParams::default().labels("owner=helm");
        let records = secrets.list_metadata(&records).await;
        let records = records.map_err(|error| error.to_string())?.items.len();
        match (greeting(world).await?, records) {
            (None, 0) => Ok(()),
            left => Err(format!("the release is still there: {left:?}")),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        self.0.kinds()
    }

    fn faults(&self) -> Vec<Fault> {
        self.0.faults()
    }

    fn parallel(&self) -> usize {
        1
    }
}

async fn scene() -> Server {
    let server = stage::server(Options::default()).await;
    give_password(&server).await;
    server
}

#[tokio::test]
async fn an_addon_of_the_platform_ends_up_the_same_whatever_goes_wrong() {
    let server = scene().await;
    let summary = at_every_write(&server, &Installing::new().await).await;
    println!("{summary:?}");
    assert!(summary.writes >= 5, "{summary:?}");
}

#[tokio::test]
async fn an_addon_of_the_platform_is_gone_whatever_goes_wrong() {
    let server = scene().await;
    let summary = at_every_write(&server, &Removing(Installing::new().await)).await;
    println!("{summary:?}");
    assert!(summary.writes >= 2, "{summary:?}");
}
