//! An addon that is upgraded, one whose upgrade is taken back, and one whose objects are put back, disturbed at every
//! write to the platform's API server.

use butler_api::butler::{TenantAddon, tenant_addon::TenantAddonStatus};
use butler_runtime::task;
use butler_testkit::{Options, Scenario, World, at_every_write, faults::Fault, wait_for_condition};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    every_write::{Installing, addons},
    scene::work,
    stage,
};

/// What happens to an addon that stands.
#[derive(Clone, Copy)]
enum Change {
    Upgrade,
    Rollback,
    Drift,
}

struct Changing {
    installing: Installing,
    change: Change,
}

fn maps(world: &World) -> Api<ConfigMap> {
    Api::namespaced(world.server().client(), world.namespace().name())
}

async fn patch(world: &World, change: &Value) {
    let parameters = PatchParams::default();
    let api: Api<TenantAddon> = addons(world);
    let patched = api.patch("web", &parameters, &Patch::Merge(change)).await;
    patched.expect("a user changes the addon");
}

impl Changing {
    async fn new(change: Change) -> Self {
        Self {
            installing: Installing::new().await,
            change,
        }
    }

    /// What is still missing.
    async fn missing(&self, world: &World, status: &TenantAddonStatus) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{what}: {:?}", status.message));
        let text = |error: kube::Error| error.to_string();
        let has = |kind: &str, reason: &str| {
            let mut all = status.conditions.iter();
            all.any(|held| held.type_ == kind && held.reason == reason)
        };
        let map = maps(world).get("web").await.map_err(text)?;
        let map = map.data.unwrap_or_default();
        match self.change {
            Change::Upgrade if !has("Ready", "Ready") || map["version"] != "2.0.0" => {
                wrong("it is not upgraded")
            }
            Change::Drift if !has("Ready", "Ready") || map["greeting"] != "hello" => {
                wrong("it is not put back")
            }
            Change::Rollback => {
                let namespace = world.namespace().name();
                let deployments: Api<Deployment> =
                    Api::namespaced(world.server().client(), namespace);
                let ill = deployments.get_opt("web").await.map_err(text)?;
                if ill.is_some() || !has("Installed", "RolledBack") {
                    return wrong("it is not rolled back");
                }
                Ok(())
            }
            Change::Upgrade | Change::Drift => Ok(()),
        }
    }
}

impl Scenario for Changing {
    async fn set_up(&self, world: &World) {
        self.installing.set_up(world).await;
        let folder = self.installing.folder.path().to_owned();
        let client = world.server().client();
        let _controllers = task::spawn("addons", async move { work(client, &folder).await });
        self.installing.user(world).await;
        wait_for_condition(&addons(world), "web", "Ready", "True").await;
    }

    async fn controller(&self, client: Client, world: &World) {
        self.installing.controller(client, world).await;
    }

    async fn user(&self, world: &World) {
        match self.change {
            Change::Upgrade => patch(world, &json!({"spec": {"version": "2.0.0"}})).await,
            Change::Rollback => {
                let ill = json!({"spec": {"timeout": "2s", "values": {"workload": "nowhere"}}});
                patch(world, &ill).await;
            }
            Change::Drift => {
                let vandal = PatchParams::apply("vandal").force();
                let change = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"greeting": "go away"}});
                let change = Patch::Apply(&change);
                let changed = maps(world).patch("web", &vandal, &change).await;
                changed.expect("somebody changes what was installed");
                // Nobody tells of that: this makes the addon be looked at.
                patch(world, &json!({"spec": {"historyLimit": 5}})).await;
            }
        }
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let addon = addons(world).get("web").await;
        let addon = addon.map_err(|error| error.to_string())?;
        let status = addon.status.unwrap_or_default();
        if status.observed_generation != addon.metadata.generation {
            return Err("the change was not seen yet".to_owned());
        }
        self.missing(world, &status).await
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        self.installing.kinds()
    }

    fn simplify(&self, object: &mut Value) {
        self.installing.simplify(object);
    }

    fn faults(&self) -> Vec<Fault> {
        self.installing.faults()
    }

    // The controllers look after the whole server.
    fn parallel(&self) -> usize {
        1
    }
}

async fn disturb(change: Change, least: usize) {
    let server = stage::server(Options::default()).await;
    let summary = at_every_write(&server, &Changing::new(change).await).await;
    println!("{summary:?}");
    assert!(summary.writes >= least, "{summary:?}");
}

#[tokio::test]
async fn an_upgrade_ends_up_the_same_whatever_goes_wrong() {
    disturb(Change::Upgrade, 2).await;
}

#[tokio::test]
async fn an_upgrade_that_is_taken_back_ends_up_the_same_whatever_goes_wrong() {
    disturb(Change::Rollback, 2).await;
}

#[tokio::test]
async fn what_somebody_changed_is_put_back_whatever_goes_wrong() {
    disturb(Change::Drift, 1).await;
}
