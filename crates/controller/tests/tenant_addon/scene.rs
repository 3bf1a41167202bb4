//! A tenant that is ready, whose API server is the test's own, and the controllers of addons.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use butler_api::butler::{TenantAddon, TenantCluster};
use butler_controller::{Surroundings, addon_engine::Settings, management_addon::Management};
use butler_runtime::{
    clock::SystemClock,
    endpoints::Readiness,
    metrics::Metrics,
    task::{self, Task},
};
use butler_testkit::{PATIENCE, Server, wait_for};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::{
    repository::{Repository, helm},
    stage,
};

pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) repository: Repository,
    pub(crate) folder: TempDir,
    pub(crate) namespace: String,
}

/// The controllers as a future.
pub(crate) async fn work(client: Client, folder: &Path) {
    let surroundings = surroundings(helm(), folder, Vec::new());
    butler_controller::run_addons(client, surroundings, CancellationToken::new()).await;
}

/// What the controllers work with.
fn surroundings(helm: PathBuf, folder: &Path, mirrors: Vec<(String, String)>) -> Surroundings {
    let surroundings = Surroundings::new(
        SystemClock::shared(),
        Metrics::default(),
        Readiness::default(),
    );
    surroundings.with_addons(Settings {
        helm,
        folder: folder.to_owned(),
        mirrors,
    })
}

/// A cluster that is ready, and a Secret with the password of the repository.
pub(crate) async fn tenant(server: &Server, namespace: &str) {
    tenant_named(server, namespace, "saturn").await;
}

/// The same for a cluster of another name.
pub(crate) async fn tenant_named(server: &Server, namespace: &str, name: &str) {
    let secret = format!("{name}-kubeconfig");
    let kubeconfig = std::fs::read_to_string(server.kubeconfig()).expect("a kubeconfig");
    let objects = [
        json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"admin.conf": kubeconfig},
            "metadata": {"name": secret, "namespace": namespace}}),
        json!({"apiVersion": "v1", "kind": "Secret",
            "stringData": {"username": "ada", "password": "sesame-open"},
            "metadata": {"name": "repository", "namespace": namespace,
                "labels": {"butler.butlerlabs.dev/for-addons": "true"}}}),
        json!({"apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"kubernetesVersion": "v1.35.4", "workers": {"replicas": 1}}}),
    ];
    for object in objects {
        server.apply_yaml(&object.to_string()).await;
    }
    let status = json!({"status": {
        "phase": "Ready", "tenantNamespace": namespace,
        "kubeconfigSecretRef": {"name": secret},
    }});
    let clusters: Api<TenantCluster> = Api::namespaced(server.client(), namespace);
    let params = PatchParams::default();
    let patched = clusters
        .patch_status(name, &params, &Patch::Merge(&status))
        .await;
    patched.expect("the cluster is ready");
}

/// An addon of the small chart whose release and namespace have the addon's name.
pub(crate) fn small(url: &str, namespace: &str, name: &str, more: &Value) -> Value {
    let mut addon = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantAddon",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "clusterRef": {"name": "saturn"}, "version": "1.0.0",
            "helm": {"repository": url, "chart": "small", "credentialsRef": {"name": "repository"}},
        },
    });
    butler_addons::values::lay_over(&mut addon, more);
    if addon["spec"]["helm"]["credentialsRef"].is_null() {
        addon["spec"]["helm"]
            .as_object_mut()
            .unwrap()
            .remove("credentialsRef");
    }
    addon
}

impl Scene {
    pub(crate) async fn new(server: Server) -> Self {
        let namespace = "planets".to_owned();
        server
            .apply_yaml("{apiVersion: v1, kind: Namespace, metadata: {name: planets}}")
            .await;
        tenant(&server, &namespace).await;
        Self {
            server,
            repository: Repository::start().await,
            folder: tempfile::tempdir().expect("a folder"),
            namespace,
        }
    }

    /// The controllers under their real permissions, until dropped.
    pub(crate) fn run(&self) -> Task {
        let client = self.server.client_for(&stage::controller_user());
        let folder = self.folder.path().to_owned();
        task::spawn("addons", async move { work(client, &folder).await })
    }

    /// The same with a mirror of a repository.
    pub(crate) fn run_mirrored(&self, from: &str, to: &str) -> Task {
        let mirrors = vec![(from.to_owned(), to.to_owned())];
        self.start(surroundings(helm(), self.folder.path(), mirrors))
    }

    /// The same with another program for Helm, and addons of the platform.
    pub(crate) fn run_by(&self, helm: PathBuf) -> Task {
        let mut surroundings = surroundings(helm, self.folder.path(), Vec::new());
        surroundings.management = Some(Management::from(&self.server.config()));
        self.start(surroundings)
    }

    fn start(&self, surroundings: Surroundings) -> Task {
        let client = self.server.client_for(&stage::controller_user());
        task::spawn("addons", async move {
            butler_controller::run_addons(client, surroundings, CancellationToken::new()).await;
        })
    }

    pub(crate) fn addons(&self) -> Api<TenantAddon> {
        Api::namespaced(self.server.client(), &self.namespace)
    }

    pub(crate) async fn add(&self, name: &str, more: &Value) {
        let addon = small(&self.repository.url(), &self.namespace, name, more);
        self.server.apply_yaml(&addon.to_string()).await;
    }

    /// Waits until a condition has a status for a reason.
    pub(crate) async fn until(&self, name: &str, condition: &str, reason: &str) -> TenantAddon {
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

    pub(crate) async fn change(&self, name: &str, change: &Value) {
        let params = PatchParams::default();
        let changed = self
            .addons()
            .patch(name, &params, &Patch::Merge(change))
            .await;
        changed.expect("a user changes the addon");
    }

    pub(crate) fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.server.client(), namespace)
    }

    /// What Helm itself says.
    pub(crate) fn helm(&self, arguments: &[&str]) -> String {
        let output = Command::new(helm())
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.server.kubeconfig())
            .env("HOME", self.folder.path())
            .output()
            .expect("helm runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    }
}
