//! Making and ending a cluster, disturbed at every write.

use butler_api::butler::{TenantCluster, tenant_cluster::Phase};
use butler_testkit::{Options, Scenario, Server, World, at_every_write, wait_for_condition};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams},
};
use serde_json::Value;

use crate::{DEMO, PROVIDER, driver, stage};

fn clusters(world: &World) -> Api<TenantCluster> {
    Api::namespaced(world.server().client(), &world.name("team"))
}

/// A cluster is made.
struct Making;

impl Scenario for Making {
    async fn set_up(&self, world: &World) {
        let text = DEMO.replace("NAMESPACE", &world.name("team"));
        world.server().apply_yaml(&text).await;
    }

    async fn controller(&self, client: Client, world: &World) {
        tokio::join!(stage::work(client), driver::play(world.server().client()));
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let demo = clusters(world).get("demo").await;
        let demo = demo.map_err(|error| error.to_string())?;
        let status = demo.status.unwrap_or_default();
        if status.phase == Some(Phase::Ready) && status.worker_nodes_ready == Some(2) {
            Ok(())
        } else {
            Err(format!("{status:?}"))
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("butler.butlerlabs.dev/v1alpha1", "TenantCluster"),
            (
                "controlplane.cluster.x-k8s.io/v1alpha1",
                "StewardControlPlane",
            ),
            ("cluster.x-k8s.io/v1beta2", "Cluster"),
            ("cluster.x-k8s.io/v1beta2", "MachineDeployment"),
            ("cluster.x-k8s.io/v1beta2", "MachineHealthCheck"),
        ]
    }

    // The controllers look after the whole server.
    fn parallel(&self) -> usize {
        1
    }

    // The UID of the cluster is in names, labels and hashes.
    fn simplify(&self, object: &mut Value) {
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.remove("butler.butlerlabs.dev/plan-hash");
        }
    }
}

/// A cluster is deleted.
struct Ending;

impl Scenario for Ending {
    async fn set_up(&self, world: &World) {
        let client = world.server().client();
        let _controllers = stage::run(client.clone());
        let _driver = driver::Driver::start(&client);
        Making.set_up(world).await;
        wait_for_condition(&clusters(world), "demo", "Ready", "True").await;
    }

    async fn controller(&self, client: Client, world: &World) {
        tokio::join!(
            Making.controller(client, world),
            driver::let_go(world.server().client())
        );
    }

    async fn user(&self, world: &World) {
        let clusters = clusters(world);
        let deleted = clusters.delete("demo", &DeleteParams::default()).await;
        deleted.expect("a user deletes the cluster");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let demo = clusters(world).get_opt("demo").await;
        if let Some(demo) = demo.map_err(|error| error.to_string())? {
            return Err(format!("the cluster is still there: {:?}", demo.status));
        }
        let of_it = format!(
            "butler.butlerlabs.dev/source-namespace={}",
            world.name("team")
        );
        let left = Api::<Namespace>::all(world.server().client());
        let left = left.list(&ListParams::default().labels(&of_it)).await;
        match left.map_err(|error| error.to_string())?.items.as_slice() {
            [] => Ok(()),
            _ => Err("the tenant namespace is still there".to_owned()),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![("butler.butlerlabs.dev/v1alpha1", "TenantCluster")]
    }

    fn parallel(&self) -> usize {
        1
    }
}

async fn scene() -> Server {
    let server = stage::server(Options::default()).await;
    server.apply_yaml(PROVIDER).await;
    server
}

#[tokio::test]
async fn a_cluster_ends_up_the_same_whatever_goes_wrong() {
    let server = scene().await;
    let summary = at_every_write(&server, &Making).await;
    println!("{summary:?}");
    assert!(summary.writes >= 10, "{summary:?}");
}

#[tokio::test]
async fn a_cluster_is_gone_whatever_goes_wrong() {
    let server = scene().await;
    let summary = at_every_write(&server, &Ending).await;
    println!("{summary:?}");
    assert!(summary.writes >= 4, "{summary:?}");
}
