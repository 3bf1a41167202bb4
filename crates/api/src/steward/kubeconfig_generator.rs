//! `KubeconfigGenerator`: kubeconfigs for a user over many hosted control planes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube_derive::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::rules;
use crate::cel;

/// Whom kubeconfigs are made for, and over which control planes.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "steward.butlerlabs.dev",
    version = "v1alpha1",
    kind = "KubeconfigGenerator",
    plural = "kubeconfiggenerators",
    shortname = "kc",
    category = "butler",
    category = "steward",
    status = "KubeconfigGeneratorStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Makes a kubeconfig for one user in every selected hosted control plane, renews it, and removes it when the control plane is no longer selected. It lies in a Secret named after the control plane and the generator.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    validation = cel::name_at_most(63, "the Secrets made by it carry it as a label"),
    printcolumn(
        name = "Resources",
        type_ = "integer",
        json_path = ".status.resources"
    ),
    printcolumn(
        name = "Available",
        type_ = "integer",
        json_path = ".status.availableResources"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigGeneratorSpec {
    /// Namespaces whose control planes are meant. Left out or empty, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label_selector")]
    pub namespace_selector: Option<LabelSelector>,
    /// Control planes that are meant. Left out or empty, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "label_selector")]
    pub tenant_control_plane_selector: Option<LabelSelector>,
    /// Groups of the user in the tenant clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub groups: Vec<CompoundValue>,
    /// Name of the user in the tenant clusters.
    pub user: CompoundValue,
    /// Key of the admin kubeconfig's Secret that the address is taken from: `admin.svc` (the default)
    /// for clients in this cluster, `admin.conf` for clients outside.
    #[serde(default = "default_endpoint_from")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub control_plane_endpoint_from: String,
}

/// Text, written down or read from the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = rules::exactly_one(&["stringValue", "fromDefinition"])
)]
#[serde(rename_all = "camelCase")]
pub struct CompoundValue {
    /// The text itself. At most 64 characters, because it becomes part of a certificate's subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub string_value: Option<String>,
    /// Path of a text field of the `TenantControlPlane`, such as `metadata.name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "definition_path")]
    pub from_definition: Option<String>,
}

/// What was last observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigGeneratorStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the generator: Ready, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Control planes that are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<i32>,
    /// Control planes that have their kubeconfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_resources: Option<i32>,
    /// Control planes that have none, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub errors: Vec<GeneratorError>,
}

/// Why a control plane has no kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeneratorError {
    /// The control plane, as `namespace/name`.
    pub resource: String,
    /// What went wrong.
    pub message: String,
}

fn definition_path(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        253,
        "self.matches('^[.]?(apiVersion|kind|(metadata|spec|status)([.][A-Za-z0-9_/-]+)+)$')",
        "must be the path of a field of the TenantControlPlane, such as metadata.name",
    )
}

fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "type": "object",
                "description": "Labels that must have these values.",
                "maxProperties": 32,
                "additionalProperties": { "type": "string", "maxLength": 63 },
            },
            "matchExpressions": {
                "type": "array",
                "description": "Conditions that must all hold.",
                "maxItems": 32,
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "type": "string", "minLength": 1, "maxLength": 316, "description": "Label key." },
                        "operator": {
                            "type": "string",
                            "description": "How the label is compared.",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "type": "array",
                            "description": "Values for In and NotIn.",
                            "maxItems": 32,
                            "items": { "type": "string", "maxLength": 63 },
                        },
                    },
                    "x-kubernetes-validations": [{
                        "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
                        "message": "In and NotIn need values; Exists and DoesNotExist have none",
                        "fieldPath": ".values",
                    }],
                },
            },
        },
    })
}

fn default_endpoint_from() -> String {
    "admin.svc".into()
}
