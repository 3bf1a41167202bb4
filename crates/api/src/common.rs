//! Small field types that several kinds share: references, ranges, resource requests.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of an object in the same namespace, or of a cluster-scoped object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalRef {
    /// Name of the object.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
}

/// The name of an object, with a namespace where it differs from the default one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectRef {
    /// Name of the object.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
    /// Namespace of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: Option<String>,
}

/// The name of an object that may live in any namespace; both parts are required.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamespacedRef {
    /// Name of the object.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
    /// Namespace of the object.
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: String,
}

/// A Secret, and the key in it that is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
    /// Namespace of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: Option<String>,
    /// Key inside the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}

/// CPU and memory of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceAmounts {
    /// CPU in cores, such as `2` or `500m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub cpu: Option<IntOrString>,
    /// Memory, such as `512Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub memory: Option<IntOrString>,
}

/// What a container asks for, and the most it may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRequests {
    /// What the scheduler sets aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceAmounts>,
    /// The most it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceAmounts>,
}
