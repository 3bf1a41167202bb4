//! Addons on the management cluster itself, installed by the real Helm.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::large_futures,
    reason = "a test fails where it stands"
)]

mod every_write;
#[allow(dead_code, reason = "each test uses its part")]
#[path = "../tenant_addon/repository.rs"]
mod repository;
#[path = "../stage/mod.rs"]
mod stage;

use std::path::Path;

use butler_api::butler::{ManagementAddon, management_addon::ManagementAddonPhase};
use butler_controller::{Surroundings, addon_engine::Settings, management_addon::Management};
use butler_runtime::{
    clock::SystemClock,
    endpoints::Readiness,
    metrics::Metrics,
    task::{self, Task},
};
use butler_testkit::{Options, PATIENCE, Server, wait_for, wait_until_gone};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret, ServiceAccount},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::repository::{Repository, helm};

struct Scene {
    server: Server,
    repository: Repository,
    folder: TempDir,
}

/// A Secret with the password of the repository.
async fn give_password(server: &Server) {
    let password = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "repository", "namespace": "butler-system",
            "labels": {"butler.butlerlabs.dev/for-addons": "true"}},
        "stringData": {"username": "ada", "password": "sesame-open"}});
    server.apply_yaml(&password.to_string()).await;
}

/// An entry of the catalogue with the small chart.
fn definition(repository: &Repository, name: &str, more: &Value) -> Value {
    let mut entry = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "AddonDefinition",
        "metadata": {"name": name},
        "spec": {
            "displayName": "Small", "description": "A small chart.", "category": "other",
            "chart": {"repository": repository.url(), "name": "small", "defaultVersion": "1.0.0",
                "credentialsRef": {"name": "repository"}},
            "defaults": {"values": {"greeting": "from the catalogue"}},
        },
    });
    butler_addons::values::lay_over(&mut entry, more);
    entry
}

async fn add(server: &Server, name: &str, spec: &Value) {
    let addon = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "ManagementAddon",
        "metadata": {"name": name}, "spec": spec,
    });
    server.apply_yaml(&addon.to_string()).await;
}

/// What the controllers need to install addons on this server.
fn surroundings(server: &Server, folder: &Path) -> Surroundings {
    let settings = Settings {
        helm: helm(),
        folder: folder.to_owned(),
        mirrors: Vec::new(),
    };
    let mut surroundings = Surroundings::new(
        SystemClock::shared(),
        Metrics::default(),
        Readiness::default(),
    )
    .with_addons(settings);
    surroundings.management = Some(Management::from(&server.config()));
    surroundings
}

impl Scene {
    async fn new() -> Self {
        let scene = Self {
            server: stage::server(Options::default()).await,
            repository: Repository::start().await,
            folder: tempfile::tempdir().unwrap(),
        };
        give_password(&scene.server).await;
        scene.define("small", &json!({})).await;
        scene
    }

    async fn define(&self, name: &str, more: &Value) {
        let entry = definition(&self.repository, name, more);
        self.server.apply_yaml(&entry.to_string()).await;
    }

    async fn add(&self, name: &str, spec: &Value) {
        add(&self.server, name, spec).await;
    }

    /// The controllers under their real permissions, until dropped.
    fn run(&self) -> Task {
        let client = self.server.client_for(&stage::controller_user());
        let surroundings = surroundings(&self.server, self.folder.path());
        task::spawn("addons", async move {
            butler_controller::run_addons(client, surroundings, CancellationToken::new()).await;
        })
    }

    fn addons(&self) -> Api<ManagementAddon> {
        Api::all(self.server.client())
    }

    fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.server.client(), namespace)
    }

    async fn until(&self, name: &str, condition: &str, reason: &str) -> ManagementAddon {
        let what = format!("{condition} for reason {reason}");
        wait_for(&self.addons(), name, &what, PATIENCE, |addon| {
            let current = addon
                .status
                .as_ref()
                .filter(|status| status.observed_generation == addon.metadata.generation);
            let mut held = current.into_iter().flat_map(|status| &status.conditions);
            held.any(|held| held.type_ == condition && held.reason == reason)
        })
        .await
    }

    async fn greeting(&self, namespace: &str, name: &str, wanted: &str) {
        let maps = self.maps(namespace);
        wait_for(&maps, name, wanted, PATIENCE, |map| {
            let greeting = map.data.as_ref().and_then(|data| data.get("greeting"));
            greeting.is_some_and(|greeting| greeting == wanted)
        })
        .await;
    }
}

#[tokio::test]
async fn an_addon_is_installed_with_its_values_kept_so_upgraded_and_removed() {
    let scene = Scene::new().await;
    let controllers = scene.run();
    let values = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "values", "namespace": "butler-system",
            "labels": {"butler.butlerlabs.dev/for-addons": "true"}},
        "stringData": {"password": "hunter2-hunter2"}});
    scene.server.apply_yaml(&values.to_string()).await;
    let from = json!([{"secret": "values", "key": "password", "targetPath": "password"}]);
    scene
        .add("blue", &json!({"addon": "small", "valuesFrom": from}))
        .await;
    let addon = scene.until("blue", "Ready", "Ready").await;
    let status = addon.status.clone().unwrap();
    assert_eq!(status.phase, Some(ManagementAddonPhase::Installed));
    assert_eq!(status.installed_version.as_deref(), Some("1.0.0"));
    assert_eq!(status.last_attempted_version.as_deref(), Some("1.0.0"));
    scene
        .greeting("blue-system", "blue", "from the catalogue")
        .await;
    let secrets: Api<Secret> = Api::namespaced(scene.server.client(), "blue-system");
    let secret = secrets.get("blue").await.unwrap();
    assert_eq!(secret.data.unwrap()["password"].0, b"hunter2-hunter2");
    let seen = serde_json::to_string(&addon).unwrap();
    assert!(!seen.contains("hunter2"), "a secret in {seen}");

    drop(controllers);
    let change = Patch::Merge(json!({"data": {"greeting": "go away"}}));
    let params = PatchParams::default();
    let maps = scene.maps("blue-system");
    maps.patch("blue", &params, &change).await.unwrap();
    let _controllers = scene.run();
    scene
        .greeting("blue-system", "blue", "from the catalogue")
        .await;

    let change = Patch::Merge(json!({"spec": {"version": "2.0.0", "values": {"greeting": "hi"}}}));
    let addons = scene.addons();
    addons.patch("blue", &params, &change).await.unwrap();
    scene.greeting("blue-system", "blue", "hi").await;
    scene.until("blue", "Ready", "Ready").await;
    addons
        .delete("blue", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&addons, "blue").await;
    let left = ListParams::default().labels("owner=helm");
    assert!(secrets.list(&left).await.unwrap().items.is_empty());
    assert!(maps.get_opt("blue").await.unwrap().is_none());
}

#[tokio::test]
async fn what_stands_in_the_way_is_said_and_goes_on_when_it_is_gone() {
    let scene = Scene::new().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(scene.server.client(), "butler-system");
    let account = accounts.get("butler-management-addons").await.unwrap();
    let none = DeleteParams::default();
    accounts
        .delete("butler-management-addons", &none)
        .await
        .unwrap();
    scene
        .define("upper", &json!({"spec": {"dependsOn": ["small"]}}))
        .await;
    let _controllers = scene.run();
    scene.add("nothing", &json!({"addon": "nope"})).await;
    scene.until("nothing", "Installed", "AddonNotFound").await;
    scene.add("upper", &json!({"addon": "upper"})).await;
    scene
        .until("upper", "DependenciesMet", "DependencyMissing")
        .await;
    scene.add("lower", &json!({"addon": "small"})).await;
    let addon = scene.until("lower", "Ready", "NoAccount").await;
    let message = addon.status.unwrap().message.unwrap();
    assert!(
        message.contains("managementAddons.enabled=true"),
        "{message}"
    );
    // Nothing was installed, so nothing is waited for.
    scene.addons().delete("nothing", &none).await.unwrap();
    wait_until_gone(&scene.addons(), "nothing").await;

    let again = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": account.metadata.name, "namespace": "butler-system"}});
    scene.server.apply_yaml(&again.to_string()).await;
    let look = Patch::Merge(json!({"metadata": {"labels": {"look": "again"}}}));
    let params = PatchParams::default();
    scene.addons().patch("lower", &params, &look).await.unwrap();
    scene.until("lower", "Ready", "Ready").await;
    scene.until("upper", "Ready", "Ready").await;
}

#[tokio::test]
async fn a_chart_of_ones_own_waits_for_what_it_names_and_is_degraded_when_it_breaks() {
    let scene = Scene::new().await;
    let _controllers = scene.run();
    let helm = json!({"repository": scene.repository.url(), "chart": "small", "namespace": "apps",
        "credentialsRef": {"name": "repository"}});
    let own = json!({"helm": helm, "version": "1.0.0", "values": {"workload": "app"},
        "dependsOn": [{"name": "lower"}]});
    scene.add("own", &own).await;
    let addon = scene
        .until("own", "DependenciesMet", "DependencyMissing")
        .await;
    let said = addon.status.unwrap().message.unwrap();
    assert!(said.contains("there is no addon lower"), "{said}");
    scene.add("lower", &json!({"addon": "small"})).await;
    scene.until("own", "Healthy", "Progressing").await;

    let deployments: Api<Deployment> = Api::namespaced(scene.server.client(), "apps");
    let params = PatchParams::default();
    let report = async |ready: i32| {
        let status = json!({"status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": ready, "availableReplicas": ready}});
        let status = Patch::Merge(&status);
        let patched = deployments.patch_status("own", &params, &status).await;
        patched.unwrap();
    };
    report(1).await;
    scene.until("own", "Ready", "Ready").await;
    report(0).await;
    let look = Patch::Merge(json!({"metadata": {"labels": {"look": "again"}}}));
    scene.addons().patch("own", &params, &look).await.unwrap();
    wait_for(&scene.addons(), "own", "Degraded", PATIENCE, |addon| {
        let phase = addon.status.as_ref().and_then(|status| status.phase);
        phase == Some(ManagementAddonPhase::Degraded)
    })
    .await;
}

#[tokio::test]
async fn of_two_addons_for_one_release_the_second_is_refused_and_named() {
    let scene = Scene::new().await;
    let helm = json!({"repository": scene.repository.url(), "chart": "small", "namespace": "apps",
        "releaseName": "web", "credentialsRef": {"name": "repository"}});
    let spec = json!({"helm": helm, "version": "1.0.0"});
    let mut both = Vec::new();
    for name in ["one", "other"] {
        scene.add(name, &spec).await;
        let made = scene.addons().get(name).await.unwrap().metadata;
        both.push((made.creation_timestamp, made.uid, name));
    }
    // Of two that were made in one second the identity tells which is first.
    both.sort();
    let (first, second) = (both[0].2, both[1].2);
    // Both are there before anybody installs one of them.
    let _controllers = scene.run();
    let refused = scene.until(second, "Installed", "ReleaseTaken").await;
    let said = refused.status.unwrap().message.unwrap();
    let named = format!("belongs to ManagementAddon {first}");
    assert!(said.contains(&named), "{said}");
    scene.until(first, "Ready", "Ready").await;
    scene.add("third", &json!({"addon": "small"})).await;
    scene.add("fourth", &json!({"addon": "small"})).await;
    for name in ["third", "fourth"] {
        scene.until(name, "Ready", "Ready").await;
    }
}
