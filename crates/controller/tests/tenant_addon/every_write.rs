//! An addon that is installed, and one that is removed, disturbed at every write to the platform's API server.

use butler_api::butler::TenantAddon;
use butler_runtime::task;
use butler_testkit::{
    Options, Scenario, World, at_every_write,
    faults::{Fault, Refusal},
    wait_for_condition,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::DeleteParams};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    repository::Repository,
    scene::{small, tenant, work},
    stage,
};

pub(crate) struct Installing {
    repository: Repository,
    pub(crate) folder: TempDir,
}

impl Installing {
    pub(crate) async fn new() -> Self {
        Self {
            repository: Repository::start().await,
            folder: tempfile::tempdir().unwrap(),
        }
    }
}

pub(crate) fn addons(world: &World) -> Api<TenantAddon> {
    Api::namespaced(world.server().client(), world.namespace().name())
}

async fn is_installed(world: &World) -> Result<bool, String> {
    let maps: Api<ConfigMap> = Api::namespaced(world.server().client(), world.namespace().name());
    let found = maps.get_opt("web").await;
    Ok(found.map_err(|error| error.to_string())?.is_some())
}

impl Scenario for Installing {
    async fn set_up(&self, world: &World) {
        tenant(world.server(), world.namespace().name()).await;
    }

    async fn controller(&self, client: Client, _: &World) {
        work(client, self.folder.path()).await;
    }

    async fn user(&self, world: &World) {
        let namespace = world.namespace().name();
        let here = json!({"spec": {"helm": {"namespace": namespace}}});
        let addon = small(&self.repository.url(), namespace, "web", &here);
        world.server().apply_yaml(&addon.to_string()).await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let addon = addons(world).get_opt("web").await;
        let addon = addon.map_err(|error| error.to_string())?;
        let status = addon.and_then(|addon| addon.status).unwrap_or_default();
        let mut conditions = status.conditions.iter();
        let is_ready = conditions.any(|held| held.type_ == "Ready" && held.status == "True");
        match (is_ready, is_installed(world).await?) {
            (true, true) => Ok(()),
            _ => Err(format!("the addon is not ready: {:?}", status.message)),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("butler.butlerlabs.dev/v1alpha1", "TenantAddon"),
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
        let (client, folder) = (world.server().client(), self.0.folder.path().to_owned());
        let _controllers = task::spawn("addons", async move { work(client, &folder).await });
        self.0.user(world).await;
        wait_for_condition(&addons(world), "web", "Ready", "True").await;
    }

    async fn controller(&self, client: Client, world: &World) {
        self.0.controller(client, world).await;
    }

    async fn user(&self, world: &World) {
        let deleted = addons(world).delete("web", &DeleteParams::default()).await;
        deleted.expect("a user deletes the addon");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let addon = addons(world).get_opt("web").await;
        match addon.map_err(|error| error.to_string())? {
            Some(addon) => Err(format!("the addon is still there: {:?}", addon.status)),
            None if is_installed(world).await? => Err("the release is still there".to_owned()),
            None => Ok(()),
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

#[tokio::test]
async fn an_addon_ends_up_the_same_whatever_goes_wrong() {
    let server = stage::server(Options::default()).await;
    let summary = at_every_write(&server, &Installing::new().await).await;
    println!("{summary:?}");
    assert!(summary.writes >= 3, "{summary:?}");
}

#[tokio::test]
async fn an_addon_is_gone_whatever_goes_wrong() {
    let server = stage::server(Options::default()).await;
    let summary = at_every_write(&server, &Removing(Installing::new().await)).await;
    println!("{summary:?}");
    assert!(summary.writes >= 2, "{summary:?}");
}
