//! The rules about the kinds themselves, read from the server that serves them.

use butler_testkit::Server;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::stage;

const GROUP: &str = "controlplane.cluster.x-k8s.io";
const KINDS: [&str; 2] = ["StewardControlPlane", "StewardControlPlaneTemplate"];

/// The definition that Cluster API finds for a kind: its name is computed, never looked up.
async fn definition(server: &Server, group: &str, kind: &str) -> Value {
    let name = format!("{}s.{group}", kind.to_lowercase());
    let found: CustomResourceDefinition = server.get(&name).await;
    serde_json::to_value(found).unwrap()
}

/// The schema of a field such as `spec.version`.
fn field(definition: &Value, path: &str) -> Value {
    let mut schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for name in path.split('.') {
        schema = &schema["properties"][name];
    }
    schema.clone()
}

fn types(definition: &Value, fields: &[(&str, &str)]) {
    for (path, kind) in fields {
        assert_eq!(field(definition, path)["type"], *kind, "{path}");
    }
}

fn template(name: &str, metadata: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "StewardControlPlaneTemplate",
        "metadata": {"name": name},
        "spec": {"template": {"metadata": metadata, "spec": {"dataStoreName": "fast"}}},
    })
}

#[tokio::test]
async fn all_resources_scope_they_are_namespaced() {
    let server = Server::shared().await;
    for kind in KINDS {
        let found = definition(&server, GROUP, kind).await;
        assert_eq!(found["spec"]["scope"], "Namespaced", "{kind}");
    }
}

#[tokio::test]
async fn all_resources_type_meta_and_object_meta_they_have_both() {
    let home = Server::shared().await.namespace("rules").await;
    home.apply_yaml(&template("small", &json!({})).to_string())
        .await;
    let plane = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "StewardControlPlane",
        "metadata": {"name": "blue", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"version": "v1.35.4"},
    });
    home.apply_yaml(&plane.to_string()).await;
    for (kind, name) in [(KINDS[0], "blue"), (KINDS[1], "small")] {
        let found = stage::objects(&home, GROUP, "v1alpha1", kind)
            .get(name)
            .await;
        let found = serde_json::to_value(found.unwrap()).unwrap();
        assert_eq!(found["apiVersion"], format!("{GROUP}/v1alpha1"));
        assert_eq!(found["kind"], kind);
        for field in ["name", "namespace", "uid", "resourceVersion", "generation"] {
            assert!(!found["metadata"][field].is_null(), "{kind}: {field}");
        }
    }
}

#[tokio::test]
async fn all_resources_api_version_the_contracts_label_names_a_version_that_is_served() {
    let server = Server::shared().await;
    for kind in KINDS {
        let found = definition(&server, GROUP, kind).await;
        // The group is one that Cluster API's own role covers: no aggregated role is needed.
        assert_eq!(found["spec"]["group"], GROUP);
        let label = &found["metadata"]["labels"]["cluster.x-k8s.io/v1beta2"];
        let versions = found["spec"]["versions"].as_array().unwrap();
        let named = |version: &Value| version["served"] == true && version["name"] == *label;
        assert!(versions.iter().any(named), "{label}");
    }
}

#[tokio::test]
async fn control_plane_and_its_list_are_defined_under_the_computed_name() {
    let server = Server::shared().await;
    let found = definition(&server, GROUP, KINDS[0]).await;
    let names = &found["spec"]["names"];
    assert_eq!(names["kind"], "StewardControlPlane");
    assert_eq!(names["listKind"], "StewardControlPlaneList");
    let categories = names["categories"].as_array().unwrap();
    assert!(categories.contains(&json!("cluster-api")));
    let version = &found["spec"]["versions"][0];
    assert!(version["subresources"]["status"].is_object());
    assert_eq!(version["storage"], true);
}

#[tokio::test]
async fn control_plane_rollout_after_is_not_offered_and_asking_for_it_is_refused() {
    let home = Server::shared().await.namespace("rules").await;
    let plane = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "StewardControlPlane",
        "metadata": {"name": "blue"},
        "spec": {"version": "v1.35.4", "rollout": {"after": "2026-01-01T00:00:00Z"}},
    });
    // As every kubectl asks: a field that nobody reads must not be taken for a promise.
    let apply = ["apply", "--validate=strict", "-f", "-", "-n", home.name()];
    let output = home.server().try_kubectl(&apply, &plane.to_string()).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains(r#"unknown field "spec.rollout""#), "{said}");
}

#[tokio::test]
async fn control_plane_template_and_its_list_are_defined_and_leave_to_the_cluster_what_it_says() {
    let server = Server::shared().await;
    let found = definition(&server, GROUP, KINDS[1]).await;
    assert_eq!(
        found["spec"]["names"]["listKind"],
        "StewardControlPlaneTemplateList"
    );
    types(
        &found,
        &[
            ("spec.template.metadata.labels", "object"),
            ("spec.template.metadata.annotations", "object"),
            ("spec.template.spec.network", "object"),
        ],
    );
    for path in ["version", "replicas", "controlPlaneEndpoint"] {
        let found = field(&found, &format!("spec.template.spec.{path}"));
        assert!(found.is_null(), "{path} is the Cluster's to say");
    }
    let home = server.namespace("rules").await;
    let metadata = json!({"labels": {"tier": "gold"}, "annotations": {"note": "kept"}});
    home.apply_yaml(&template("small", &metadata).to_string())
        .await;
    let templates = stage::objects(&home, GROUP, "v1alpha1", KINDS[1]);
    let kept = templates.get("small").await.unwrap();
    assert_eq!(kept.data["spec"]["template"]["metadata"], metadata);
}

#[tokio::test]
async fn clusterctl_support_its_labels_are_on_everything_that_moves() {
    let server = Server::shared().await;
    let steward = "control-plane-steward";
    for (group, kind, provider) in [
        (GROUP, "StewardControlPlane", steward),
        (GROUP, "StewardControlPlaneTemplate", steward),
        ("steward.butlerlabs.dev", "TenantControlPlane", steward),
        (
            "infrastructure.cluster.x-k8s.io",
            "LocalCluster",
            "infrastructure-butler-local",
        ),
    ] {
        let found = definition(&server, group, kind).await;
        let labels = &found["metadata"]["labels"];
        assert_eq!(labels["cluster.x-k8s.io/provider"], provider, "{kind}");
        // What has this label is discovered by a move; `tests/cluster_api` makes one.
        assert_eq!(labels["clusterctl.cluster.x-k8s.io"], "", "{kind}");
    }
}

#[tokio::test]
async fn every_field_of_the_contract_has_the_contracts_type() {
    let server = Server::shared().await;
    let found = definition(&server, GROUP, KINDS[0]).await;
    types(
        &found,
        &[
            ("spec.controlPlaneEndpoint.host", "string"),
            ("spec.controlPlaneEndpoint.port", "integer"),
            ("spec.version", "string"),
            ("status.version", "string"),
            ("spec.replicas", "integer"),
            ("status.selector", "string"),
            ("status.replicas", "integer"),
            ("status.readyReplicas", "integer"),
            ("status.availableReplicas", "integer"),
            ("status.upToDateReplicas", "integer"),
            ("status.initialization.controlPlaneInitialized", "boolean"),
            ("status.externalManagedControlPlane", "boolean"),
            ("status.conditions", "array"),
            // What readers of the v1beta1 contract look for, until April 2027.
            ("status.initialized", "boolean"),
            ("status.ready", "boolean"),
            ("status.updatedReplicas", "integer"),
            ("status.unavailableReplicas", "integer"),
        ],
    );
    let port = field(&found, "spec.controlPlaneEndpoint.port");
    assert_eq!(port["maximum"].as_f64(), Some(65535.0));
    let conditions = field(&found, "status.conditions");
    assert_eq!(conditions["x-kubernetes-list-type"], "map");
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
}
