//! `AddonDefinition`: an entry of the addon catalogue. It describes a chart and installs nothing by itself.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString};
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{cel, common::LocalRef};

/// A chart that clusters can install by a short name.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "AddonDefinition",
    plural = "addondefinitions",
    shortname = "ad",
    shortname = "adddef",
    category = "butler",
    status = "AddonDefinitionStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "An entry of the addon catalogue: a Helm chart that clusters can install by a short name.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    validation = cel::name_at_most(53, "it names the Helm release where no releaseName is given"),
    validation = Rule::new("!has(self.spec.dependsOn) || !(self.metadata.name in self.spec.dependsOn)")
        .message("an addon cannot depend on itself")
        .field_path(".spec.dependsOn"),
    printcolumn(name = "Display Name", type_ = "string", json_path = ".spec.displayName"),
    printcolumn(name = "Category", type_ = "string", json_path = ".spec.category"),
    printcolumn(name = "Chart", type_ = "string", json_path = ".spec.chart.name"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".spec.chart.defaultVersion"
    ),
    printcolumn(name = "Platform", type_ = "boolean", json_path = ".spec.platform"),
    printcolumn(
        name = "Repository",
        type_ = "string",
        json_path = ".spec.chart.repository",
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
    validation = Rule::new("has(self.chart) != (has(self.builtIn) && self.builtIn)")
        .message("give either a chart or builtIn: true, for what machines bring along")
        .field_path(".chart")
)]
#[serde(rename_all = "camelCase")]
pub struct AddonDefinitionSpec {
    /// Name for people, such as `Argo CD`.
    #[schemars(length(min = 1, max = 64))]
    pub display_name: String,
    /// What the addon is for, in a sentence or two.
    #[schemars(length(min = 1, max = 512))]
    pub description: String,
    /// The shelf of the catalogue it stands on.
    pub category: AddonCategory,
    /// The chart and its versions. Left out where the addon is built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<AddonChart>,
    /// Whether the machines of a cluster bring it along, so that nothing is installed. Defaults to false.
    #[serde(default)]
    pub built_in: bool,
    /// How the chart is installed where a user says nothing else.
    #[serde(default)]
    pub defaults: AddonDefaults,
    /// Whether the addon belongs to every cluster, so that users cannot remove it. Defaults to false.
    #[serde(default)]
    pub platform: bool,
    /// Which layer a GitOps export puts it in: infrastructure comes before apps. Defaults to infrastructure
    /// for platform addons and to apps for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<AddonTier>,
    /// Names of addons that must be healthy before this one is installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        inner(length(min = 1, max = 253)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub depends_on: Vec<String>,
    /// Versions of Kubernetes that it runs on, such as `>=1.30 <1.37`. Defaults to all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "kubernetes_versions")]
    pub kubernetes_versions: Option<String>,
    /// A JSON Schema of the Helm values: those of an installation, together with the ones below `defaults`, are checked
    /// against it before Helm runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub values_schema: Option<Value>,
    /// When objects of kinds that Kubernetes itself does not know count as healthy. Without a rule they do once they are
    /// there, or once their condition `Ready` is true if they have one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub health: Vec<AddonHealthRule>,
    /// How another default version spreads over the TenantAddons that name none. Without it all of them move at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<AddonRollout>,
    /// An emoji for lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    pub icon: Option<String>,
    /// An SVG picture in base64, at most 128 KiB. Shown in place of the emoji.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 131_072), regex(pattern = "^[A-Za-z0-9+/=]*$"))]
    pub icon_data: Option<String>,
    /// Where to read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<AddonLinks>,
    /// Who looks after this entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintainer: Option<AddonMaintainer>,
}

impl AddonDefinitionSpec {
    /// The versions of Kubernetes that a version of the chart runs on; nothing where it runs on all.
    pub fn runs_on(&self, version: &str) -> Option<&str> {
        let by_version = self
            .chart
            .iter()
            .flat_map(|chart| &chart.kubernetes_versions);
        let mut own = by_version.filter(|(known, _)| is_same_version(known, version));
        let own = own.next().map(|(_, range)| range.as_str());
        own.or(self.kubernetes_versions.as_deref())
    }
}

/// Whether two versions of a chart are one: Helm takes `v1.2.3` and `1.2.3` for the same.
pub fn is_same_version(one: &str, other: &str) -> bool {
    one.trim_start_matches('v') == other.trim_start_matches('v')
}

/// The shelves of the catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the words speak for themselves")]
pub enum AddonCategory {
    Cni,
    Loadbalancer,
    Storage,
    Certmanager,
    Ingress,
    Observability,
    Backup,
    Gitops,
    Security,
    Dns,
    Database,
    Messaging,
    ServiceMesh,
    #[default]
    Other,
}

/// The layers of a GitOps export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AddonTier {
    /// What other things stand on.
    Infrastructure,
    /// Everything else.
    Apps,
}

/// A chart and its versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.defaultVersion != ''")
        .message("the catalogue must say which version is installed by default")
        .field_path(".defaultVersion")
)]
#[serde(rename_all = "camelCase")]
pub struct AddonChart {
    /// Address of the chart repository: `https://`, `http://` or `oci://`.
    #[schemars(schema_with = "crate::schema::chart_repository")]
    pub repository: String,
    /// Name of the chart in the repository.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Version that is installed where a user names none, such as `1.17.0`.
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub default_version: String,
    /// Further versions that users may choose. Where it names any, others are refused; without it every version of the
    /// repository may be chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "chart_versions")]
    pub available_versions: Vec<String>,
    /// SHA-256 of the chart's archive by version, as `sha256:` and 64 hexadecimal digits: another archive of that version
    /// is refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "chart_digests")]
    pub digests: BTreeMap<String, String>,
    /// Versions of Kubernetes by version of the chart, for versions whose range is not that of the whole entry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "chart_kubernetes_versions")]
    pub kubernetes_versions: BTreeMap<String, String>,
    /// Secret in `butler-system` with `username` and `password` for the repository, and `ca.crt` where it has an
    /// authority of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<LocalRef>,
    /// Speaks HTTP without TLS to an `oci://` registry. Defaults to false.
    #[serde(default)]
    pub plain_http: bool,
}

/// How another default version spreads over the addons that follow the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddonRollout {
    /// Clusters that come first, wave by wave: the next begins when all addons of the one before are ready. Clusters of no
    /// wave come last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub waves: Vec<AddonWave>,
    /// How many addons may be unavailable at once, as a number or as a part of all, such as `10%`. Defaults to 1.
    #[schemars(schema_with = "max_unavailable")]
    pub max_unavailable: IntOrString,
    /// How many addons may fail before it goes no further. Defaults to 0.
    #[schemars(range(min = 0))]
    pub max_failures: i32,
}

impl Default for AddonRollout {
    fn default() -> Self {
        Self {
            waves: Vec::new(),
            max_unavailable: IntOrString::Int(1),
            max_failures: 0,
        }
    }
}

/// Clusters that come together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonWave {
    /// Name of the wave, such as `canary`.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Labels that a TenantCluster must have.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 16))]
    pub match_labels: BTreeMap<String, String>,
}

fn max_unavailable(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true,
        "x-kubernetes-validations": [{
            "rule": "type(self) == int ? self > 0 : self.matches('^[1-9][0-9]{0,2}%?$')",
            "message": "must be a number of at least 1, or a part of all such as 10%",
        }],
    })
}

/// How far the catalogue's version is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonDefinitionStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// RolledOut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The rollout of the default version, where `spec.rollout` says how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<AddonRolloutStatus>,
}

/// How far a rollout is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonRolloutStatus {
    /// The version that spreads.
    pub version: String,
    /// TenantAddons that follow the catalogue.
    pub total: i32,
    /// Those that have the version and are ready.
    pub updated: i32,
    /// Those on their way to it.
    pub updating: i32,
    /// Those that did not get there.
    pub failed: i32,
    /// The wave that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<String>,
}

/// When objects of one kind count as healthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("has(self.condition) != has(self.field)")
        .message("give either a condition or a field")
)]
#[serde(rename_all = "camelCase")]
pub struct AddonHealthRule {
    /// Group of the kind, such as `monitoring.coreos.com`.
    #[schemars(length(max = 253))]
    pub group: String,
    /// The kind, such as `Prometheus`.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Condition that must be true, such as `Available`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 316))]
    pub condition: Option<String>,
    /// Field that must have a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<AddonHealthField>,
}

/// A field of an object, and the text that it holds when all is well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonHealthField {
    /// Where it is, such as `status.updateStatus`.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[^.]+([.][^.]+)*$"))]
    pub path: String,
    /// What it holds.
    #[schemars(length(max = 253))]
    pub equals: String,
}

fn kubernetes_versions(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    crate::schema::text(
        128,
        "self.matches('^(>=|<=|>|<|=)?v?[0-9]+[.][0-9]+([.][0-9]+)?([ ,]+(>=|<=|>|<|=)?v?[0-9]+[.][0-9]+([.][0-9]+)?)*$')",
        "must be a range of versions such as >=1.30 <1.37",
    )
}

fn chart_digests(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": crate::butler::addon_options::digest(generator),
    })
}

fn chart_kubernetes_versions(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": kubernetes_versions(generator),
    })
}

fn chart_versions(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "set",
        "items": crate::schema::chart_version(generator),
    })
}

/// How a chart is installed where a user says nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddonDefaults {
    /// Namespace to install into. Defaults to the name of this definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: Option<String>,
    /// Name of the Helm release. Defaults to the name of this definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::release_name")]
    pub release_name: Option<String>,
    /// Whether the namespace is created when it is missing. Defaults to true.
    pub create_namespace: bool,
    /// How long an installation may take before it counts as failed. Defaults to `10m`.
    #[schemars(schema_with = "crate::schema::duration")]
    pub timeout: String,
    /// Helm values; those of an installation are laid over them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub values: Option<Value>,
}

impl Default for AddonDefaults {
    fn default() -> Self {
        Self {
            namespace: None,
            release_name: None,
            create_namespace: true,
            timeout: "10m".into(),
            values: None,
        }
    }
}

/// Where to read more about an addon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddonLinks {
    /// Its manual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::url")]
    pub documentation: Option<String>,
    /// Its home page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::url")]
    pub homepage: Option<String>,
    /// Its source code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::url")]
    pub source: Option<String>,
}

/// Who looks after a catalogue entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddonMaintainer {
    /// Name of a person or a team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub name: Option<String>,
    /// Where to write to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::email")]
    pub email: Option<String>,
}
