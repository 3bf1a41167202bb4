//! What is known about a hosted control plane.
//!
//! Field names are those that existing tools read. Nothing but `usage`, which moves in steps, says when it changed: a
//! status that moves by itself would wake its own watch.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::addons_status::AddonsStatus;
use crate::steward::data_store::StorageUsage;

/// What was last observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantControlPlaneStatus {
    /// The generation this status speaks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the control plane: Ready, and what stands in its way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Where the tenant's state is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageStatus>,
    /// Secrets with certificates and keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<CertificatesStatus>,
    /// Secrets with kubeconfigs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<KubeconfigsStatus>,
    /// The objects that run and expose the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_resources: Option<KubernetesResources>,
    /// Address of the API server, as `host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 259))]
    pub control_plane_endpoint: Option<String>,
    /// What is installed in the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addons: Option<AddonsStatus>,
}

/// A Secret that was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretStatus {
    /// Name of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// Checksum of its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// Where the tenant's state is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageStatus {
    /// Driver of the store, such as `etcd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Name of the `DataStore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_store_name: Option<String>,
    /// The tenant's own part of the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<StorageSetup>,
    /// Secret with the client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<SecretStatus>,
    /// What the tenant holds there, and in the stores of dataStoreOverrides. It moves in steps; metrics have the exact
    /// figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<StorageUsage>,
}

/// The tenant's own part of the store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageSetup {
    /// Prefix, database or bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// User.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Checksum of what was set up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
}

/// Secrets with certificates and keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificatesStatus {
    /// The tenant's certificate authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<SecretStatus>,
    /// Serving certificate of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<SecretStatus>,
    /// The API server's client certificate for kubelets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server_kubelet_client: Option<SecretStatus>,
    /// Authority of the front proxy.
    #[serde(
        default,
        rename = "frontProxyCA",
        skip_serializing_if = "Option::is_none"
    )]
    pub front_proxy_ca: Option<SecretStatus>,
    /// Client certificate of the front proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front_proxy_client: Option<SecretStatus>,
    /// Key pair that signs service-account tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sa: Option<SecretStatus>,
}

/// Secrets with kubeconfigs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeconfigsStatus {
    /// For administrators of the tenant cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin: Option<SecretStatus>,
    /// For the controller manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_manager: Option<SecretStatus>,
    /// For the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<SecretStatus>,
}

/// The objects that run and expose the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesResources {
    /// Version and state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionStatus>,
    /// The Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<DeploymentStatus>,
    /// The Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceStatus>,
}

/// Version and state of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionStatus {
    /// Version that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub version: Option<String>,
    /// State in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<State>,
}

/// State of a control plane in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum State {
    /// Being made for the first time.
    Provisioning,
    /// A certificate authority is being replaced.
    CertificateAuthorityRotating,
    /// Another version is being rolled out.
    Upgrading,
    /// Data moves to another store.
    Migrating,
    /// Serves.
    Ready,
    /// Does not serve.
    NotReady,
    /// Asleep: no replicas, data kept.
    Sleeping,
    /// Serves, with some writes refused.
    WriteLimited,
    /// Cannot be told.
    Unknown,
}

/// The Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentStatus {
    /// Name of the Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Label selector of its pods, as text, for the scale sub-resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Generation of the Deployment that its controller has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Pods that run the current template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// Pods that are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// Pods that have been ready for long enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,
    /// Pods that are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,
}

/// The Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Name of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Port of the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// What the load balancer gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerStatus>,
}

/// What a load balancer gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerStatus {
    /// Addresses and names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub ingress: Vec<LoadBalancerAddress>,
}

/// An address or a name of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerAddress {
    /// IP address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
}
