//! An addon that a cluster is given, disturbed at every write.

use std::time::Duration;

use butler_api::butler::{TenantAddon, TenantCluster};
use butler_controller::addon_engine::Settings;
use butler_testkit::{
    Scenario, Server, World, at_every_write,
    faults::{Fault, Refusal},
    wait_for_condition,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    DEMO, PROVIDER, driver,
    repository::{Repository, helm},
    stage,
};

/// A cluster that is ready gets storage.
struct Equipping {
    repository: Repository,
    folder: TempDir,
}

fn clusters(world: &World) -> Api<TenantCluster> {
    Api::namespaced(world.server().client(), world.namespace().name())
}

/// Takes away what earlier runs left: their addons have the same release.
async fn clear<K>(server: &Server)
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let all: Api<K> = Api::all(server.client());
    for left in all.list(&ListParams::default()).await.unwrap() {
        let api: Api<K> = Api::namespaced(server.client(), &left.namespace().unwrap());
        let (name, parameters) = (left.name_any(), PatchParams::default());
        let gone = api.delete(&name, &DeleteParams::default()).await;
        gone.unwrap();
        let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        // Without a finalizer it is gone already.
        let _ = api.patch(&name, &parameters, &released).await;
    }
}

impl Equipping {
    fn settings(&self) -> Settings {
        Settings {
            helm: helm(),
            folder: self.folder.path().to_owned(),
            mirrors: Vec::new(),
        }
    }

    fn definition(&self, namespace: &str) -> Value {
        json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "AddonDefinition",
            "metadata": {"name": "local-path-provisioner"},
            "spec": {
                "displayName": "small", "description": "small", "category": "storage", "platform": true,
                "chart": {"repository": self.repository.url(), "name": "small", "defaultVersion": "1.0.0",
                    "credentialsRef": {"name": "repository"}},
                "defaults": {"namespace": namespace, "releaseName": "storage"},
            },
        })
    }
}

impl Scenario for Equipping {
    async fn set_up(&self, world: &World) {
        let (server, namespace) = (world.server(), world.namespace().name());
        clear::<TenantAddon>(server).await;
        clear::<TenantCluster>(server).await;
        let definition = self.definition(namespace).to_string();
        server.apply_yaml(&definition).await;
        let client = server.client();
        let _controllers = stage::run(client.clone());
        let _driver = driver::Driver::start(&client);
        server
            .apply_yaml(&DEMO.replace("NAMESPACE", namespace))
            .await;
        let demo = wait_for_condition(&clusters(world), "demo", "Ready", "True").await;
        let kubeconfig = std::fs::read_to_string(server.kubeconfig()).unwrap();
        let home = demo.status.unwrap().tenant_namespace.unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "demo-kubeconfig", "namespace": home},
            "stringData": {"admin.conf": kubeconfig},
        });
        server.apply_yaml(&secret.to_string()).await;
    }

    async fn controller(&self, client: Client, world: &World) {
        tokio::join!(
            stage::work_with_addons(client, self.settings()),
            driver::play(world.server().client())
        );
    }

    async fn user(&self, world: &World) {
        let change = json!({"spec": {"addons": {"storage": {"values": {"greeting": "hi"}}}}});
        crate::patch(&clusters(world), change).await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let demo = clusters(world).get("demo").await;
        let demo = demo.map_err(|error| error.to_string())?;
        let status = demo.status.unwrap_or_default();
        let state = status.observed_state.clone().unwrap_or_default();
        let mut conditions = status.conditions.iter();
        let works = conditions.all(|held| held.status == "True");
        if works && state.addons.len() == 1 {
            Ok(())
        } else {
            Err(format!(
                "the cluster has no storage: {:?}",
                status.conditions
            ))
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("butler.butlerlabs.dev/v1alpha1", "TenantCluster"),
            ("butler.butlerlabs.dev/v1alpha1", "TenantAddon"),
            ("v1", "ConfigMap"),
        ]
    }

    /// A step that was broken off is another revision of the release.
    fn simplify(&self, object: &mut Value) {
        if let Some(release) = object.pointer_mut("/status/helmRelease") {
            release["revision"] = json!(1);
        }
    }

    fn alike(&self) -> fn(&str) -> String {
        crate::faults::alike
    }

    fn faults(&self) -> Vec<Fault> {
        vec![
            Fault::CrashAfter,
            Fault::Refuse(Refusal::Conflict),
            Fault::Stale(self.quiet() / 2),
        ]
    }

    fn patience(&self) -> Duration {
        Duration::from_mins(1)
    }

    // The controllers look after the whole server.
    fn parallel(&self) -> usize {
        1
    }
}

#[tokio::test]
async fn a_cluster_gets_its_addon_whatever_goes_wrong() {
    let server = stage::server(butler_testkit::Options::default()).await;
    server.apply_yaml(PROVIDER).await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "repository", "namespace": "butler-system"},
        "stringData": {"username": "ada", "password": "sesame-open"},
    });
    server.apply_yaml(&secret.to_string()).await;
    let scenario = Equipping {
        repository: Repository::start().await,
        folder: tempfile::tempdir().unwrap(),
    };
    let summary = at_every_write(&server, &scenario).await;
    println!("{summary:?}");
    assert!(summary.writes >= 5, "{summary:?}");
}
