//! `TenantCluster`: the cluster a user asks for, and what became of it.
//!
//! Only the shape and the rules of the resource are here. What follows from it (Cluster API objects,
//! addresses, addons) is planned elsewhere.

use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::{LocalRef, ObjectRef};

mod addons;
mod control_plane;
mod networking;
mod nodes;
mod overrides;
mod pools;
mod rules;
mod schedule;
mod status;
mod workers;
mod workspaces;

pub use addons::{
    Addons, CertManager, Cni, CniProvider, Gitops, GitopsProvider, GitopsRepository, Ingress,
    IngressProvider, LoadBalancer, LoadBalancerProvider, Monitoring, MonitoringProvider, Storage,
    StorageProvider,
};
pub use control_plane::{ControlPlane, ServiceType};
pub use networking::Networking;
pub use nodes::{NodeSettings, Proxy, RegistryMirror};
pub use overrides::{
    GcpOverride, HarvesterOverride, InfrastructureOverride, NutanixOverride, ProxmoxOverride,
};
pub use pools::{
    DEFAULT_POOL, NodeTaint, POOL_NAME_MAX, PoolRollout, PoolSettings, TaintEffect, WorkerPool,
};
pub use schedule::{Hibernation, HibernationSchedule, Maintenance, MaintenanceWindow};
pub use status::{
    AddonManager, AddonState, ObservedAddon, ObservedState, ObservedWorkers, Phase,
    TenantClusterStatus,
};
pub use workers::{MachineTemplate, NodeOs, OsType, Talos, Workers};
pub use workspaces::{WorkspaceQuota, Workspaces};

/// A Kubernetes cluster for a team: a hosted control plane, worker machines and addons.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "butler.butlerlabs.dev",
    version = "v1alpha1",
    kind = "TenantCluster",
    plural = "tenantclusters",
    shortname = "tc",
    category = "butler",
    namespaced,
    status = "TenantClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A Kubernetes cluster for a team: a hosted control plane, worker machines and addons.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    scale(
        spec_replicas_path = ".spec.workers.replicas",
        status_replicas_path = ".status.workerNodesReady"
    ),
    validation = rules::name(),
    validation = rules::one_major(),
    validation = rules::one_minor_at_a_time(),
    validation = rules::no_downgrade(),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".spec.kubernetesVersion"
    ),
    printcolumn(
        name = "Ready",
        type_ = "integer",
        json_path = ".status.workerNodesReady",
        description = "Workers that are ready."
    ),
    printcolumn(
        name = "Workers",
        type_ = "integer",
        json_path = ".spec.workers.replicas",
        description = "Workers that are wanted."
    ),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".status.controlPlaneEndpoint"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Team",
        type_ = "string",
        json_path = ".spec.teamRef.name",
        priority = 1
    ),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.providerConfigRef.name",
        priority = 1
    ),
    printcolumn(
        name = "Tenant Namespace",
        type_ = "string",
        json_path = ".status.tenantNamespace",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    )
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = rules::set_once("teamRef", "a cluster cannot move to another team"),
    validation = rules::set_once("providerConfigRef", "machines cannot move to another provider"),
    validation = rules::room_for_workers(),
    validation = rules::one_address_pool(),
    validation = rules::address_pool_apart("podCIDR"),
    validation = rules::address_pool_apart("serviceCIDR")
)]
#[serde(rename_all = "camelCase")]
pub struct TenantClusterSpec {
    /// Kubernetes release of the control plane and the workers, such as `v1.35.4`. A later release may
    /// follow, one minor version at a time; one earlier than that which runs may not.
    #[schemars(schema_with = "crate::schema::kube_version")]
    pub kubernetes_version: String,
    /// Team the cluster belongs to. Needed where teams are enforced; the cluster then lives in the
    /// team's namespace. It cannot change once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_ref: Option<LocalRef>,
    /// ProviderConfig that says where machines come from. Its namespace defaults to `butler-system`.
    /// Without it the platform's default provider is used. It cannot change once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_config_ref: Option<ObjectRef>,
    /// The hosted control plane.
    #[serde(default)]
    pub control_plane: ControlPlane,
    /// The worker machines.
    pub workers: Workers,
    /// More workers, in pools of equal ones, each with its own size, labels, taints and zone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pools::pools")]
    pub worker_pools: Vec<WorkerPool>,
    /// What all machines are told: registry mirrors, proxy, trusted authorities, SSH keys, kubelet flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_settings: Option<NodeSettings>,
    /// Address ranges and the DNS domain of the cluster.
    #[serde(default)]
    pub networking: Networking,
    /// Addons that come with the cluster. What is left out is installed as the platform's defaults say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addons: Option<Addons>,
    /// How far Butler manages the inside of the cluster.
    #[serde(default)]
    pub management_policy: ManagementPolicy,
    /// Time servers of the machines, as host names or addresses. Defaults to those of the provider, then
    /// to those of the platform.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::hosts")]
    pub time_servers: Vec<String>,
    /// Settings of the provider that this cluster wants differently. At most one block, that of its
    /// provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infrastructure_override: Option<InfrastructureOverride>,
    /// When the cluster sleeps to save resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hibernation: Option<Hibernation>,
    /// When the cluster may be disturbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
    /// While true, nothing of the cluster is removed, even if it is asked to be deleted. Default: false.
    #[serde(default)]
    pub deletion_protection: bool,
    /// While true, nothing of the cluster is changed: a rollout or upgrade that is under way stops where it is, machines
    /// are not repaired, and its schedules do not count. What runs goes on running. Addons are paused one by one, and a
    /// deletion is carried out all the same. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Development workspaces inside the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<Workspaces>,
}

/// How far Butler manages the inside of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ManagementPolicy {
    /// Active installs, upgrades and repairs addons. Observe only reports what it finds. GitOps installs
    /// them once and then leaves them to the tool in the cluster. Default: Active.
    #[serde(default)]
    pub mode: ManagementMode,
}

/// The ways to manage addons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ManagementMode {
    /// Butler installs, upgrades and repairs.
    #[default]
    Active,
    /// Butler reports.
    Observe,
    /// Butler installs once.
    GitOps,
}
