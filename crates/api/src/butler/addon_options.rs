//! What addons of tenants and of the management cluster have in common.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Values out of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValuesSource {
    /// The Secret. It must carry the label `butler.butlerlabs.dev/for-addons: "true"`, so that nobody reads other
    /// Secrets through an addon.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub secret: String,
    /// Key of the Secret. Defaults to `values.yaml`.
    #[serde(default = "values_key")]
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[-._a-zA-Z0-9]+$"))]
    pub key: String,
    /// Place in the values that the content of the key goes to as text, such as `auth.password`. Without it the content
    /// is YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = "^[^.]+([.][^.]+)*$"))]
    pub target_path: Option<String>,
}

fn values_key() -> String {
    "values.yaml".to_owned()
}

/// What happens when somebody changes what an addon installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriftMode {
    /// It is put back.
    #[default]
    Correct,
    /// It is said.
    Report,
    /// Nobody looks.
    Off,
}

/// How many revisions Helm keeps where nobody says.
pub(super) fn history_limit() -> i32 {
    10
}

/// The digest of a chart's archive.
pub(super) fn digest(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        71,
        "self.matches('^sha256:[0-9a-f]{64}$')",
        "must be sha256: and 64 hexadecimal digits",
    )
}
