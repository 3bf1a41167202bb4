//! Addons that come with a cluster, installed by the real Helm on the test's own API server, which stands in for that of
//! the tenant.

use butler_api::butler::{TenantAddon, TenantCluster, tenant_cluster::Phase};
use butler_controller::addon_engine::Settings;
use butler_runtime::task::Task;
use butler_testkit::{PATIENCE, Server, wait_for, wait_until_gone};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    driver::{self, Driver},
    repository::{Repository, helm},
    stage,
};

pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) repository: Repository,
    folder: TempDir,
    namespace: &'static str,
    _driver: Driver,
}

impl Scene {
    pub(crate) async fn new(namespace: &'static str) -> Self {
        let server = crate::stage().await;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "repository", "namespace": "butler-system"},
            "stringData": {"username": "ada", "password": "sesame-open"},
        });
        server.apply_yaml(&secret.to_string()).await;
        Self {
            _driver: Driver::start(&server.client()),
            repository: Repository::start().await,
            folder: tempfile::tempdir().unwrap(),
            namespace,
            server,
        }
    }

    /// The controllers under their real permissions, until dropped.
    pub(crate) fn run(&self) -> Task {
        let settings = Settings {
            helm: helm(),
            folder: self.folder.path().to_owned(),
            mirrors: Vec::new(),
        };
        let client = self.server.client_for(&stage::controller_user());
        stage::run_with_addons(client, settings)
    }

    /// An entry of the catalogue that installs the small chart.
    pub(crate) async fn define(&self, name: &str, category: &str, values: &Value) {
        let definition = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "AddonDefinition", "metadata": {"name": name},
            "spec": {
                "displayName": name, "description": "small", "category": category, "platform": true,
                "chart": {"repository": self.repository.url(), "name": "small", "defaultVersion": "1.0.0",
                    "credentialsRef": {"name": "repository"}},
                "defaults": {"namespace": format!("{name}-system"), "values": values},
            },
        });
        self.server.apply_yaml(&definition.to_string()).await;
    }

    /// A cluster, and its kubeconfig as soon as there is a place for it.
    pub(crate) async fn make(&self, spec: &Value) {
        let mut cluster = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": "demo", "namespace": self.namespace},
            "spec": {"kubernetesVersion": "v1.35.4", "providerConfigRef": {"name": "local"}, "workers": {"replicas": 1}},
        });
        butler_addons::values::lay_over(&mut cluster["spec"], spec);
        let namespace = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {}}}}}",
            self.namespace
        );
        self.server.apply_yaml(&namespace).await;
        self.server.apply_yaml(&cluster.to_string()).await;
        let home = self.home().await;
        let kubeconfig = std::fs::read_to_string(self.server.kubeconfig()).unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "demo-kubeconfig", "namespace": home},
            "stringData": {"admin.conf": kubeconfig},
        });
        self.server.apply_yaml(&secret.to_string()).await;
    }

    async fn home(&self) -> String {
        let clusters = self.clusters();
        let demo = wait_for(&clusters, "demo", "its namespace", PATIENCE, |demo| {
            let status = demo.status.as_ref();
            status.is_some_and(|status| status.control_plane_endpoint.is_some())
        });
        demo.await.status.unwrap().tenant_namespace.unwrap()
    }

    pub(crate) fn clusters(&self) -> Api<TenantCluster> {
        Api::namespaced(self.server.client(), self.namespace)
    }

    pub(crate) fn addons(&self) -> Api<TenantAddon> {
        Api::namespaced(self.server.client(), self.namespace)
    }

    pub(crate) async fn change(&self, change: Value) {
        crate::patch(&self.clusters(), change).await;
    }

    /// Waits until a condition of the cluster has a status for a reason, and gives the cluster.
    pub(crate) async fn until(&self, kind: &str, status: &str, reason: &str) -> TenantCluster {
        let what = format!("{kind} to be {status} for reason {reason}");
        wait_for(&self.clusters(), "demo", &what, PATIENCE, |demo| {
            let conditions = demo.status.iter().flat_map(|status| &status.conditions);
            let is_current = |generation| generation == demo.metadata.generation;
            conditions.into_iter().any(|it| {
                it.type_ == kind
                    && it.status == status
                    && it.reason == reason
                    && is_current(it.observed_generation)
            })
        })
        .await
    }

    /// The version that a release says it has; nothing while it is not there.
    pub(crate) async fn installed(&self, addon: &str) -> Option<String> {
        let maps: Api<ConfigMap> =
            Api::namespaced(self.server.client(), &format!("{addon}-system"));
        let found = maps.get_opt(addon).await.unwrap();
        found.and_then(|map| map.data.unwrap_or_default().remove("version"))
    }

    /// Records of Helm about a release.
    pub(crate) async fn records(&self, addon: &str) -> usize {
        let secrets: Api<Secret> =
            Api::namespaced(self.server.client(), &format!("{addon}-system"));
        let owned = ListParams::default().labels("owner=helm");
        secrets.list(&owned).await.unwrap().items.len()
    }
}

pub(crate) fn message(cluster: &TenantCluster, kind: &str) -> String {
    let status = cluster.status.as_ref().unwrap();
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|held| held.type_ == kind);
    found.unwrap().message.clone()
}

#[tokio::test]
async fn addons_are_installed_before_a_cluster_is_ready_follow_its_spec_and_go_before_it() {
    let scene = Scene::new("team-p").await;
    scene
        .define("local-path-provisioner", "storage", &json!({}))
        .await;
    scene
        .define("metrics-server", "observability", &json!({}))
        .await;
    let _controllers = scene.run();
    let asked = json!({"addons": {
        "storage": {"values": {"greeting": "from the cluster"}},
        "monitoring": {"provider": "metrics-server"},
    }});
    scene.make(&asked).await;
    let demo = scene.until("Ready", "True", "Ready").await;
    let status = demo.status.clone().unwrap();
    assert_eq!(status.phase, Some(Phase::Ready));
    let seen = status.observed_state.unwrap().addons;
    let seen: Vec<(String, String)> = seen
        .into_iter()
        .map(|addon| (addon.name, format!("{} {:?}", addon.version, addon.status)))
        .collect();
    let healthy = |name: &str| (name.to_owned(), "1.0.0 Healthy".to_owned());
    assert_eq!(
        seen,
        [
            healthy("demo-local-path-provisioner"),
            healthy("demo-metrics-server")
        ]
    );
    let storage = scene
        .addons()
        .get("demo-local-path-provisioner")
        .await
        .unwrap();
    assert_eq!(storage.owner_references()[0].uid, demo.uid().unwrap());
    assert_eq!(
        storage.spec.values,
        Some(json!({"greeting": "from the cluster"}))
    );

    // Another version after it was ready.
    let bump = json!({"spec": {"addons": {"storage": {"version": "2.0.0"}}}});
    scene.change(bump).await;
    let what = "the new version";
    wait_for(
        &scene.addons(),
        "demo-local-path-provisioner",
        what,
        PATIENCE,
        |addon| {
            let status = addon.status.clone().unwrap_or_default();
            status.installed_version.as_deref() == Some("2.0.0")
        },
    )
    .await;
    assert_eq!(
        scene.installed("local-path-provisioner").await.as_deref(),
        Some("2.0.0")
    );

    // What is switched off stays until its user agrees.
    let off = json!({"spec": {"addons": {"monitoring": {"enabled": false}}}});
    scene.change(off).await;
    let demo = scene.until("Ready", "True", "ActionNeeded").await;
    let said = message(&demo, "Ready");
    assert!(said.contains("remove-addons=metrics-server"), "{said}");
    assert_eq!(scene.records("metrics-server").await, 1);
    let agree = json!({"metadata": {"annotations": {"butler.butlerlabs.dev/remove-addons": "metrics-server"}}});
    scene.change(agree).await;
    wait_until_gone(&scene.addons(), "demo-metrics-server").await;
    assert_eq!(scene.records("metrics-server").await, 0);

    // An addon of its user.
    let own = json!({
        "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "TenantAddon",
        "metadata": {"name": "own", "namespace": "team-p"},
        "spec": {"clusterRef": {"name": "demo"}, "addon": "metrics-server"},
    });
    scene.server.apply_yaml(&own.to_string()).await;
    let what = "to be ready";
    wait_for(&scene.addons(), "own", what, PATIENCE, |addon| {
        let status = addon.status.clone().unwrap_or_default();
        status.installed_version.is_some()
    })
    .await;

    let gone = scene
        .clusters()
        .delete("demo", &DeleteParams::default())
        .await;
    gone.unwrap();
    wait_until_gone(&scene.clusters(), "demo").await;
    wait_until_gone(&scene.addons(), "demo-local-path-provisioner").await;
    wait_until_gone(&scene.addons(), "own").await;
    for addon in ["local-path-provisioner", "metrics-server"] {
        assert_eq!(scene.records(addon).await, 0, "{addon} was uninstalled");
        assert_eq!(
            scene.installed(addon).await,
            None,
            "{addon} was uninstalled"
        );
    }
}

#[tokio::test]
async fn a_cluster_works_without_an_addon_that_the_catalogue_does_not_have_and_says_so() {
    let scene = Scene::new("team-q").await;
    let _controllers = scene.run();
    scene.make(&json!({"addons": {"certManager": {}}})).await;
    let demo = scene
        .until("AddonsReady", "False", "AddonInstallFailed")
        .await;
    let said = message(&demo, "AddonsReady");
    assert!(
        said.contains("demo-cert-manager") && said.contains("no AddonDefinition \"cert-manager\""),
        "{said}"
    );
    let demo = scene.until("Ready", "True", "AddonInstallFailed").await;
    assert_eq!(demo.status.unwrap().phase, Some(Phase::Ready));
    // It comes as soon as the catalogue has it.
    scene
        .define("cert-manager", "certmanager", &json!({}))
        .await;
    scene.until("AddonsReady", "True", "AddonsInstalled").await;
}

#[tokio::test]
async fn a_pod_network_that_cannot_be_installed_keeps_a_cluster_from_being_ready() {
    let scene = Scene::new("team-r").await;
    let _controllers = scene.run();
    scene
        .make(&json!({"addons": {"cni": {"provider": "cilium"}}}))
        .await;
    let demo = scene
        .until("AddonsReady", "False", "CNIInstallFailed")
        .await;
    assert_eq!(demo.status.clone().unwrap().phase, Some(Phase::Installing));
    scene.define("cilium", "cni", &json!({})).await;
    let demo = scene.until("Ready", "True", "Ready").await;
    assert_eq!(demo.status.unwrap().phase, Some(Phase::Ready));
    let cilium = scene.addons().get("demo-cilium").await.unwrap();
    let values = cilium.spec.values.unwrap();
    assert_eq!(values["k8sServiceHost"], "10.40.0.200");
}

#[tokio::test]
async fn addons_of_a_tenant_that_is_dead_do_not_keep_its_cluster() {
    let scene = Scene::new("team-s").await;
    scene
        .define("local-path-provisioner", "storage", &json!({}))
        .await;
    let controllers = scene.run();
    scene.make(&json!({"addons": {"storage": {}}})).await;
    scene.until("Ready", "True", "Ready").await;
    // Nobody answers there, and its control plane says so.
    drop(controllers);
    let home = scene.home().await;
    let kubeconfig = std::fs::read_to_string(scene.server.kubeconfig()).unwrap();
    let dead = kubeconfig.replace(
        scene.server.url().trim_end_matches('/'),
        "https://127.0.0.1:1",
    );
    assert_ne!(dead, kubeconfig);
    let secrets: Api<Secret> = Api::namespaced(scene.server.client(), &home);
    let dead = Patch::Merge(json!({"stringData": {"admin.conf": dead}}));
    let parameters = PatchParams::default();
    let patched = secrets.patch("demo-kubeconfig", &parameters, &dead).await;
    patched.unwrap();
    let _controllers = scene.run();
    let gone = scene
        .clusters()
        .delete("demo", &DeleteParams::default())
        .await;
    gone.unwrap();
    let waits = "the addon that it waits for";
    wait_for(&scene.clusters(), "demo", waits, PATIENCE, |demo| {
        demo.status.is_some() && message(demo, "Ready").contains("demo-local-path-provisioner")
    })
    .await;
    driver::die(&scene.server, &home, "demo").await;
    wait_until_gone(&scene.clusters(), "demo").await;
    wait_until_gone(&scene.addons(), "demo-local-path-provisioner").await;
}
