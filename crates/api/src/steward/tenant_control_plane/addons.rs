//! What a hosted control plane installs in the tenant cluster, or runs for it.

use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::steward::fragments::Resources;

/// What runs inside the tenant cluster from the start. An empty block turns an addon on with its
/// defaults, leaving it out turns it off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Addons {
    /// `CoreDNS`, the cluster's name service.
    #[serde(default, rename = "coreDNS", skip_serializing_if = "Option::is_none")]
    pub core_dns: Option<ImageOverride>,
    /// kube-proxy. Leave it out for network plugins that replace it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<ImageOverride>,
    /// A tunnel from the API server to nodes that it cannot reach itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub konnectivity: Option<Konnectivity>,
    /// A proxy in the tenant cluster that makes `kubernetes.default.svc` work behind an Ingress or
    /// Gateway. Not supported yet: a spec with it is refused by the condition `SpecValid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_proxy: Option<TcpProxy>,
    /// What nodes of an operating system with its own bootstrap need. Kept for later: no trust service
    /// runs yet, which the condition `WorkerBootstrapReady` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_bootstrap: Option<WorkerBootstrap>,
}

/// Another image for an addon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageOverride {
    /// Repository of the image without its name, such as `mirror.example.com/k8s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::fragments::repository")]
    pub image_repository: Option<String>,
    /// Tag of the image. Left out, the one that belongs to the Kubernetes release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::fragments::image_tag")]
    pub image_tag: Option<String>,
}

/// A tunnel from the API server to nodes that it cannot reach itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Konnectivity {
    /// The end beside the API server.
    #[serde(default)]
    pub server: KonnectivityServer,
    /// The end in the tenant cluster.
    #[serde(default)]
    pub agent: KonnectivityAgent,
}

/// The end of the tunnel beside the API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KonnectivityServer {
    /// Port that agents dial. Default 8132.
    #[serde(default = "default_konnectivity_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Version of the image, such as `v0.34.0`. Left out, the one for the Kubernetes release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::fragments::image_tag")]
    pub version: Option<String>,
    /// Image without its tag. Default `registry.k8s.io/kas-network-proxy/proxy-server`.
    #[serde(default = "default_server_image")]
    #[schemars(schema_with = "crate::steward::fragments::repository")]
    pub image: String,
    /// CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// More flags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::args")]
    pub extra_args: Vec<String>,
}

impl Default for KonnectivityServer {
    fn default() -> Self {
        Self {
            port: default_konnectivity_port(),
            version: None,
            image: default_server_image(),
            resources: None,
            extra_args: Vec::new(),
        }
    }
}

/// The end of the tunnel in the tenant cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.mode != 'DaemonSet' || !has(self.replicas) || self.replicas == 0")
        .message("replicas goes with mode Deployment: a DaemonSet runs one agent on each node")
        .field_path(".replicas"),
    validation = Rule::new("self.mode != 'Deployment' || !has(self.replicas) || self.replicas > 0")
        .message("mode Deployment needs at least one replica")
        .field_path(".replicas")
)]
#[serde(rename_all = "camelCase")]
pub struct KonnectivityAgent {
    /// Image without its tag. Default `registry.k8s.io/kas-network-proxy/proxy-agent`.
    #[serde(default = "default_agent_image")]
    #[schemars(schema_with = "crate::steward::fragments::repository")]
    pub image: String,
    /// Version of the image. Left out, the one for the Kubernetes release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::fragments::image_tag")]
    pub version: Option<String>,
    /// Taints that agents tolerate. Default: `CriticalAddonsOnly`.
    #[serde(default = "default_agent_tolerations")]
    #[schemars(schema_with = "crate::steward::fragments::tolerations")]
    pub tolerations: Vec<Value>,
    /// More flags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::args")]
    pub extra_args: Vec<String>,
    /// Run agents in the network of their node.
    #[serde(default)]
    pub host_network: bool,
    /// `DaemonSet` (the default) or `Deployment`.
    #[serde(default)]
    pub mode: AgentMode,
    /// Number of agents, with mode `Deployment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub replicas: Option<i32>,
}

impl Default for KonnectivityAgent {
    fn default() -> Self {
        Self {
            image: default_agent_image(),
            version: None,
            tolerations: default_agent_tolerations(),
            extra_args: Vec::new(),
            host_network: false,
            mode: AgentMode::default(),
            replicas: None,
        }
    }
}

/// How konnectivity agents are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentMode {
    /// One on each node.
    #[default]
    DaemonSet,
    /// A fixed number.
    Deployment,
}

/// A proxy to the API server in the tenant cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TcpProxy {
    /// Image with its tag. Left out, the one that belongs to this release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image: Option<String>,
    /// CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Names that the proxy resolves without DNS.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "host_aliases")]
    pub host_aliases: Vec<HostAlias>,
    /// Address of the API server that the proxy dials instead of the public one, as `host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 259))]
    pub internal_endpoint: Option<String>,
}

/// Names of one address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostAlias {
    /// The address.
    #[schemars(schema_with = "crate::schema::ip")]
    pub ip: String,
    /// Its names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "host_names")]
    pub hostnames: Vec<String>,
}

/// What nodes of an operating system with its own bootstrap need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.provider != 'talos' || has(self.talos)")
        .message("provider talos needs a talos block, which may be empty: talos: {}")
        .field_path(".talos")
)]
#[serde(rename_all = "camelCase")]
pub struct WorkerBootstrap {
    /// Operating system: `talos`.
    pub provider: BootstrapProvider,
    /// Settings for Talos nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talos: Option<Talos>,
    /// How certificate requests of kubelets are answered.
    #[serde(default)]
    pub csr_approval: CsrApproval,
    /// Ranges that addresses in kubelet certificates must come from. Left out, any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::cidrs")]
    pub allowed_subnets: Vec<String>,
}

/// An operating system with its own bootstrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BootstrapProvider {
    /// Talos Linux.
    #[default]
    Talos,
}

/// The service that gives Talos nodes their certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Talos {
    /// Image without its tag. Default `ghcr.io/butlerdotdev/steward-trustd`.
    #[serde(default = "default_trustd_image")]
    #[schemars(schema_with = "crate::steward::fragments::repository")]
    pub image: String,
    /// Tag of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::fragments::image_tag")]
    pub image_tag: Option<String>,
    /// Port that nodes dial. Default 50001.
    #[serde(default = "default_trustd_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// More names and addresses that its certificate is valid for.
    #[serde(default, rename = "certSANs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::subject_names")]
    pub cert_sans: Vec<String>,
}

impl Default for Talos {
    fn default() -> Self {
        Self {
            image: default_trustd_image(),
            image_tag: None,
            port: default_trustd_port(),
            resources: None,
            cert_sans: Vec::new(),
        }
    }
}

/// How certificate requests of kubelets are answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CsrApproval {
    /// Approve serving certificates of nodes that prove who they are. Default true.
    #[serde(default = "default_true")]
    pub auto_approve: bool,
}

impl Default for CsrApproval {
    fn default() -> Self {
        Self { auto_approve: true }
    }
}

fn host_aliases(generator: &mut SchemaGenerator) -> Schema {
    let list = generator.subschema_for::<Vec<HostAlias>>();
    crate::schema::merge_by_key(list, "ip", 32)
}

fn host_names(generator: &mut SchemaGenerator) -> Schema {
    let item = crate::steward::fragments::host_name(generator);
    json_schema!({ "type": "array", "minItems": 1, "maxItems": 16, "items": item })
}

fn default_true() -> bool {
    true
}

fn default_konnectivity_port() -> i32 {
    8132
}

fn default_server_image() -> String {
    "registry.k8s.io/kas-network-proxy/proxy-server".into()
}

fn default_agent_image() -> String {
    "registry.k8s.io/kas-network-proxy/proxy-agent".into()
}

fn default_agent_tolerations() -> Vec<Value> {
    vec![json!({ "key": "CriticalAddonsOnly", "operator": "Exists" })]
}

fn default_trustd_image() -> String {
    "ghcr.io/butlerdotdev/steward-trustd".into()
}

fn default_trustd_port() -> i32 {
    50001
}
