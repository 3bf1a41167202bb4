//! What members of a team may see in the namespace of their cluster, asked of a real API server.

use butler_api::butler::Team;
use butler_testkit::{PATIENCE, Server, User, wait_for, wait_for_condition, wait_until_gone};
use k8s_openapi::api::{
    core::v1::Secret,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;

use crate::{DEMO, clusters, driver::Driver, stage};

const TEAM: &str = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: Team
metadata: {name: rockets}
spec:
  access:
    users: [{name: ada@example.com, role: operator}, {name: vera@example.com, role: viewer}]
";

fn is_forbidden<T>(result: Result<T, kube::Error>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.code == 403)
}

struct Member {
    secrets: Api<Secret>,
    machines: Api<DynamicObject>,
}

fn member(server: &Server, name: &str, home: &str) -> Member {
    let client = server.client_for(&User::named(name));
    let machine = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Machine");
    Member {
        secrets: Api::namespaced(client.clone(), home),
        machines: Api::namespaced_with(client, home, &ApiResource::from_gvk(&machine)),
    }
}

#[tokio::test]
async fn operators_get_the_kubeconfig_viewers_see_machines_and_nobody_any_other_secret() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server.apply_yaml(TEAM).await;
    let teams: Api<Team> = Api::all(server.client());
    wait_for_condition(&teams, "rockets", "Ready", "True").await;
    let documents = DEMO.replace("NAMESPACE", "rockets");
    let demo = documents.split("---").last().unwrap();
    server.apply_yaml(demo).await;
    let clusters = clusters(&server, "rockets");
    let demo = wait_for_condition(&clusters, "demo", "Ready", "True").await;
    let home = demo.status.unwrap().tenant_namespace.unwrap();
    for name in ["demo-kubeconfig", "demo-credentials"] {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": home},
        });
        server.apply_yaml(&secret.to_string()).await;
    }

    let ada = member(&server, "ada@example.com", &home);
    let vera = member(&server, "vera@example.com", &home);
    let stranger = member(&server, "eve@example.com", &home);
    ada.secrets.get("demo-kubeconfig").await.unwrap();
    assert!(is_forbidden(ada.secrets.get("demo-credentials").await));
    assert!(is_forbidden(vera.secrets.get("demo-kubeconfig").await));
    for somebody in [&ada, &vera] {
        let seen = somebody.machines.list(&ListParams::default()).await;
        assert_eq!(seen.unwrap().items.len(), 2);
        let all = somebody.secrets.list(&ListParams::default()).await;
        assert!(is_forbidden(all));
    }
    let machines = stranger.machines.list(&ListParams::default()).await;
    assert!(is_forbidden(machines));

    // Somebody takes a binding away by hand, and it comes back.
    let bindings: Api<RoleBinding> = Api::namespaced(server.client(), &home);
    let name = "butler-tenant-kubeconfig";
    bindings
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    wait_for(&bindings, name, "the binding", PATIENCE, |_| true).await;
    // Roles change, and access follows.
    let change =
        json!({"spec": {"access": {"users": [{"name": "vera@example.com", "role": "admin"}]}}});
    let parameters = PatchParams::default();
    teams
        .patch("rockets", &parameters, &Patch::Merge(&change))
        .await
        .unwrap();
    wait_for(&bindings, name, "the new admin", PATIENCE, |binding| {
        let subjects: Vec<&str> = binding
            .subjects
            .iter()
            .flatten()
            .map(|it| it.name.as_str())
            .collect();
        subjects == ["vera@example.com"]
    })
    .await;
    wait_for(
        &bindings,
        "butler-tenant-viewer",
        "only vera",
        PATIENCE,
        |binding| binding.subjects.iter().flatten().count() == 1,
    )
    .await;
    // The authorizer reads bindings by a watch of its own.
    let gone = async {
        while !is_forbidden(ada.secrets.get("demo-kubeconfig").await) {
            tokio::task::yield_now().await;
        }
        while vera.secrets.get("demo-kubeconfig").await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, gone).await;
    assert!(
        waited.is_ok(),
        "waited {PATIENCE:?} for the API server to follow the binding"
    );
}

async fn only(bindings: &Api<RoleBinding>, names: &[&str]) {
    let what = format!("to name only {names:?}");
    wait_for(
        bindings,
        "butler-tenant-viewer",
        &what,
        PATIENCE,
        |binding| {
            let subjects = binding.subjects.iter().flatten();
            subjects
                .map(|it| it.name.as_str())
                .eq(names.iter().copied())
        },
    )
    .await;
}

#[tokio::test]
async fn access_follows_the_team_where_nothing_else_can_be_done_and_goes_with_it() {
    let server = crate::stage().await;
    let _controllers = stage::run(server.client_for(&stage::controller_user()));
    let _driver = Driver::start(&server.client());
    server.apply_yaml(TEAM).await;
    let teams: Api<Team> = Api::all(server.client());
    wait_for_condition(&teams, "rockets", "Ready", "True").await;
    let documents = DEMO.replace("NAMESPACE", "rockets");
    server
        .apply_yaml(documents.split("---").last().unwrap())
        .await;
    let clusters = clusters(&server, "rockets");
    let demo = wait_for_condition(&clusters, "demo", "Ready", "True").await;
    let home = demo.status.unwrap().tenant_namespace.unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(server.client(), &home);
    only(&bindings, &["vera@example.com", "ada@example.com"]).await;

    // Nothing can be planned without the provider.
    let providers: Api<butler_api::butler::ProviderConfig> =
        Api::namespaced(server.client(), "butler-system");
    let none = DeleteParams::default();
    providers.delete("local", &none).await.unwrap();
    wait_for_condition(&clusters, "demo", "Ready", "False").await;
    let change = json!({"spec": {"access": {"users": [{"name": "ada@example.com"}]}}});
    let (parameters, change) = (PatchParams::default(), Patch::Merge(&change));
    teams.patch("rockets", &parameters, &change).await.unwrap();
    only(&bindings, &["ada@example.com"]).await;

    // Somebody takes the team away although it has a cluster.
    teams.delete("rockets", &none).await.unwrap();
    let force = json!({"metadata": {"finalizers": null}});
    let force = Patch::Merge(&force);
    teams.patch("rockets", &parameters, &force).await.unwrap();
    let roles: Api<Role> = Api::namespaced(server.client(), &home);
    wait_until_gone(&bindings, "butler-tenant-viewer").await;
    wait_until_gone(&bindings, "butler-tenant-kubeconfig").await;
    wait_until_gone(&roles, "butler-tenant-kubeconfig").await;
    server.apply_yaml(crate::PROVIDER).await;
    wait_for_condition(&clusters, "demo", "Ready", "True").await;
    assert!(
        bindings
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}
