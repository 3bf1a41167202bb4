//! Objects of others that have the name of one of ours.

use butler_testkit::{PATIENCE, etcd::TlsEtcd, wait_for};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::{changes::delete, serving::SOON, stage};

#[tokio::test]
async fn objects_of_others_with_the_name_of_a_control_plane_are_left_alone_until_they_are_gone() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server);
    stage::store(&server, "default", &etcd).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "blue"},
        "spec": {"selector": {"app": "shop"}, "ports": [{"port": 80}]},
    });
    let pods = json!({"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [{"name": "c", "image": "shop"}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "green"},
        "spec": {"selector": {"matchLabels": {"app": "shop"}}, "template": pods},
    });
    home.apply_yaml(&service.to_string()).await;
    home.apply_yaml(&deployment.to_string()).await;

    home.apply_yaml(&stage::control_plane("blue", "")).await;
    stage::refused(&home, "blue", "EndpointReady", "NameTaken").await;
    let held: Service = home.get("blue").await;
    assert_eq!(held.spec.unwrap().selector.unwrap()["app"], "shop");
    assert_eq!(held.metadata.owner_references, None);
    let services = home.api::<Service>();
    let params = DeleteParams::default();
    services.delete("blue", &params).await.unwrap();
    wait_for(&services, "blue", "its own Service", SOON, |held| {
        held.metadata.owner_references.is_some()
    })
    .await;

    home.apply_yaml(&stage::control_plane("green", "")).await;
    wait_for(&services, "green", "its Service", PATIENCE, |_| true).await;
    stage::give_address(&home, "green", "127.0.0.83").await;
    let message = stage::refused(&home, "green", "WorkloadReady", "NameTaken").await;
    assert!(message.contains("Deployment green"), "{message}");
    delete(&home, "green").await;
    let held: Deployment = home.get("green").await;
    assert_eq!(held.metadata.deletion_timestamp, None);
    let template = held.spec.unwrap().template.spec.unwrap();
    assert_eq!(template.containers[0].name, "c");
}

/// A control plane, the object of somebody else that has a name it needs, and the condition that says so.
struct Case {
    plane: String,
    name: &'static str,
    theirs: Value,
    condition: &'static str,
}

fn theirs(version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}})
}

fn cases() -> Vec<Case> {
    let policy =
        "audit: {policy: {apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Metadata}]}}";
    vec![
        Case {
            plane: stage::with_kubernetes("audited", policy),
            name: "audited",
            theirs: theirs("v1", "ConfigMap", "audited-audit-policy"),
            condition: "WorkloadReady",
        },
        Case {
            plane: stage::control_plane("several", "").replace("replicas: 1", "replicas: 2"),
            name: "several",
            theirs: theirs("policy/v1", "PodDisruptionBudget", "several"),
            condition: "WorkloadReady",
        },
        Case {
            plane: stage::with_kubernetes("sealed", "encryption: {}"),
            name: "sealed",
            theirs: theirs("v1", "Secret", "sealed-encryption-keys"),
            condition: "SettingsReady",
        },
        Case {
            plane: stage::control_plane("signed", ""),
            name: "signed",
            theirs: theirs("v1", "Secret", "signed-ca"),
            condition: "CertificatesReady",
        },
    ]
}

#[tokio::test]
async fn settings_keys_and_budgets_of_others_are_left_alone_until_they_are_gone() {
    let (server, etcd) = (crate::server().await, TlsEtcd::start().await.unwrap());
    let home = server.namespace("tenants").await;
    let _steward = stage::steward(&server);
    stage::store(&server, "default", &etcd).await;
    let about = async |theirs: &Value, path: &str| {
        let kind = theirs["kind"].as_str().unwrap_or_default();
        let object = format!(
            "{kind}/{}",
            theirs["metadata"]["name"].as_str().unwrap_or_default()
        );
        let path = format!("-o=jsonpath={path}");
        server
            .kubectl(&["get", &object, "-n", home.name(), &path])
            .await
    };
    let services = home.api::<Service>();
    let mut held = Vec::new();
    for case in cases() {
        home.apply_yaml(&case.theirs.to_string()).await;
        let version = about(&case.theirs, "{.metadata.resourceVersion}").await;
        home.apply_yaml(&case.plane).await;
        wait_for(&services, case.name, "its Service", PATIENCE, |_| true).await;
        stage::give_address(&home, case.name, "127.0.0.83").await;
        held.push((case, version));
    }
    for (case, version) in &held {
        let message = stage::refused(&home, case.name, case.condition, "NameTaken").await;
        let theirs = &case.theirs;
        let named = format!(
            "{} {}",
            theirs["kind"].as_str().unwrap_or_default(),
            theirs["metadata"]["name"].as_str().unwrap_or_default()
        );
        assert!(message.contains(&named), "{message}");
        let now = about(theirs, "{.metadata.resourceVersion}").await;
        assert_eq!(&now, version, "{named} was written");
    }
    for (case, _) in &held {
        let (kind, name) = (&case.theirs["kind"], &case.theirs["metadata"]["name"]);
        let object = format!("{}/{}", kind.as_str().unwrap(), name.as_str().unwrap());
        server
            .kubectl(&["delete", &object, "-n", home.name()])
            .await;
        let made = [
            "wait",
            &object,
            "-n",
            home.name(),
            "--for=create",
            "--timeout=90s",
        ];
        server.kubectl(&made).await;
        let owner = about(&case.theirs, "{.metadata.ownerReferences[0].name}").await;
        assert_eq!(owner, case.name);
    }
}
