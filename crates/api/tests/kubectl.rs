//! What people do with kubectl, with the real kubectl on a real API server.

#![allow(
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where it stands"
)]

use butler_testkit::{Namespace, Server};

const CLUSTER: &str = "
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: TenantCluster
metadata: {name: demo}
spec: {kubernetesVersion: v1.35.4, workers: {replicas: 1}}
";

async fn home() -> Namespace {
    let home = Server::shared().await.namespace("kubectl").await;
    home.apply_yaml(CLUSTER).await;
    home
}

#[tokio::test]
async fn explain_describes_every_field_of_every_kind() {
    let server = Server::shared().await;
    let text = server
        .kubectl(&["explain", "tenantcluster.spec.addons", "--recursive"])
        .await;
    for field in [
        "loadBalancer",
        "addressPool",
        "monitoring",
        "cni",
        "version",
    ] {
        assert!(text.contains(field), "{field} is missing in\n{text}");
    }
    for crd in butler_api::crd::all() {
        let schema = crd.spec.versions[0]
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref();
        let schema = serde_json::to_value(schema.unwrap()).unwrap();
        let bare = undescribed("", &schema);
        assert!(
            bare.is_empty(),
            "{}: no description of {bare:?}",
            crd.spec.names.kind
        );
    }
}

/// Paths of fields without a description, below spec and status.
fn undescribed(path: &str, schema: &serde_json::Value) -> Vec<String> {
    let mut bare = Vec::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let is_ours = path.starts_with(".spec.") || path.starts_with(".status.");
        if is_ours && field["description"].as_str().unwrap_or_default().is_empty() {
            bare.push(path.clone());
        }
        bare.extend(undescribed(&path, field));
        bare.extend(undescribed(&format!("{path}[]"), &field["items"]));
    }
    bare
}

#[tokio::test]
async fn scale_changes_the_workers() {
    let home = home().await;
    let server = home.server();
    server
        .kubectl(&["scale", "tc/demo", "-n", &home, "--replicas", "5"])
        .await;
    let path = "-o=jsonpath={.spec.workers.replicas}";
    assert_eq!(
        server
            .kubectl(&["get", "tc", "demo", "-n", &home, path])
            .await,
        "5"
    );
}

#[tokio::test]
async fn get_shows_columns_and_short_names_work() {
    let home = home().await;
    let wide = home
        .server()
        .kubectl(&["get", "tc", "-n", &home, "-o", "wide"])
        .await;
    for column in ["NAME", "PHASE", "VERSION", "ENDPOINT", "AGE", "v1.35.4"] {
        assert!(wide.contains(column), "{column} is missing in\n{wide}");
    }
}

#[tokio::test]
async fn wait_sees_a_condition() {
    let home = home().await;
    let server = home.server();
    let status = r#"{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Ready",
        "message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    let patch = [
        "patch",
        "tc",
        "demo",
        "-n",
        &home,
        "--subresource=status",
        "--type=merge",
        "-p",
    ];
    server.kubectl(&[&patch[..], &[status]].concat()).await;
    let wait = [
        "wait",
        "tc/demo",
        "-n",
        &home,
        "--for=condition=Ready",
        "--timeout=20s",
    ];
    assert!(server.kubectl(&wait).await.contains("condition met"));
}

#[tokio::test]
async fn a_server_side_dry_run_checks_and_stores_nothing() {
    let home = home().await;
    let server = home.server();
    let apply = [
        "apply",
        "--server-side",
        "--dry-run=server",
        "-n",
        &home,
        "-f",
        "-",
    ];
    let fine = server
        .try_kubectl(&apply, &CLUSTER.replace("demo", "other"))
        .await;
    assert!(
        fine.status.success(),
        "{}",
        String::from_utf8_lossy(&fine.stderr)
    );
    let gone = server
        .try_kubectl(&["get", "tc", "other", "-n", &home], "")
        .await;
    assert!(!gone.status.success(), "a dry run stores nothing");
    let bad = server
        .try_kubectl(&apply, &CLUSTER.replace("v1.35.4", "latest"))
        .await;
    let message = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(message.contains("spec.kubernetesVersion"), "{message}");
}
