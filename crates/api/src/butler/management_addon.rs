//! `ManagementAddon`: an addon on the management cluster, from the catalogue or from any chart repository.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    butler::{
        addon_options::{DriftMode, ValuesSource, history_limit},
        tenant_addon::HelmSource,
    },
    cel,
    common::{HelmRelease, LocalRef},
};

/// What is installed on the management cluster, and how.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "ManagementAddon",
    plural = "managementaddons",
    shortname = "ma",
    shortname = "maddon",
    category = "butler",
    status = "ManagementAddonStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "An addon on the management cluster, from the catalogue or from any chart repository.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    validation = cel::name_at_most(53, "it names the Helm release"),
    validation = Rule::new(
        "!has(self.spec.dependsOn) || !self.spec.dependsOn.exists(d, d.name == self.metadata.name)"
    )
        .message("an addon cannot depend on itself")
        .field_path(".spec.dependsOn"),
    printcolumn(name = "Addon", type_ = "string", json_path = ".spec.addon"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Installed",
        type_ = "string",
        json_path = ".status.installedVersion"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.message",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("has(self.addon) != has(self.helm)")
        .message("give either addon, a name of the catalogue, or helm, a chart of your own"),
    validation = Rule::new("!has(self.helm) || (has(self.version) && self.version != '')")
        .message("a chart of your own needs a version: only the catalogue has default versions")
        .field_path(".version"),
    validation = cel::immutable_optional("addon")
)]
#[serde(rename_all = "camelCase")]
pub struct ManagementAddonSpec {
    /// Name of the AddonDefinition. Either this or `helm`. It cannot be changed: delete this object and create another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub addon: Option<String>,
    /// A chart that is not in the catalogue. Either this or `addon`. Its Secret is one of `butler-system`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmSource>,
    /// Version of the chart. Defaults to the default version of the catalogue, which may move; needed with `helm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub version: Option<String>,
    /// Helm values, laid over those of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub values: Option<Value>,
    /// Secrets in `butler-system` with further values, laid over `values` in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub values_from: Vec<ValuesSource>,
    /// How long a step may take, and how long the addon may take to become healthy after it. Defaults to that of the
    /// catalogue, or `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub timeout: Option<String>,
    /// What happens when somebody changes what the addon installed. Defaults to `correct`.
    #[serde(default)]
    pub drift: DriftMode,
    /// How many revisions Helm keeps. Defaults to 10.
    #[serde(default = "history_limit")]
    #[schemars(range(min = 2, max = 100))]
    pub history_limit: i32,
    /// Leaves the release alone while true. Defaults to false.
    #[serde(default)]
    pub paused: bool,
    /// ManagementAddons that must be healthy first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub depends_on: Vec<LocalRef>,
}

/// What happened to the addon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagementAddonStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, DependenciesMet, Installed and Healthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Where the addon is in its life, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ManagementAddonPhase>,
    /// What is going on, or what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Version that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed_version: Option<String>,
    /// Version that was last tried, whether it worked or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempted_version: Option<String>,
    /// The Helm release behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm_release: Option<HelmRelease>,
}

/// The life of an addon on the management cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ManagementAddonPhase {
    /// Seen, nothing done yet.
    #[default]
    Pending,
    /// The first installation runs.
    Installing,
    /// Runs as asked for.
    Installed,
    /// Another version or other values are being rolled out.
    Upgrading,
    /// Installed, but not healthy.
    Degraded,
    /// The last attempt failed; it is tried again.
    Failed,
    /// Being removed.
    Uninstalling,
}
