//! Teams on a real API server: namespace, roles, drift, deletion.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod stage;

use butler_api::butler::{Team, team::TeamPhase};
use butler_testkit::{Options, PATIENCE, Server, wait_for, wait_for_condition, wait_until_gone};
use k8s_openapi::api::{core::v1::Namespace, rbac::v1::RoleBinding};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

const ROCKETS: &str = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: Team
metadata: {name: rockets}
spec:
  displayName: Rockets
  access:
    users:
      - {name: ada@example.com, role: admin}
      - {name: vera@example.com}
    groups:
      - {name: rocketeers, role: member}
";

const CLUSTER: &str = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: TenantCluster
metadata: {name: saturn, namespace: rockets}
spec: {kubernetesVersion: v1.35.4, workers: {replicas: 1}}
";

async fn ready(server: &Server) -> Team {
    server.apply_yaml(ROCKETS).await;
    wait_for_condition(
        &Api::<Team>::all(server.client()),
        "rockets",
        "Ready",
        "True",
    )
    .await
}

#[tokio::test]
async fn a_team_gets_a_namespace_and_its_members_get_their_roles() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let status = ready(&server).await.status.unwrap();
    assert_eq!(status.phase, Some(TeamPhase::Ready));
    assert_eq!(status.namespace.as_deref(), Some("rockets"));
    assert_eq!(status.member_count, Some(3));
    assert!(
        status
            .conditions
            .iter()
            .all(|condition| condition.observed_generation == Some(1))
    );

    let may = async |user: &[&str], verb: &str, what: &str| {
        let arguments = [&["auth", "can-i", verb, what, "-n", "rockets"], user].concat();
        let output = server.try_kubectl(&arguments, "").await;
        String::from_utf8_lossy(&output.stdout).trim() == "yes"
    };
    let (ada, vera) = (&["--as", "ada@example.com"], &["--as", "vera@example.com"]);
    let member = &["--as", "mike@example.com", "--as-group", "rocketeers"];
    assert!(may(ada, "create", "tenantclusters").await);
    assert!(may(ada, "get", "secrets").await);
    assert!(
        !may(ada, "create", "rolebindings").await,
        "nobody in a team grants roles"
    );
    assert!(may(member, "delete", "tenantclusters").await);
    assert!(!may(member, "get", "secrets").await);
    assert!(may(vera, "list", "tenantclusters").await);
    assert!(!may(vera, "create", "tenantclusters").await);
    assert!(may(vera, "list", "addondefinitions").await);
    assert!(!may(ada, "create", "addondefinitions").await);
    assert!(
        !may(vera, "get", "secrets").await,
        "a viewer reads no Secrets"
    );
    assert!(!may(&["--as", "eve@example.com"], "list", "tenantclusters").await);
}

#[tokio::test]
async fn what_somebody_changes_is_put_back_and_what_leaves_the_spec_is_removed() {
    let server = stage::server(Options::default()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    ready(&server).await;
    let bindings: Api<RoleBinding> = Api::namespaced(server.client(), "rockets");

    bindings
        .delete("butler-team-admin", &DeleteParams::default())
        .await
        .unwrap();
    let intruder = json!({"subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve@example.com"}
    ]});
    let params = PatchParams::default();
    bindings
        .patch("butler-team-viewer", &params, &Patch::Merge(&intruder))
        .await
        .unwrap();
    let relabel = json!({"metadata": {"labels": {"butler.butlerlabs.dev/team": "others"}}});
    let namespaces: Api<Namespace> = Api::all(server.client());
    namespaces
        .patch("rockets", &params, &Patch::Merge(&relabel))
        .await
        .unwrap();

    let first_is = |name: &'static str| {
        move |binding: &RoleBinding| {
            binding
                .subjects
                .iter()
                .flatten()
                .map(|subject| subject.name.as_str())
                .eq([name])
        }
    };
    wait_for(
        &bindings,
        "butler-team-admin",
        "ada again",
        PATIENCE,
        first_is("ada@example.com"),
    )
    .await;
    wait_for(
        &bindings,
        "butler-team-viewer",
        "vera again",
        PATIENCE,
        first_is("vera@example.com"),
    )
    .await;
    wait_for(
        &namespaces,
        "rockets",
        "its label again",
        PATIENCE,
        |namespace| {
            namespace
                .labels()
                .get("butler.butlerlabs.dev/team")
                .is_some_and(|team| team == "rockets")
        },
    )
    .await;

    let teams: Api<Team> = Api::all(server.client());
    let alone = json!({"spec": {"access": {"groups": []}}});
    teams
        .patch("rockets", &params, &Patch::Merge(&alone))
        .await
        .unwrap();
    wait_until_gone(&bindings, "butler-team-operator").await;
    wait_for(&teams, "rockets", "two members", PATIENCE, |team| {
        team.status.as_ref().and_then(|status| status.member_count) == Some(2)
    })
    .await;
}

#[tokio::test]
async fn a_namespace_of_somebody_else_is_never_taken_over() {
    let server = stage::server(Options::default().with_controller_manager()).await;
    let namespaces: Api<Namespace> = Api::all(server.client());
    let theirs: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "rockets"}})).unwrap();
    let theirs = namespaces
        .create(&PostParams::default(), &theirs)
        .await
        .unwrap();
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    server.apply_yaml(ROCKETS).await;
    let teams: Api<Team> = Api::all(server.client());
    let team = wait_for_condition(&teams, "rockets", "Ready", "False").await;
    let status = team.status.unwrap();
    assert_eq!(status.phase, Some(TeamPhase::Failed));
    let ready = status
        .conditions
        .iter()
        .find(|held| held.type_ == "Ready")
        .unwrap();
    assert_eq!(ready.reason, "NamespaceTaken");
    let untouched = namespaces.get("rockets").await.unwrap();
    assert_eq!(untouched.resource_version(), theirs.resource_version());

    // It heals by itself once the name is free.
    namespaces
        .delete("rockets", &DeleteParams::default())
        .await
        .unwrap();
    wait_for_condition(&teams, "rockets", "Ready", "True").await;
}

#[tokio::test]
async fn a_team_with_clusters_waits_for_them_and_then_leaves_nothing() {
    let server = stage::server(Options::default().with_controller_manager()).await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    ready(&server).await;
    server.apply_yaml(CLUSTER).await;
    let teams: Api<Team> = Api::all(server.client());
    wait_for(&teams, "rockets", "one cluster", PATIENCE, |team| {
        team.status.as_ref().and_then(|status| status.cluster_count) == Some(1)
    })
    .await;
    teams
        .delete("rockets", &DeleteParams::default())
        .await
        .unwrap();
    let blocked = wait_for(
        &teams,
        "rockets",
        "a word about the cluster",
        PATIENCE,
        |team| {
            let conditions = team.status.iter().flat_map(|status| &status.conditions);
            conditions
                .into_iter()
                .any(|held| held.message.contains("saturn"))
        },
    )
    .await;
    assert_eq!(blocked.status.unwrap().phase, Some(TeamPhase::Terminating));
    let events = server.kubectl(&["get", "events", "-A", "-o", "name"]).await;
    assert!(!events.is_empty(), "people are told");

    server
        .kubectl(&["delete", "tenantcluster", "saturn", "-n", "rockets"])
        .await;
    wait_until_gone(&teams, "rockets").await;
    wait_until_gone(&Api::<Namespace>::all(server.client()), "rockets").await;
}

#[tokio::test]
async fn settled_controllers_write_nothing_and_a_restart_writes_nothing() {
    let server = stage::server(Options::default()).await;
    let user = stage::controller_user();
    let controllers = stage::run(server.client_for(&user));
    ready(&server).await;
    drop(controllers);
    let mark = server.mark().await;
    let _restarted = stage::run(server.client_for(&user));
    // A change that only the restarted controllers can answer proves that they went over everything.
    server
        .apply_yaml(&ROCKETS.replace("rockets", "comets"))
        .await;
    wait_for_condition(
        &Api::<Team>::all(server.client()),
        "comets",
        "Ready",
        "True",
    )
    .await;
    let writes = server.writes(mark).await.by_user(user.name());
    let others = writes.only(|write| write.name() != "comets" && write.namespace() != "comets");
    assert_eq!(others.count(), 0, "{others}");
}
