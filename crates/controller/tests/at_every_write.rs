//! Every flow of the controllers, disturbed at every write: crashes, conflicts, lost answers, old views.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod stage;

use std::pin::pin;

use butler_api::butler::{ButlerConfig, Team};
use butler_runtime::conditions;
use butler_testkit::{Options, Scenario, World, at_every_write, wait_for_condition};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, NamespaceSpec};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use serde_json::json;

const TEAM: &str = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: Team
metadata: {name: NAME}
spec:
  access:
    users: [{name: ada@example.com, role: admin}]
    groups: [{name: rocketeers, role: member}]
";

async fn team(world: &World) -> Team {
    Api::all(world.server().client())
        .get(&world.name("team"))
        .await
        .expect("the team is there")
}

/// A team is made, and its members change while the controller is at work.
struct Serving;

impl Scenario for Serving {
    async fn set_up(&self, world: &World) {
        world
            .server()
            .apply_yaml(&TEAM.replace("NAME", &world.name("team")))
            .await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn user(&self, world: &World) {
        let teams: Api<Team> = Api::all(world.server().client());
        let change = json!({"spec": {"access": {
            "users": [{"name": "ada@example.com", "role": "admin"}, {"name": "vera@example.com"}],
            "groups": null,
        }}});
        let params = PatchParams::default();
        let patched = teams
            .patch(&world.name("team"), &params, &Patch::Merge(&change))
            .await;
        patched.expect("a user changes the team");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let team = team(world).await;
        let status = team.status.unwrap_or_default();
        if status.observed_generation != team.metadata.generation {
            return Err(format!("saw generation {:?}", status.observed_generation));
        }
        if status.member_count != Some(2) || !conditions::is_true(&status.conditions, "Ready") {
            return Err(format!("{status:?}"));
        }
        Ok(())
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("butler.butlerlabs.dev/v1alpha1", "Team"),
            ("v1", "Namespace"),
            ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ]
    }

    // The controllers look after the whole server.
    fn parallel(&self) -> usize {
        1
    }

    // The hash has the owner's UID in it.
}

/// Lets a deleted namespace go at once, as Kubernetes' own controller does after five seconds.
async fn let_go(world: &World) {
    let namespaces: Api<Namespace> = Api::all(world.server().client());
    let name = world.name("team");
    let mut changes = pin!(watcher::watch_object(namespaces.clone(), &name));
    while let Some(change) = changes.next().await {
        let Ok(Some(mut namespace)) = change else {
            continue;
        };
        if namespace.metadata.deletion_timestamp.is_some() {
            namespace.spec = Some(NamespaceSpec { finalizers: None });
            let params = PostParams::default();
            // Somebody else may have changed it: then there is another change to see.
            let _ = namespaces
                .replace_subresource("finalize", &name, &params, &namespace)
                .await;
        }
    }
}

/// A team is deleted, and its namespace takes a moment to go.
struct Ending;

impl Scenario for Ending {
    async fn set_up(&self, world: &World) {
        let _controllers = stage::run(world.server().client());
        Serving.set_up(world).await;
        let teams: Api<Team> = Api::all(world.server().client());
        wait_for_condition(&teams, &world.name("team"), "Ready", "True").await;
    }

    async fn controller(&self, client: Client, world: &World) {
        tokio::join!(stage::work(client), let_go(world));
    }

    async fn user(&self, world: &World) {
        let teams: Api<Team> = Api::all(world.server().client());
        let deleted = teams
            .delete(&world.name("team"), &DeleteParams::default())
            .await;
        deleted.expect("a user deletes the team");
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let (client, name) = (world.server().client(), world.name("team"));
        let team = Api::<Team>::all(client.clone()).get_opt(&name).await;
        if let Some(team) = team.map_err(|error| error.to_string())? {
            return Err(format!("the team is still there: {:?}", team.status));
        }
        let namespace = Api::<Namespace>::all(client).get_opt(&name).await;
        match namespace.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(_) => Err("the namespace is still there".to_owned()),
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        Serving.kinds()
    }

    fn parallel(&self) -> usize {
        1
    }
}

/// The configuration makes its namespace and counts.
struct Configuring;

impl Scenario for Configuring {
    async fn set_up(&self, world: &World) {
        let client = world.server().client();
        let configs: Api<ButlerConfig> = Api::all(client);
        // There is only one; every run starts without it and with a namespace of its own.
        let _ = configs.delete("butler", &DeleteParams::default()).await;
        let text = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ButlerConfig
metadata: {name: butler}
spec: {multiTenancy: {mode: Optional}, defaultNamespace: NAME}
";
        world
            .server()
            .apply_yaml(&text.replace("NAME", &world.name("tenants")))
            .await;
    }

    async fn controller(&self, client: Client, _: &World) {
        stage::work(client).await;
    }

    async fn settled(&self, world: &World) -> Result<(), String> {
        let configs: Api<ButlerConfig> = Api::all(world.server().client());
        let config = configs
            .get("butler")
            .await
            .map_err(|error| error.to_string())?;
        let status = config.status.unwrap_or_default();
        if conditions::is_true(&status.conditions, "Ready") {
            Ok(())
        } else {
            Err(format!("{status:?}"))
        }
    }

    fn kinds(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("butler.butlerlabs.dev/v1alpha1", "ButlerConfig"),
            ("v1", "Namespace"),
        ]
    }

    fn parallel(&self) -> usize {
        1
    }

    // A pass waits for half a second of quiet before it counts.
    fn quiet(&self) -> std::time::Duration {
        std::time::Duration::from_millis(900)
    }
}

#[tokio::test]
async fn a_team_ends_up_the_same_whatever_goes_wrong() {
    let server = stage::server(Options::default()).await;
    let summary = at_every_write(&server, &Serving).await;
    println!("{summary:?}");
    assert!(summary.writes >= 5, "{summary:?}");
}

#[tokio::test]
async fn a_team_is_gone_whatever_goes_wrong() {
    let server = stage::server(Options::default()).await;
    let summary = at_every_write(&server, &Ending).await;
    println!("{summary:?}");
    assert!(summary.writes >= 2, "{summary:?}");
}

#[tokio::test]
async fn the_configuration_ends_up_the_same_whatever_goes_wrong() {
    let server = stage::server(Options::default()).await;
    let summary = at_every_write(&server, &Configuring).await;
    println!("{summary:?}");
    assert!(summary.writes >= 2, "{summary:?}");
}
