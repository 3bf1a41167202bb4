//! A tenant with the catalogue's entries for Flux, and the repository that it is told of.

use std::{fs, path::Path};

use butler_api::butler::TenantAddon;
use butler_testkit::{Options, PATIENCE, flux::Flux, wait_for};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::{
    git::{BRANCH, Git},
    scene::Scene,
    stage,
};

/// The addon that tells Flux, as the cluster's own controller names it.
pub(crate) const SYNC: &str = "saturn-flux-sync";

pub(crate) struct Fleet {
    pub(crate) scene: Scene,
    pub(crate) git: Git,
}

impl Fleet {
    /// Flux's kinds are served and nobody sees to them.
    pub(crate) async fn new() -> Self {
        let scene = Scene::new(stage::server(Options::default()).await).await;
        Flux::install_definitions(&scene.server).await.unwrap();
        let fleet = Self {
            scene,
            git: Git::start().await,
        };
        let password = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "repository", "namespace": "butler-system"},
            "stringData": {"username": "ada", "password": "sesame-open"}});
        fleet.apply(&password).await;
        let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts");
        fleet
            .scene
            .repository
            .add(&charts.join("flux-sync"), "0.1.0");
        // Flux runs beside the API server here: the release that stands for it has to be there and no more.
        fleet.entry("flux", "small", "1.0.0").await;
        fleet.entry("flux-sync", "flux-sync", "0.1.0").await;
        fleet
    }

    pub(crate) async fn apply(&self, object: &Value) {
        self.scene.server.apply_yaml(&object.to_string()).await;
    }

    /// An entry of our catalogue, with a chart of the test's own repository.
    async fn entry(&self, name: &str, chart: &str, version: &str) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/butler-addons");
        let file = folder.join("definitions").join(format!("{name}.yaml"));
        let mut entry: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        entry["spec"]["chart"] = json!({
            "repository": self.scene.repository.url(), "name": chart, "defaultVersion": version,
            "credentialsRef": {"name": "repository"},
        });
        self.apply(&entry).await;
    }

    /// What the repository is read with.
    pub(crate) async fn give_token(&self, token: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "fleet", "namespace": self.scene.namespace,
                "labels": {"butler.butlerlabs.dev/for-addons": "true"}},
            "stringData": {"username": "git", "password": token}});
        self.apply(&secret).await;
    }

    /// Objects of Flux, in its own namespace.
    pub(crate) fn of_flux(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let group = format!("{group}.toolkit.fluxcd.io");
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, version, kind));
        Api::namespaced_with(self.scene.server.client(), "flux-system", &kind)
    }

    /// Has an addon looked at now, and not in a few minutes.
    pub(crate) async fn touch(&self, name: &str, why: &str) {
        let label = json!({"metadata": {"labels": {"looked-at": why}}});
        self.scene.change(name, &label).await;
    }

    /// Waits until the condition `Ready` of what tells Flux has a status and a message.
    pub(crate) async fn until_sync(&self, ready: &str, message: &str) -> TenantAddon {
        let what = format!("Ready={ready} and a word about {message:?}");
        wait_for(&self.scene.addons(), SYNC, &what, PATIENCE, |addon| {
            let status = addon.status.as_ref();
            let mut held = status.into_iter().flat_map(|status| &status.conditions);
            held.any(|held| {
                held.type_ == "Ready" && held.status == ready && held.message.contains(message)
            })
        })
        .await
    }

    /// Flux, and what tells it which folder to follow: the two addons that a cluster with a repository has.
    pub(crate) async fn tell_flux(&self, interval: &str) {
        let source = |key: &str| json!({"secret": "fleet", "key": key, "targetPath": format!("credentials.{key}")});
        let sync = json!({
            "addon": "flux-sync", "dependsOn": [{"name": "saturn-flux"}],
            "values": {"url": self.git.url(), "branch": BRANCH, "path": "clusters/saturn", "interval": interval},
            "valuesFrom": [source("username"), source("password")],
        });
        for (name, spec) in [("saturn-flux", json!({"addon": "flux"})), (SYNC, sync)] {
            let mut addon = json!({
                "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantAddon",
                "metadata": {"name": name, "namespace": self.scene.namespace},
                "spec": {"clusterRef": {"name": "saturn"}},
            });
            butler_addons::values::lay_over(&mut addon, &json!({ "spec": spec }));
            self.apply(&addon).await;
        }
    }
}
