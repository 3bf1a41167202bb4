//! Deletions that would never end.

use butler_api::butler::{ProviderConfig, TenantCluster};
use butler_testkit::{Options, PATIENCE, Server, wait_for, wait_until_gone};
use k8s_openapi::api::{
    core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, Service},
    events::v1::Event,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    DEMO, clusters,
    driver::{self, Driver},
    join::{home, install, look, play_steward},
    patch, stage,
};

const HARVESTER: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: butler-system}
---
apiVersion: v1
kind: Secret
metadata: {name: harvester, namespace: butler-system}
stringData: {kubeconfig: none}
---
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata: {name: local, namespace: butler-system}
spec:
  provider: harvester
  credentialsRef: {name: harvester}
  harvester: {endpoint: https://harvester.example.com, namespace: vms, networkName: default/vlan40, imageName: default/talos, sshKeyPair: default/ada}
";

const FORCED: &str =
    r#"{"metadata": {"annotations": {"butler.butlerlabs.dev/force-delete": "true"}}}"#;

/// A cluster with a Talos pool on Harvester, whose provider was deleted. Its namespace.
async fn forsaken(server: &Server, clusters: &Api<TenantCluster>, team: &str) -> String {
    server.apply_yaml(HARVESTER).await;
    for kind in ["HarvesterCluster", "HarvesterMachineTemplate"] {
        install(server, kind).await;
    }
    let text = DEMO.replace("NAMESPACE", team);
    let talos = "workers: {replicas: 2, machineTemplate: {os: {type: talos}}}";
    let text = text.replace("workers: {replicas: 2}", talos);
    server.apply_yaml(&text).await;
    let home = home(clusters).await;
    play_steward(server, &home).await;
    look(clusters, "now").await;
    let made = |pool: &serde_json::Value| pool["status"]["readyReplicas"] == 2;
    driver::until(server, &home, "MachineDeployment", "demo-workers", made).await;

    let providers: Api<ProviderConfig> = Api::namespaced(server.client(), "butler-system");
    let deleted = providers.delete("local", &DeleteParams::default()).await;
    deleted.unwrap();
    wait_until_gone(&providers, "local").await;
    home
}

#[tokio::test]
async fn a_cluster_of_other_machines_ends_without_its_provider_and_leaves_nothing() {
    let server = stage::server(Options::default().with_controller_manager()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    let clusters = clusters(&server, "team-t");
    let home = forsaken(&server, &clusters, "team-t").await;
    let gone = clusters.delete("demo", &DeleteParams::default()).await;
    gone.unwrap();
    wait_until_gone(&clusters, "demo").await;
    let namespaces: Api<Namespace> = Api::all(server.client());
    assert!(namespaces.get_opt(&home).await.unwrap().is_none());
}

#[tokio::test]
async fn a_cluster_without_its_provider_can_be_forced_and_names_what_was_made_of_it() {
    let server = stage::server(Options::default().with_controller_manager()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let driver = Driver::start(&server.client());
    let clusters = clusters(&server, "team-u");
    let home = forsaken(&server, &clusters, "team-u").await;
    // What takes this away was uninstalled with the provider.
    let held = json!({"metadata": {"finalizers": ["example.com/provider"]}});
    for (kind, name) in [("Cluster", "demo"), ("Machine", "demo-workers-0")] {
        driver::patch(&server, &home, kind, name, &held).await;
    }
    drop(driver);
    server.apply_yaml(HOLDERS).await;
    let gone = clusters.delete("demo", &DeleteParams::default()).await;
    gone.unwrap();
    patch(&clusters, serde_json::from_str(FORCED).unwrap()).await;
    wait_until_gone(&clusters, "demo").await;
    let told = told(&server, "team-u", "DeletionForced").await;
    let left = [
        "machine demo-workers-0",
        "HarvesterCluster demo",
        "Service shop/web",
        &home,
    ];
    for left in left {
        assert!(told.contains(left), "{told}");
    }
}

const HOLDERS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, finalizers: [example.com/cloud]}
spec: {type: LoadBalancer, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolume
metadata:
  name: disk
  annotations: {pv.kubernetes.io/provisioned-by: csi.example.com}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Delete
  storageClassName: fast
  csi: {driver: csi.example.com, volumeHandle: disk-1}
  claimRef: {namespace: shop, name: data}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: fast
  volumeName: disk
  resources: {requests: {storage: 1Gi}}
";

/// What would take these away is played: they may go now.
async fn release<K>(api: &Api<K>, name: &str)
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let free = json!({"metadata": {"finalizers": null}});
    // It may be gone already.
    let _ = api
        .patch(name, &PatchParams::default(), &Patch::Merge(&free))
        .await;
}

/// Waits until the condition of a cluster says something.
async fn until_said(clusters: &Api<TenantCluster>, what: &str) {
    wait_for(clusters, "demo", what, PATIENCE, |demo| {
        let mut held = demo.status.iter().flat_map(|status| &status.conditions);
        held.any(|it| it.type_ == "Ready" && it.message.contains(what))
    })
    .await;
}

#[tokio::test]
async fn load_balancers_and_volumes_inside_a_cluster_go_before_its_machines() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-i"))
        .await;
    let clusters = clusters(&server, "team-i");
    let home = home(&clusters).await;
    play_steward(&server, &home).await;
    let made = |pool: &serde_json::Value| pool["status"]["readyReplicas"] == 2;
    driver::until(&server, &home, "MachineDeployment", "demo-workers", made).await;
    server.apply_yaml(HOLDERS).await;

    let gone = clusters.delete("demo", &DeleteParams::default()).await;
    gone.unwrap();
    until_said(&clusters, "Service shop/web").await;
    until_said(&clusters, "PersistentVolumeClaim shop/data").await;
    let cluster = driver::object(&server, &home, "Cluster", "demo").await;
    let cluster = cluster.unwrap();
    assert!(cluster["metadata"]["deletionTimestamp"].is_null());
    let services: Api<Service> = Api::namespaced(server.client(), "shop");
    release(&services, "web").await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(server.client(), "shop");
    release(&claims, "data").await;
    until_said(&clusters, "PersistentVolume disk").await;
    let volumes: Api<PersistentVolume> = Api::all(server.client());
    let removed = volumes.delete("disk", &DeleteParams::default()).await;
    removed.unwrap();
    release(&volumes, "disk").await;
    wait_until_gone(&clusters, "demo").await;
    assert!(services.get_opt("web").await.unwrap().is_none());
}

/// What an event says.
async fn told(server: &Server, namespace: &str, reason: &str) -> String {
    let events: Api<Event> = Api::namespaced(server.client(), namespace);
    let events = events.list(&ListParams::default()).await.unwrap();
    let told = events
        .iter()
        .find(|event| event.reason.as_deref() == Some(reason))
        .and_then(|event| event.note.clone());
    told.expect("an event names what is left")
}

#[tokio::test]
async fn a_machine_that_never_goes_keeps_a_cluster_until_its_user_gives_up_and_is_named() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let driver = Driver::start(&server.client());
    server
        .apply_yaml(&DEMO.replace("NAMESPACE", "team-f"))
        .await;
    let clusters = clusters(&server, "team-f");
    let demo = butler_testkit::wait_for_condition(&clusters, "demo", "Ready", "True").await;
    let home = demo.status.unwrap().tenant_namespace.unwrap();
    // Its provider was uninstalled: nobody takes this away.
    let held = json!({"metadata": {"finalizers": ["example.com/provider"]}});
    driver::patch(&server, &home, "Machine", "demo-workers-0", &held).await;

    let gone = clusters.delete("demo", &DeleteParams::default()).await;
    gone.unwrap();
    let wait = wait_for(&clusters, "demo", "what it waits for", PATIENCE, |demo| {
        let conditions = demo.status.iter().flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .any(|it| it.message.contains("demo-workers-0"))
    });
    wait.await;
    drop(driver);
    patch(&clusters, serde_json::from_str(FORCED).unwrap()).await;
    wait_until_gone(&clusters, "demo").await;
    let told = told(&server, "team-f", "DeletionForced").await;
    assert!(
        told.contains("machine demo-workers-0") && told.contains(&home),
        "{told}"
    );
}
