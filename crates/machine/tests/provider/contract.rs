//! The contract's rules that can be read from the definitions: one row for each field that Cluster API looks for.
//!
//! What has to happen over time is shown by the other tests of this folder.

use butler_api::infrastructure;
use serde_json::{Value, json};

const KINDS: [&str; 4] = [
    "LocalCluster",
    "LocalClusterTemplate",
    "LocalMachine",
    "LocalMachineTemplate",
];

fn definition(kind: &str) -> Value {
    let all = infrastructure::crds().into_iter();
    let mut all = all.map(|definition| serde_json::to_value(definition).unwrap());
    all.find(|definition| definition["spec"]["names"]["kind"] == kind)
        .unwrap_or_else(|| panic!("there is no definition of {kind}"))
}

/// The schema of a field such as `spec.providerID`; `[]` means the items of a list.
fn field(definition: &Value, path: &str) -> Value {
    let mut schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for name in path.split('.') {
        schema = match name.strip_suffix("[]") {
            Some(name) => &schema["properties"][name]["items"],
            None => &schema["properties"][name],
        };
    }
    schema.clone()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn every_kind_has_the_fields_of_the_contract() {
    for (rule, kind, path, type_) in [
        (
            "InfraCluster: control plane endpoint",
            "LocalCluster",
            "spec.controlPlaneEndpoint.host",
            "string",
        ),
        (
            "InfraCluster: control plane endpoint",
            "LocalCluster",
            "spec.controlPlaneEndpoint.port",
            "integer",
        ),
        (
            "InfraCluster: failure domains",
            "LocalCluster",
            "status.failureDomains[].name",
            "string",
        ),
        (
            "InfraCluster: failure domains",
            "LocalCluster",
            "status.failureDomains[].controlPlane",
            "boolean",
        ),
        (
            "InfraCluster: failure domains",
            "LocalCluster",
            "status.failureDomains[].attributes",
            "object",
        ),
        (
            "InfraCluster: initialization completed",
            "LocalCluster",
            "status.initialization.provisioned",
            "boolean",
        ),
        (
            "InfraCluster: conditions",
            "LocalCluster",
            "status.conditions",
            "array",
        ),
        (
            "InfraClusterTemplate",
            "LocalClusterTemplate",
            "spec.template.spec",
            "object",
        ),
        (
            "InfraClusterTemplate",
            "LocalClusterTemplate",
            "spec.template.metadata.labels",
            "object",
        ),
        (
            "InfraMachine: provider ID",
            "LocalMachine",
            "spec.providerID",
            "string",
        ),
        (
            "InfraMachine: addresses",
            "LocalMachine",
            "status.addresses[].type",
            "string",
        ),
        (
            "InfraMachine: addresses",
            "LocalMachine",
            "status.addresses[].address",
            "string",
        ),
        (
            "InfraMachine: initialization completed",
            "LocalMachine",
            "status.initialization.provisioned",
            "boolean",
        ),
        (
            "InfraMachine: conditions",
            "LocalMachine",
            "status.conditions",
            "array",
        ),
        (
            "InfraMachineTemplate",
            "LocalMachineTemplate",
            "spec.template.spec",
            "object",
        ),
        (
            "InfraMachineTemplate",
            "LocalMachineTemplate",
            "spec.template.metadata.annotations",
            "object",
        ),
    ] {
        let found = field(&definition(kind), path);
        assert_eq!(found["type"], type_, "{rule}: {kind} {path}");
    }
}

#[test]
fn every_definition_is_found_the_way_cluster_api_looks_for_it() {
    for kind in KINDS {
        let definition = definition(kind);
        let (spec, metadata) = (&definition["spec"], &definition["metadata"]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let name = format!(
            "{}.{}",
            text(&spec["names"]["plural"]),
            text(&spec["group"])
        );
        assert_eq!(metadata["name"], name, "the name is computed from the kind");
        assert_eq!(
            metadata["labels"]["cluster.x-k8s.io/v1beta2"], "v1alpha1",
            "{kind}"
        );
        assert_eq!(spec["scope"], "Namespaced", "{kind}");
        let categories = spec["names"]["categories"].as_array().unwrap();
        assert!(categories.contains(&json!("cluster-api")), "{kind}");
    }
    for kind in ["LocalCluster", "LocalMachine"] {
        let version = &definition(kind)["spec"]["versions"][0];
        assert!(version["subresources"]["status"].is_object(), "{kind}");
    }
}

#[test]
fn a_template_leaves_to_each_object_what_is_its_own() {
    let template = definition("LocalMachineTemplate");
    assert!(field(&template, "spec.template.spec.providerID").is_null());
    assert!(!field(&template, "spec.template.spec.memory").is_null());
}
