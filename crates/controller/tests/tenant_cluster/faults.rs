//! Making and ending a cluster, disturbed at every write.

use butler_api::butler::{TenantCluster, tenant_cluster::Phase};
use butler_testkit::{
    Options, Scenario, Server, World, at_every_write,
    faults::{Fault, Refusal},
    wait_for_condition,
};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams},
};
use serde_json::json;

use crate::{DEMO, PROVIDER, driver, join::play_steward, stage};

fn clusters(world: &World) -> Api<TenantCluster> {
    Api::namespaced(world.server().client(), world.namespace().name())
}

/// Names that are made from a UID or from content are the same in every run.
pub(crate) fn alike(text: &str) -> String {
    let is_made = |part: &str| part.len() >= 8 && part.chars().all(|c| c.is_ascii_hexdigit());
    let words = text.split('/').map(|word| {
        let parts = word.split('-');
        let parts = parts.map(|part| if is_made(part) { "made" } else { part });
        parts.collect::<Vec<_>>().join("-")
    });
    words.collect::<Vec<_>>().join("/")
}

/// A cluster is made. It is named after its world, as is its namespace then.
pub(crate) struct Making;

impl Scenario for Making {
    async fn set_up(&self, _: &World) {}

    async fn controller(&self, client: Client, world: &World) {
        tokio::join!(stage::work(client), driver::play(world.server().client()));
    }

    async fn user(&self, world: &World) {
        let name = world.namespace().name();
        let text = DEMO.replace("NAMESPACE", name).replace("demo", name);
        world.server().apply_yaml(&text).await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let cluster = clusters(world).get_opt(world.namespace().name()).await;
        let cluster = cluster.map_err(|error| error.to_string())?;
        let status = cluster.and_then(|cluster| cluster.status);
        let phase = status.as_ref().and_then(|status| status.phase);
        if phase == Some(Phase::Ready) {
            Ok(())
        } else {
            Err(format!("the cluster is not ready: {status:?}"))
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("butler.butlerlabs.dev/v1alpha1", "TenantCluster"),
            ("v1", "Namespace"),
            ("infrastructure.cluster.x-k8s.io/v1alpha1", "LocalCluster"),
            (
                "infrastructure.cluster.x-k8s.io/v1alpha1",
                "LocalMachineTemplate",
            ),
            (
                "controlplane.cluster.x-k8s.io/v1alpha1",
                "StewardControlPlane",
            ),
            ("cluster.x-k8s.io/v1beta2", "Cluster"),
            (
                "bootstrap.cluster.x-k8s.io/v1beta2",
                "KubeadmConfigTemplate",
            ),
            ("cluster.x-k8s.io/v1beta2", "MachineDeployment"),
            ("cluster.x-k8s.io/v1beta2", "MachineHealthCheck"),
        ]
    }

    fn alike(&self) -> fn(&str) -> String {
        alike
    }

    fn faults(&self) -> Vec<Fault> {
        Ending::Plain.faults()
    }

    fn parallel(&self) -> usize {
        1
    }
}

/// A cluster is deleted.
#[derive(PartialEq)]
pub(crate) enum Ending {
    /// Its API server was never there.
    Plain,
    /// Its user gave up waiting.
    Forced,
    /// Its API server answers, and has a load balancer.
    Answering,
}

const WEB: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: NAMESPACE}
spec: {type: LoadBalancer, ports: [{port: 80}]}
";

impl Scenario for Ending {
    async fn set_up(&self, world: &World) {
        let client = world.server().client();
        let _controllers = stage::run(client.clone());
        let _driver = driver::Driver::start(&client);
        let text = DEMO.replace("NAMESPACE", world.namespace().name());
        world.server().apply_yaml(&text).await;
        let demo = wait_for_condition(&clusters(world), "demo", "Ready", "True").await;
        if *self == Self::Answering {
            let home = demo.status.and_then(|status| status.tenant_namespace);
            play_steward(world.server(), &home.expect("a namespace")).await;
            let web = WEB.replace("NAMESPACE", world.namespace().name());
            world.server().apply_yaml(&web).await;
        }
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
        if *self == Self::Forced {
            let force = json!({"metadata": {"annotations": {"butler.butlerlabs.dev/force-delete": "true"}}});
            crate::patch(&clusters, force).await;
        }
        let deleted = clusters.delete("demo", &DeleteParams::default()).await;
        deleted.expect("a user deletes the cluster");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let demo = clusters(world).get_opt("demo").await;
        if let Some(demo) = demo.map_err(|error| error.to_string())? {
            return Err(format!("the cluster is still there: {:?}", demo.status));
        }
        let services =
            Api::<Service>::namespaced(world.server().client(), world.namespace().name());
        let web = services.get_opt("web").await;
        if web.map_err(|error| error.to_string())?.is_some() {
            return Err("the load balancer is still there".to_owned());
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
async fn a_cluster_ends_up_the_same_whatever_goes_wrong() {
    let server = scene().await;
    let summary = at_every_write(&server, &Making).await;
    println!("{summary:?}");
    assert!(summary.writes >= 11, "{summary:?}");
}

#[tokio::test]
async fn a_cluster_is_gone_whatever_goes_wrong() {
    let server = scene().await;
    let summary = at_every_write(&server, &Ending::Plain).await;
    println!("{summary:?}");
    assert!(summary.writes >= 4, "{summary:?}");
}

#[tokio::test]
async fn a_cluster_that_is_forced_to_go_is_gone_whatever_goes_wrong() {
    let server = scene().await;
    let summary = at_every_write(&server, &Ending::Forced).await;
    println!("{summary:?}");
    assert!(summary.writes >= 4, "{summary:?}");
}

#[tokio::test]
async fn a_cluster_that_answers_is_gone_with_its_load_balancer_whatever_goes_wrong() {
    let server = scene().await;
    let summary = at_every_write(&server, &Ending::Answering).await;
    println!("{summary:?}");
    assert!(summary.writes >= 4, "{summary:?}");
}
