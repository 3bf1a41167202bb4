//! The contract's rules that can be read from the definitions: one row for each field that Cluster API looks for.
//!
//! What has to happen over time is shown by the other tests of this folder.

use butler_api::controlplane;
use serde_json::{Value, json};

fn definition(kind: &str) -> Value {
    let all = controlplane::crds().into_iter();
    let mut all = all.map(|definition| serde_json::to_value(definition).unwrap());
    all.find(|definition| definition["spec"]["names"]["kind"] == kind)
        .unwrap_or_else(|| panic!("there is no definition of {kind}"))
}

/// The schema of a field such as `spec.version`.
fn field(definition: &Value, path: &str) -> Value {
    let mut schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for name in path.split('.') {
        schema = &schema["properties"][name];
    }
    schema.clone()
}

#[test]
fn the_control_plane_has_every_field_of_the_contract() {
    let definition = definition("StewardControlPlane");
    for (rule, path, kind) in [
        ("endpoint", "spec.controlPlaneEndpoint.host", "string"),
        ("endpoint", "spec.controlPlaneEndpoint.port", "integer"),
        ("version", "spec.version", "string"),
        ("version", "status.version", "string"),
        ("replicas", "spec.replicas", "integer"),
        ("replicas", "status.selector", "string"),
        ("replicas", "status.replicas", "integer"),
        ("replicas", "status.readyReplicas", "integer"),
        ("replicas", "status.availableReplicas", "integer"),
        ("replicas", "status.upToDateReplicas", "integer"),
        (
            "initialization completed",
            "status.initialization.controlPlaneInitialized",
            "boolean",
        ),
        (
            "no machines",
            "status.externalManagedControlPlane",
            "boolean",
        ),
        ("conditions", "status.conditions", "array"),
        ("v1beta1 readers", "status.initialized", "boolean"),
        ("v1beta1 readers", "status.ready", "boolean"),
    ] {
        let found = field(&definition, path);
        assert_eq!(found["type"], kind, "{rule}: {path}");
    }
    let port = field(&definition, "spec.controlPlaneEndpoint.port");
    assert_eq!(port["maximum"].as_f64(), Some(65535.0));
    let conditions = field(&definition, "status.conditions");
    assert_eq!(conditions["x-kubernetes-list-type"], "map");
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
}

#[test]
fn the_definitions_are_found_and_scaled_the_way_cluster_api_does_it() {
    for kind in ["StewardControlPlane", "StewardControlPlaneTemplate"] {
        let definition = definition(kind);
        let (spec, metadata) = (&definition["spec"], &definition["metadata"]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let name = format!(
            "{}.{}",
            text(&spec["names"]["plural"]),
            text(&spec["group"])
        );
        assert_eq!(metadata["name"], name, "the name is computed from the kind");
        assert_eq!(metadata["labels"]["cluster.x-k8s.io/v1beta2"], "v1alpha1");
        assert_eq!(spec["scope"], "Namespaced");
        let categories = spec["names"]["categories"].as_array().unwrap();
        assert!(categories.contains(&json!("cluster-api")));
    }
    let version = &definition("StewardControlPlane")["spec"]["versions"][0];
    let scale = &version["subresources"]["scale"];
    assert_eq!(scale["specReplicasPath"], ".spec.replicas");
    assert_eq!(scale["statusReplicasPath"], ".status.replicas");
    assert_eq!(scale["labelSelectorPath"], ".status.selector");
    assert!(version["subresources"]["status"].is_object());
}

#[test]
fn a_template_leaves_to_the_cluster_what_the_cluster_says() {
    let template = definition("StewardControlPlaneTemplate");
    for path in ["labels", "annotations"] {
        let found = field(&template, &format!("spec.template.metadata.{path}"));
        assert_eq!(found["type"], "object", "{path}");
    }
    for path in ["version", "replicas", "controlPlaneEndpoint"] {
        let found = field(&template, &format!("spec.template.spec.{path}"));
        assert!(found.is_null(), "{path}");
    }
    assert_eq!(
        field(&template, "spec.template.spec.network")["type"],
        "object"
    );
}
