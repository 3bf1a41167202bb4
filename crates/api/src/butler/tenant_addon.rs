//! `TenantAddon`: an addon on one tenant cluster, from the catalogue or from any chart repository.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    butler::addon_options::{DriftMode, ValuesSource, history_limit},
    cel,
    common::{HelmRelease, LocalRef},
};

/// What is installed on a tenant cluster, and how.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "TenantAddon",
    plural = "tenantaddons",
    shortname = "ta",
    category = "butler",
    namespaced,
    status = "TenantAddonStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "An addon on one tenant cluster, from the catalogue or from any chart repository.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    validation = cel::name_at_most(63, "it becomes a label of what the addon installs"),
    validation = Rule::new(
        "!has(self.spec.helm) || has(self.spec.helm.releaseName) || self.metadata.name.size() <= 53"
    )
        .message("a name of more than 53 characters cannot be a Helm release: give helm.releaseName")
        .field_path(".metadata.name"),
    validation = Rule::new(
        "!has(self.spec.dependsOn) || !self.spec.dependsOn.exists(d, d.name == self.metadata.name)"
    )
        .message("an addon cannot depend on itself")
        .field_path(".spec.dependsOn"),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.clusterRef.name"
    ),
    printcolumn(name = "Addon", type_ = "string", json_path = ".spec.addon"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Installed",
        type_ = "string",
        json_path = ".status.installedVersion"
    ),
    printcolumn(
        name = "Chart",
        type_ = "string",
        json_path = ".spec.helm.chart",
        priority = 1
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
    validation = cel::immutable("clusterRef"),
    validation = cel::immutable_optional("addon")
)]
#[serde(rename_all = "camelCase")]
pub struct TenantAddonSpec {
    /// The TenantCluster to install on, in the same namespace. It cannot be changed.
    pub cluster_ref: LocalRef,
    /// Name of the AddonDefinition. Either this or `helm`; it cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub addon: Option<String>,
    /// A chart that is not in the catalogue. Either this or `addon`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmSource>,
    /// Version of the chart, such as `2.10.0`. Defaults to the default version of the catalogue, which may
    /// move; needed with `helm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub version: Option<String>,
    /// Helm values, laid over those of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub values: Option<Value>,
    /// Secrets with further values, laid over `values` in this order.
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
    /// TenantAddons in the same namespace that must be healthy first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub depends_on: Vec<LocalRef>,
}

/// A chart that is not in the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = cel::immutable_optional("releaseName"),
    validation = cel::immutable_optional("namespace")
)]
#[serde(rename_all = "camelCase")]
pub struct HelmSource {
    /// Address of the chart repository: `https://`, `http://` or `oci://`.
    #[schemars(schema_with = "crate::schema::chart_repository")]
    pub repository: String,
    /// Name of the chart in the repository.
    #[schemars(length(min = 1, max = 253))]
    pub chart: String,
    /// SHA-256 of the chart's archive, as `sha256:` and 64 hexadecimal digits: another archive is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::butler::addon_options::digest")]
    pub digest: Option<String>,
    /// Secret in the addon's namespace with `username` and `password` for the repository, and `ca.crt` where it has an
    /// authority of its own. It must carry the label `butler.butlerlabs.dev/for-addons: "true"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<LocalRef>,
    /// Speaks HTTP without TLS to an `oci://` registry. Defaults to false.
    #[serde(default)]
    pub plain_http: bool,
    /// Name of the Helm release. Defaults to the name of the addon; it cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::release_name")]
    pub release_name: Option<String>,
    /// Namespace in the cluster. Defaults to the name of the release; it cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: Option<String>,
    /// Whether the namespace is created when it is missing. Defaults to true.
    #[serde(default = "yes")]
    pub create_namespace: bool,
}

fn yes() -> bool {
    true
}

/// What happened to the addon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantAddonStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, ClusterReady, DependenciesMet, Installed and Healthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Where the addon is in its life, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TenantAddonPhase>,
    /// When the phase last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::time")]
    pub last_transition_time: Option<Time>,
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

/// The life of an addon on a tenant cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TenantAddonPhase {
    /// Waits for the cluster or for other addons.
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
    Deleting,
}
