//! The flows of a generator, disturbed at every write.

use butler_api::steward::KubeconfigGenerator;
use butler_pki::Contents;
use butler_testkit::{Scenario, World, at_every_write};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::DeleteParams};
use serde_json::{Value, json};

use crate::stage;

/// Generators are not in namespaces: each run has its own, by the namespace's name.
fn name(world: &World) -> String {
    format!("view-{}", world.namespace().name())
}

async fn prepare(world: &World) {
    let home = world.namespace();
    stage::control_plane(home, "blue", "{}").await;
    stage::certificates(home, "blue", "192.0.2.10", &Contents::new(), stage::now()).await;
}

async fn generate(world: &World) {
    let namespace = world.namespace().name();
    let spec = json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "user": {"stringValue": "viewer"},
    });
    stage::generator(world.server(), &name(world), spec).await;
}

/// Hides what is different each time: keys, and the namespace in names.
fn hide(object: &mut Value) {
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) {
        data.values_mut()
            .for_each(|bytes| *bytes = Value::from("bytes"));
    }
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.clear();
    }
}

/// A kubeconfig is made.
struct Making;

impl Scenario for Making {
    async fn set_up(&self, world: &World) {
        prepare(world).await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn user(&self, world: &World) {
        generate(world).await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let generators: Api<KubeconfigGenerator> = Api::all(world.server().client());
        let generator = generators.get(&name(world)).await;
        let status = generator
            .map_err(|error| error.to_string())?
            .status
            .unwrap_or_default();
        if status.available_resources == Some(1) {
            Ok(())
        } else {
            Err(format!("{status:?}"))
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![("v1", "Secret")]
    }

    fn simplify(&self, object: &mut Value) {
        hide(object);
    }

    // Steward looks after the whole server.
    fn parallel(&self) -> usize {
        1
    }
}

/// A generator is deleted.
struct Ending;

impl Scenario for Ending {
    async fn set_up(&self, world: &World) {
        let _steward = stage::steward(world.server());
        prepare(world).await;
        generate(world).await;
        stage::counted(world.server(), &name(world), 1, 1).await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn user(&self, world: &World) {
        let generators: Api<KubeconfigGenerator> = Api::all(world.server().client());
        generators
            .delete(&name(world), &DeleteParams::default())
            .await
            .expect("a user deletes it");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let generators: Api<KubeconfigGenerator> = Api::all(world.server().client());
        let generator = generators.get_opt(&name(world)).await;
        if generator.map_err(|error| error.to_string())?.is_some() {
            return Err("the generator is still there".to_owned());
        }
        let secrets = world.namespace().api::<Secret>();
        let left = secrets.get_opt(&format!("blue-{}", name(world))).await;
        match left.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(_) => Err("the kubeconfig is still there".to_owned()),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![("v1", "Secret")]
    }

    fn simplify(&self, object: &mut Value) {
        hide(object);
    }

    fn parallel(&self) -> usize {
        1
    }
}

#[tokio::test]
async fn a_kubeconfig_is_made_whatever_goes_wrong() {
    let server = stage::server().await;
    let summary = at_every_write(&server, &Making).await;
    println!("{summary:?}");
    assert!(summary.writes >= 3, "{summary:?}");
    assert!(summary.not_reached * 2 <= summary.runs, "{summary:?}");
}

#[tokio::test]
async fn a_kubeconfig_is_gone_whatever_goes_wrong() {
    let server = stage::server().await;
    let summary = at_every_write(&server, &Ending).await;
    println!("{summary:?}");
    assert!(summary.writes >= 2, "{summary:?}");
    assert!(summary.not_reached * 2 <= summary.runs, "{summary:?}");
}
