//! `ClusterBootstrap`: a management cluster that is made from nothing.

use std::collections::BTreeMap;

use kube_derive::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

pub mod addons;
pub mod status;

pub use addons::BootstrapAddons;
pub use status::ClusterBootstrapStatus;

use super::machine_request::ExtraDisk;
use crate::{
    cel,
    common::{AddressRange, ControlPlaneExposure, InfrastructureProvider, ObjectRef},
};

/// A management cluster that is made from nothing: machines, Talos, Kubernetes, then the platform on it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "ClusterBootstrap",
    plural = "clusterbootstraps",
    shortname = "cb",
    category = "butler",
    namespaced,
    status = "ClusterBootstrapStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A management cluster that is made from nothing: machines, Talos, Kubernetes, then the platform on it.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    validation = cel::name_at_most(63, "it becomes a label of every machine"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.cluster.name"),
    printcolumn(name = "Topology", type_ = "string", json_path = ".spec.cluster.topology"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".status.controlPlaneEndpoint"
    ),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.provider",
        priority = 1
    ),
    printcolumn(
        name = "Console",
        type_ = "string",
        json_path = ".status.consoleURL",
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
    validation = cel::immutable("provider"),
    validation = cel::immutable("providerRef"),
    validation = Rule::new("self.provider == 'local' || has(self.talos)")
        .message("talos is needed for every provider but local: give its version and schematic")
        .field_path(".talos")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterBootstrapSpec {
    /// Where the machines come from. It cannot be changed.
    pub provider: InfrastructureProvider,
    /// The ProviderConfig with the address and the credentials. It cannot be changed.
    pub provider_ref: ObjectRef,
    /// The cluster and its machines.
    pub cluster: BootstrapCluster,
    /// Addresses of the cluster.
    pub network: BootstrapNetwork,
    /// The operating system of the machines. Needed for every provider but `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talos: Option<Talos>,
    /// What is installed on the cluster, and what is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addons: Option<BootstrapAddons>,
    /// How the API servers of tenant clusters will be reached. Goes into the ButlerConfig of the new cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_exposure: Option<ControlPlaneExposure>,
    /// Stops after the current step while true. Defaults to false.
    #[serde(default)]
    pub paused: bool,
}

/// The cluster and its machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = cel::immutable("name"),
    validation = cel::immutable("topology"),
    validation = Rule::new("self.topology != 'single-node' || self.controlPlane.replicas == 1")
        .message("a single-node cluster has exactly one control plane machine")
        .field_path(".controlPlane.replicas"),
    validation = Rule::new("self.topology == 'single-node' || self.controlPlane.replicas % 2 == 1")
        .message("a control plane needs an odd number of machines, such as 3, so that etcd keeps a majority")
        .field_path(".controlPlane.replicas")
)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapCluster {
    /// Name of the cluster, at most 53 characters: machines are called `<name>-cp-0`, `<name>-worker-0` and
    /// so on. It cannot be changed.
    #[schemars(schema_with = "cluster_name")]
    pub name: String,
    /// `ha` for as many machines as given below, `single-node` for one machine that does everything.
    /// Defaults to `ha`; it cannot be changed.
    #[serde(default)]
    pub topology: Topology,
    /// The machines that run etcd and the API server.
    pub control_plane: MachinePool,
    /// The machines that run everything else. Without them the control plane does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<MachinePool>,
}

fn cluster_name(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        63,
        "self.size() <= 53 && self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
        "must be at most 53 lower-case letters, digits and dashes, because machine names are made from it",
    )
}

/// Shapes of a management cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// One machine that does everything.
    SingleNode,
    /// Several machines.
    #[default]
    Ha,
}

/// Machines of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachinePool {
    /// How many, 1 to 10.
    #[schemars(range(min = 1, max = 10))]
    pub replicas: i32,
    /// Number of virtual CPUs, 1 to 128.
    #[schemars(range(min = 1, max = 128))]
    pub cpu: i32,
    /// Memory in MiB, at least 2048.
    #[serde(rename = "memoryMB")]
    #[schemars(range(min = 2048))]
    pub memory_mb: i32,
    /// Size of the system disk in GiB, at least 20.
    #[serde(rename = "diskGB")]
    #[schemars(range(min = 20))]
    pub disk_gb: i32,
    /// Further disks of every machine, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub extra_disks: Vec<ExtraDisk>,
    /// Labels or tags that the provider puts on the machines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
}

/// Addresses of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = cel::immutable("podCIDR"),
    validation = cel::immutable("serviceCIDR"),
    validation = Rule::new(cel::apart("self.podCIDR", "self.serviceCIDR"))
        .message("podCIDR and serviceCIDR must not overlap")
        .field_path(".serviceCIDR"),
    validation = outside_cluster_ranges("self.vip", "!has(self.vip)", "vip").field_path(".vip"),
    validation = outside_cluster_ranges("self.loadBalancerPool.start", "!has(self.loadBalancerPool)", "the pool")
        .field_path(".loadBalancerPool"),
    validation = outside_cluster_ranges("self.loadBalancerPool.end", "!has(self.loadBalancerPool)", "the pool")
        .field_path(".loadBalancerPool"),
    validation = Rule::new(vip_outside_pool())
        .message("vip must not be an address of loadBalancerPool")
        .field_path(".vip")
)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapNetwork {
    /// Addresses of pods. Defaults to `10.244.0.0/16`; it cannot be changed.
    #[serde(default = "pod_cidr", rename = "podCIDR")]
    #[schemars(schema_with = "crate::schema::cidr")]
    pub pod_cidr: String,
    /// Addresses of Services. Defaults to `10.96.0.0/12`; it cannot be changed.
    #[serde(default = "service_cidr", rename = "serviceCIDR")]
    #[schemars(schema_with = "crate::schema::cidr")]
    pub service_cidr: String,
    /// A free address in the network of the machines that moves to a living control plane machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::ip")]
    pub vip: Option<String>,
    /// Network card that announces the `vip`, such as `ens3`. Defaults to the usual one of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 15))]
    pub vip_interface: Option<String>,
    /// Addresses for Services of type `LoadBalancer` on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_pool: Option<AddressRange>,
}

impl Default for BootstrapNetwork {
    fn default() -> Self {
        Self {
            pod_cidr: pod_cidr(),
            service_cidr: service_cidr(),
            vip: None,
            vip_interface: None,
            load_balancer_pool: None,
        }
    }
}

fn pod_cidr() -> String {
    "10.244.0.0/16".into()
}

fn service_cidr() -> String {
    "10.96.0.0/12".into()
}

fn outside_cluster_ranges(address: &str, absent: &str, what: &str) -> kube_core::Rule {
    let outside =
        |range: &str| format!("(!isCIDR({range}) || !cidr({range}).containsIP({address}))");
    kube_core::Rule::new(format!(
        "{absent} || !isIP({address}) || ({} && {})",
        outside("self.podCIDR"),
        outside("self.serviceCIDR")
    ))
    .message(&*format!("{what} must lie outside podCIDR and serviceCIDR"))
}

fn vip_outside_pool() -> String {
    let (start, end) = ("self.loadBalancerPool.start", "self.loadBalancerPool.end");
    format!(
        "!has(self.vip) || !has(self.loadBalancerPool) || !isIP(self.vip) || !isIP({start}) || !isIP({end}) \
         || ip(self.vip).family() != ip({start}).family() || {} || {}",
        cel::before("self.vip", start),
        cel::before(end, "self.vip")
    )
}

/// The operating system of the machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Talos {
    /// Version of Talos, such as `v1.12.1`.
    #[schemars(schema_with = "talos_version")]
    pub version: String,
    /// Id of the image factory's schematic.
    #[schemars(length(min = 1, max = 128))]
    pub schematic: String,
    /// Disk to install on. Defaults to `/dev/vda`.
    #[serde(default = "install_disk")]
    #[schemars(schema_with = "device")]
    pub install_disk: String,
    /// Changes to the generated machine configuration, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub config_patches: Vec<ConfigPatch>,
}

fn install_disk() -> String {
    "/dev/vda".into()
}

fn talos_version(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        32,
        "self.matches('^v[0-9]+[.][0-9]+[.][0-9]+$')",
        "must be a full Talos version such as v1.12.1",
    )
}

fn device(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        255,
        "self.matches('^/dev/[^ ]+$')",
        "must be a device such as /dev/vda",
    )
}

/// One change to the machine configuration, as in JSON Patch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.op == 'remove' || has(self.value)")
        .message("add and replace need a value")
        .field_path(".value"),
    validation = Rule::new("self.path.startsWith('/')")
        .message("must start with a slash, such as /machine/kubelet/extraArgs")
        .field_path(".path")
)]
pub struct ConfigPatch {
    /// What to do: `add`, `remove` or `replace`.
    pub op: PatchOperation,
    /// Where, as a JSON pointer such as `/machine/kubelet/extraArgs`.
    #[schemars(length(max = 1024))]
    pub path: String,
    /// The new value, as JSON. Needed for `add` and `replace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65536))]
    pub value: Option<String>,
}

/// What a patch does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PatchOperation {
    /// Puts a value where none is, or one more into a list.
    #[default]
    Add,
    /// Takes a value away.
    Remove,
    /// Puts another value in its place.
    Replace,
}
