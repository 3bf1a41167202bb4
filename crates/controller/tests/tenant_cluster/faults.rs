//! Ending a cluster, disturbed at every write. Making one has paths with its UID in them, which runs cannot share.

use butler_api::butler::TenantCluster;
use butler_testkit::{
    Options, Scenario, Server, World, at_every_write,
    faults::{Fault, Refusal},
    wait_for_condition,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams},
};

use crate::{DEMO, PROVIDER, driver, stage};

fn clusters(world: &World) -> Api<TenantCluster> {
    Api::namespaced(world.server().client(), world.namespace().name())
}

/// A cluster is deleted.
struct Ending;

impl Scenario for Ending {
    async fn set_up(&self, world: &World) {
        let client = world.server().client();
        let _controllers = stage::run(client.clone());
        let _driver = driver::Driver::start(&client);
        let text = DEMO.replace("NAMESPACE", world.namespace().name());
        world.server().apply_yaml(&text).await;
        wait_for_condition(&clusters(world), "demo", "Ready", "True").await;
    }

    async fn controller(&self, client: Client, world: &World) {
        tokio::join!(
            stage::work(client),
            driver::play(world.server().client()),
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
            world.namespace().name()
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

    // A lost answer and a repeated request are a crash and a conflict to server-side apply.
    fn faults(&self) -> Vec<Fault> {
        vec![
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

async fn scene() -> Server {
    let server = stage::server(Options::default()).await;
    server.apply_yaml(PROVIDER).await;
    server
}

#[tokio::test]
async fn a_cluster_is_gone_whatever_goes_wrong() {
    let server = scene().await;
    let summary = at_every_write(&server, &Ending).await;
    println!("{summary:?}");
    assert!(summary.writes >= 4, "{summary:?}");
}
