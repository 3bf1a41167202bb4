//! Generated kubeconfigs on a real management API server.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

mod faults;
mod renewal;
mod stage;

use butler_api::steward::{KubeconfigGenerator, TenantControlPlane};
use butler_pki::{Certificate, Contents, SecretKind, Subject};
use butler_testkit::{PATIENCE, wait_for, wait_until_gone};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::json;

#[tokio::test]
async fn selected_control_planes_have_a_kubeconfig_for_as_long_as_they_are_selected() {
    let server = stage::server().await;
    let (team_a, team_b) = (server.namespace("a").await, server.namespace("b").await);
    let namespaces: Api<Namespace> = Api::all(server.client());
    stage::label(&namespaces, team_a.name(), json!({"team": "a"})).await;
    let none = Contents::new();
    let now = stage::now();
    stage::control_plane(&team_a, "blue", "{tier: gold}").await;
    stage::control_plane(&team_a, "grey", "{tier: lead}").await;
    stage::control_plane(&team_b, "blue", "{tier: gold}").await;
    let contents = stage::certificates(&team_a, "blue", "192.0.2.10", &none, now).await;
    stage::certificates(&team_a, "grey", "192.0.2.11", &none, now).await;
    stage::certificates(&team_b, "blue", "192.0.2.12", &none, now).await;
    let spec = json!({
        "namespaceSelector": {"matchLabels": {"team": "a"}},
        "tenantControlPlaneSelector": {"matchLabels": {"tier": "gold"}},
        "user": {"fromDefinition": "metadata.name"},
        "groups": [{"stringValue": "viewers"}, {"fromDefinition": "metadata.labels.tier"}],
        "controlPlaneEndpointFrom": "admin.conf",
    });
    let _steward = stage::steward(&server);
    stage::generator(&server, "view", spec).await;
    stage::counted(&server, "view", 1, 1).await;

    let secret: Secret = team_a.get("blue-view").await;
    let (kubeconfig, certificate) = stage::read(&secret);
    assert_eq!(kubeconfig.server, "https://192.0.2.10:6443");
    assert_eq!(kubeconfig.context, "view");
    assert_eq!(
        certificate.subject(),
        &Subject::new("blue", ["viewers", "gold"])
    );
    let authority = &contents[&SecretKind::Ca].data["ca.crt"];
    assert_eq!(&kubeconfig.authority, authority);
    assert!(certificate.is_signed_by(&Certificate::from_pem(authority).unwrap()));
    assert_eq!(secret.labels()["steward.butlerlabs.dev/managed-by"], "view");
    assert_eq!(
        secret.labels()["steward.butlerlabs.dev/managed-for"],
        "blue"
    );
    let plane: TenantControlPlane = team_a.get("blue").await;
    assert_eq!(secret.owner_references()[0].uid, plane.uid().unwrap());
    let absent = [(&team_a, "grey-view"), (&team_b, "blue-view")];
    for (home, name) in absent {
        assert!(home.api::<Secret>().get_opt(name).await.unwrap().is_none());
    }

    stage::label(&namespaces, team_b.name(), json!({"team": "a"})).await;
    stage::counted(&server, "view", 2, 2).await;
    stage::label(
        &team_a.api::<TenantControlPlane>(),
        "blue",
        json!({"tier": null}),
    )
    .await;
    wait_until_gone(&team_a.api::<Secret>(), "blue-view").await;
    stage::counted(&server, "view", 1, 1).await;
    stage::label(&namespaces, team_b.name(), json!({"team": null})).await;
    wait_until_gone(&team_b.api::<Secret>(), "blue-view").await;
    assert!(
        team_a
            .api::<Secret>()
            .get_opt("blue-ca")
            .await
            .unwrap()
            .is_some(),
        "what others made stays"
    );
}

#[tokio::test]
async fn a_second_pass_and_a_restart_write_nothing() {
    let server = stage::server().await;
    let home = server.namespace("a").await;
    stage::control_plane(&home, "blue", "{}").await;
    stage::certificates(&home, "blue", "192.0.2.10", &Contents::new(), stage::now()).await;
    let steward = stage::steward(&server);
    let spec = json!({"user": {"stringValue": "viewer"}});
    stage::generator(&server, "view", spec.clone()).await;
    stage::counted(&server, "view", 1, 1).await;
    drop(steward);
    let mark = server.mark().await;
    let _steward = stage::steward(&server);
    // Another generator that gets as far, twice, proves that the restarted process went over everything.
    stage::generator(&server, "edit", spec).await;
    stage::counted(&server, "edit", 1, 1).await;
    stage::touch(&home, "blue", "again").await;
    let other = json!({"user": {"stringValue": "editor"}});
    stage::generator(&server, "edit", other).await;
    stage::counted(&server, "edit", 1, 1).await;
    let writes = server.writes(mark).await.by_agent(stage::AGENT);
    let about_view = writes.only(|write| write.name().ends_with("view"));
    assert_eq!(about_view.count(), 0, "{about_view}");
}

#[tokio::test]
async fn a_generator_that_goes_takes_its_kubeconfigs_and_nothing_else() {
    let server = stage::server().await;
    let home = server.namespace("a").await;
    stage::control_plane(&home, "blue", "{}").await;
    stage::certificates(&home, "blue", "192.0.2.10", &Contents::new(), stage::now()).await;
    home.apply_yaml(
        "apiVersion: v1
kind: Secret
metadata: {name: passwords, labels: {steward.butlerlabs.dev/managed-by: view}}
",
    )
    .await;
    // All of it, from the finalizer on, with no more rights than Steward is installed with.
    let _steward = stage::installed_steward(&server).await;
    let spec = json!({"user": {"stringValue": "viewer"}});
    stage::generator(&server, "view", spec.clone()).await;
    stage::generator(&server, "edit", spec).await;
    stage::counted(&server, "view", 1, 1).await;
    stage::counted(&server, "edit", 1, 1).await;
    let generators: Api<KubeconfigGenerator> = Api::all(server.client());
    generators
        .delete("view", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&generators, "view").await;
    let secrets = home.api::<Secret>();
    assert!(secrets.get_opt("blue-view").await.unwrap().is_none());
    for name in ["blue-edit", "passwords", "blue-ca"] {
        assert!(secrets.get_opt(name).await.unwrap().is_some(), "{name}");
    }
}

#[tokio::test]
async fn masters_are_refused_and_whoever_was_named_before_is_gone() {
    let server = stage::server().await;
    let home = server.namespace("a").await;
    stage::control_plane(&home, "blue", "{}").await;
    stage::certificates(&home, "blue", "192.0.2.10", &Contents::new(), stage::now()).await;
    let _steward = stage::steward(&server);
    let spec = json!({"user": {"stringValue": "root"}});
    stage::generator(&server, "root", spec).await;
    stage::counted(&server, "root", 1, 1).await;
    let spec = json!({
        "user": {"stringValue": "root"},
        "groups": [{"stringValue": "system:masters"}],
    });
    stage::generator(&server, "root", spec).await;
    let refused = stage::counted(&server, "root", 0, 1).await;
    let status = refused.status.unwrap();
    assert_eq!(status.errors[0].resource, format!("{}/blue", home.name()));
    let message = &status.errors[0].message;
    assert!(message.contains("system:masters is refused"), "{message}");
    assert_eq!(status.conditions[0].status, "False");
    wait_until_gone(&home.api::<Secret>(), "blue-root").await;
}

#[tokio::test]
async fn a_secret_of_somebody_else_and_a_missing_authority_are_named_and_heal() {
    let server = stage::server().await;
    let home = server.namespace("a").await;
    stage::control_plane(&home, "blue", "{}").await;
    stage::control_plane(&home, "late", "{}").await;
    stage::certificates(&home, "blue", "192.0.2.10", &Contents::new(), stage::now()).await;
    let foreign = "apiVersion: v1
kind: Secret
metadata: {name: blue-view}
stringData: {value: precious}
";
    home.apply_yaml(foreign).await;
    let _steward = stage::steward(&server);
    let spec = json!({"user": {"stringValue": "viewer"}});
    stage::generator(&server, "view", spec.clone()).await;
    let status = stage::counted(&server, "view", 0, 2).await.status.unwrap();
    let messages: Vec<&str> = status
        .errors
        .iter()
        .map(|one| one.message.as_str())
        .collect();
    assert!(
        messages[0].contains("not made by this generator"),
        "{messages:?}"
    );
    assert!(
        messages[1].contains("no Secret late-ca yet"),
        "{messages:?}"
    );
    let secrets = home.api::<Secret>();
    let kept = secrets.get("blue-view").await.unwrap();
    assert_eq!(kept.data.unwrap()["value"].0, b"precious");

    secrets
        .delete("blue-view", &DeleteParams::default())
        .await
        .unwrap();
    stage::certificates(&home, "late", "192.0.2.11", &Contents::new(), stage::now()).await;
    stage::touch(&home, "late", "certificates").await;
    stage::counted(&server, "view", 2, 2).await;

    stage::generator(&server, "sa-certificate", spec).await;
    let generators: Api<KubeconfigGenerator> = Api::all(server.client());
    wait_for(
        &generators,
        "sa-certificate",
        "a refusal",
        PATIENCE,
        |one| {
            let conditions = one.status.as_ref().map(|status| &status.conditions);
            conditions.is_some_and(|held| held.iter().any(|held| held.reason == "NameReserved"))
        },
    )
    .await;
}
