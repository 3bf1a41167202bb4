//! When a kubeconfig is made anew.

use butler_api::steward::TenantControlPlane;
use butler_pki::{
    Algorithm, Authority, Contents, Fresh, Jitter, Lifetime, SecretKind, Subject, Tenant,
    UserKubeconfig,
};
use butler_testkit::{Namespace, PATIENCE, wait_for, wait_until_gone};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::stage;

/// Waits until the kubeconfig of `blue` is another than the one that was seen.
async fn renewed(home: &Namespace, seen: &Secret, why: &str) -> Secret {
    let what = format!("another kubeconfig because of {why}");
    wait_for(
        &home.api(),
        "blue-view",
        &what,
        PATIENCE,
        |secret: &Secret| secret.data != seen.data,
    )
    .await
}

#[tokio::test]
async fn a_kubeconfig_follows_user_address_authority_and_requests() {
    let server = stage::server().await;
    let home = server.namespace("a").await;
    stage::control_plane(&home, "blue", "{}").await;
    let now = stage::now();
    let first = stage::certificates(&home, "blue", "192.0.2.10", &Contents::new(), now).await;
    let _steward = stage::steward(&server);
    let spec = |user: &str| json!({"user": {"stringValue": user}, "controlPlaneEndpointFrom": "admin.conf"});
    stage::generator(&server, "view", spec("ann")).await;
    stage::counted(&server, "view", 1, 1).await;
    let held: Secret = home.get("blue-view").await;

    stage::generator(&server, "view", spec("bob")).await;
    let held = renewed(&home, &held, "the user").await;
    assert_eq!(stage::read(&held).1.subject(), &Subject::new("bob", []));

    stage::certificates(&home, "blue", "192.0.2.99", &first, now).await;
    stage::touch(&home, "blue", "address").await;
    let held = renewed(&home, &held, "the address").await;
    assert_eq!(stage::read(&held).0.server, "https://192.0.2.99:6443");

    let other = stage::certificates(&home, "blue", "192.0.2.99", &Contents::new(), now).await;
    stage::touch(&home, "blue", "authority").await;
    let held = renewed(&home, &held, "the authority").await;
    assert_eq!(
        stage::read(&held).0.authority,
        other[&SecretKind::Ca].data["ca.crt"]
    );

    let ask = json!({"metadata": {"annotations": {"certs.steward.butlerlabs.dev/rotate": ""}}});
    let secrets = home.api::<Secret>();
    let params = PatchParams::default();
    secrets
        .patch("blue-view", &params, &Patch::Merge(&ask))
        .await
        .unwrap();
    stage::touch(&home, "blue", "request").await;
    let held = renewed(&home, &held, "a request").await;
    let answer = &held.annotations()["certs.steward.butlerlabs.dev/rotate"];
    assert!(answer.parse::<Timestamp>().is_ok(), "{answer:?}");
}

#[tokio::test]
async fn a_kubeconfig_is_renewed_before_it_expires() {
    let server = stage::server().await;
    let home = server.namespace("a").await;
    stage::control_plane(&home, "blue", "{}").await;
    let now = stage::now();
    let year_ago = now - SignedDuration::from_hours(24 * 365);
    let contents =
        stage::certificates(&home, "blue", "192.0.2.10", &Contents::new(), year_ago).await;
    let files = &contents[&SecretKind::Ca].data;
    let authority = Authority::from_pem(&files["ca.crt"], &files["ca.key"]).unwrap();
    let old = UserKubeconfig {
        generator: "view".to_owned(),
        tenant: Tenant {
            name: "blue".to_owned(),
            namespace: home.name().to_owned(),
        },
        subject: Subject::new("ann", []),
        server: "https://192.0.2.10:6443".to_owned(),
        algorithm: Algorithm::EcdsaP256,
        lifetime: Lifetime::try_from(SignedDuration::from_hours(24)).unwrap(),
    };
    let then = now - SignedDuration::from_hours(23);
    let step = old.plan(None, &authority, then, Jitter::NONE);
    let content = old
        .issue(&step, None, &authority, &mut Fresh, then)
        .unwrap();
    let secrets = home.api::<Secret>();
    let held = secrets
        .create(&PostParams::default(), &old.to_secret(&content))
        .await
        .unwrap();
    assert!(stage::read(&held).1.not_after() > now, "still valid");

    let _steward = stage::steward(&server);
    let spec = json!({"user": {"stringValue": "ann"}, "controlPlaneEndpointFrom": "admin.conf"});
    stage::generator(&server, "view", spec).await;
    let held = renewed(&home, &held, "its age").await;
    let month = now + SignedDuration::from_hours(24 * 30);
    assert!(stage::read(&held).1.not_after() > month);
}

#[tokio::test]
async fn a_control_plane_that_comes_again_has_a_kubeconfig_of_its_own() {
    let server = stage::server().await;
    let home = server.namespace("a").await;
    stage::control_plane(&home, "blue", "{}").await;
    let none = Contents::new();
    stage::certificates(&home, "blue", "192.0.2.10", &none, stage::now()).await;
    let steward = stage::steward(&server);
    let spec = json!({"user": {"stringValue": "ann"}});
    stage::generator(&server, "view", spec).await;
    stage::counted(&server, "view", 1, 1).await;
    let held: Secret = home.get("blue-view").await;
    // Nobody looks while it goes and comes, and nobody collects garbage.
    drop(steward);
    let planes = home.api::<TenantControlPlane>();
    let release = json!({"metadata": {"finalizers": null}});
    let params = PatchParams::default();
    planes
        .patch("blue", &params, &Patch::Merge(&release))
        .await
        .unwrap();
    planes
        .delete("blue", &DeleteParams::default())
        .await
        .unwrap();
    wait_until_gone(&planes, "blue").await;
    stage::control_plane(&home, "blue", "{}").await;

    let _steward = stage::steward(&server);
    let held = renewed(&home, &held, "another control plane").await;
    let plane: TenantControlPlane = home.get("blue").await;
    let owners: Vec<_> = held.owner_references().iter().map(|one| &one.uid).collect();
    assert_eq!(owners, [plane.metadata.uid.as_ref().unwrap()]);
}
