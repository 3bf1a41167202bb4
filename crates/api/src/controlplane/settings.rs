//! Settings that `StewardControlPlane` and its template share.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::network::Network;
use crate::steward::{
    fragments::{ExtraMetadata, Resources},
    tenant_control_plane::{
        addons::{ImageOverride, Konnectivity, TcpProxy, WorkerBootstrap},
        deployment::{Strategy, default_registry},
        kubernetes::{CgroupDriver, Kubelet, default_admission_controllers},
        security::{Audit, Authentication, Certificates, Encryption},
    },
};

/// How a control plane is run, whatever its version and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneSettings {
    /// The `DataStore` that holds the cluster's state, such as `default`. Left out, the platform's
    /// default store is used. Data does not move: once there is some, another name changes nothing,
    /// and the condition `StoreAsWanted` says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub data_store_name: Option<String>,
    /// Name of the cluster's own part of the store. Fixed at creation; left out, a unique one is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::tenant_control_plane::data_store_identity")]
    pub data_store_schema: Option<String>,
    /// User of the cluster in the store. Fixed at creation; left out, a unique one is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::tenant_control_plane::data_store_identity")]
    pub data_store_username: Option<String>,
    /// What runs inside the cluster from the start. An addon that is left out is not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addons: Option<Addons>,
    /// Admission plugins of the API server. The default is Kubernetes' own choice with
    /// `NodeRestriction`.
    #[serde(default = "default_admission_controllers")]
    #[schemars(
        schema_with = "crate::steward::tenant_control_plane::kubernetes::admission_controllers"
    )]
    pub admission_controllers: Vec<String>,
    /// Registry of the components' images, such as `mirror.example.com:5000/k8s`.
    /// Default `registry.k8s.io`.
    #[serde(default = "default_registry")]
    #[schemars(schema_with = "crate::steward::fragments::repository")]
    pub registry: String,
    /// The API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<Component>,
    /// The controller manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_manager: Option<Component>,
    /// The scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Component>,
    /// kine, which runs with SQL and NATS stores only: with an etcd store this does nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kine: Option<Kine>,
    /// What nodes that join are told about their kubelet.
    #[serde(default = "default_kubelet")]
    pub kubelet: Kubelet,
    /// How the API server is reached.
    #[serde(default)]
    pub network: Network,
    /// How the pods of the control plane are run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Deployment>,
    /// What the API server records about requests. Left out, nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// Who may sign in with tokens of an identity provider. Left out, nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// How keys and certificates are made. Left out, with an authority of the cluster's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Certificates>,
    /// Which objects are encrypted in the store. Left out, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
}

impl Default for ControlPlaneSettings {
    fn default() -> Self {
        Self {
            data_store_name: None,
            data_store_schema: None,
            data_store_username: None,
            addons: None,
            admission_controllers: default_admission_controllers(),
            registry: default_registry(),
            api_server: None,
            controller_manager: None,
            scheduler: None,
            kine: None,
            kubelet: default_kubelet(),
            network: Network::default(),
            deployment: None,
            audit: None,
            authentication: None,
            certificates: None,
            encryption: None,
        }
    }
}

/// What runs inside the cluster from the start. An empty block turns an addon on with its defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Addons {
    /// `CoreDNS`, the cluster's name service.
    #[serde(default, rename = "coreDNS", skip_serializing_if = "Option::is_none")]
    pub core_dns: Option<CoreDns>,
    /// kube-proxy. Leave it out for network plugins that replace it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<ImageOverride>,
    /// A tunnel from the API server to nodes that it cannot reach itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub konnectivity: Option<Konnectivity>,
    /// A proxy in the cluster that makes `kubernetes.default.svc` work behind an Ingress or Gateway.
    /// Not supported yet: a control plane with it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_proxy: Option<TcpProxy>,
    /// What nodes of an operating system with its own bootstrap need. Kept for later: no trust service
    /// runs yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_bootstrap: Option<WorkerBootstrap>,
}

/// `CoreDNS`, the cluster's name service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoreDns {
    /// Repository of the image without its name, such as `mirror.example.com/k8s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::fragments::repository")]
    pub image_repository: Option<String>,
    /// Tag of the image. Left out, the one that belongs to the Kubernetes release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::fragments::image_tag")]
    pub image_tag: Option<String>,
    /// Addresses of the DNS Service; wins over network.dnsServiceIPs.
    #[serde(
        default,
        rename = "dnsServiceIPs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(schema_with = "crate::steward::fragments::ips")]
    pub dns_service_ips: Vec<String>,
}

/// One component of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Mounts of deployment.extraVolumes in it, as in a Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::volume_mounts")]
    pub extra_volume_mounts: Vec<Value>,
    /// More flags, such as `--profiling=false`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::args")]
    pub extra_args: Vec<String>,
    /// CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Name of its image in the registry. Left out, the component's own, such as `kube-apiserver`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::fragments::repository")]
    pub container_image_name: Option<String>,
}

/// kine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kine {
    /// More flags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::args")]
    pub extra_args: Vec<String>,
    /// CPU and memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

/// How the pods of the control plane are run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    /// Labels that a node must carry to run the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::node_selector")]
    pub node_selector: BTreeMap<String, String>,
    /// `RuntimeClass` of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub runtime_class_name: Option<String>,
    /// `PriorityClass` of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub priority_class_name: Option<String>,
    /// Labels and annotations of the Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<ExtraMetadata>,
    /// Labels and annotations of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_additional_metadata: Option<ExtraMetadata>,
    /// Service account of the pods. Left out, `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub service_account_name: Option<String>,
    /// How new pods replace old ones. By default all new pods are ready before an old one goes.
    #[serde(default)]
    pub strategy: Strategy,
    /// Where the pods are attracted to and kept away from, as in a Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::fragments::affinity")]
    pub affinity: Option<Value>,
    /// Taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::tolerations")]
    pub tolerations: Vec<Value>,
    /// How the pods are spread, as in a Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::topology_spread")]
    pub topology_spread_constraints: Vec<Value>,
    /// Containers that run before the control plane starts, as in a Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::containers")]
    pub extra_init_containers: Vec<Value>,
    /// Containers that run beside the control plane, as in a Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::containers")]
    pub extra_containers: Vec<Value>,
    /// Volumes for the containers, as in a Pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::volumes")]
    pub extra_volumes: Vec<Value>,
    /// Run the control plane in another cluster. Fixed at creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_cluster_reference: Option<ExternalCluster>,
}

/// Another cluster that runs the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalCluster {
    /// Secret with the kubeconfig of that cluster.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub kubeconfig_secret_name: String,
    /// Key in that Secret.
    #[schemars(length(min = 1, max = 253))]
    pub kubeconfig_secret_key: String,
    /// Namespace of that Secret. Left out, that of the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub kubeconfig_secret_namespace: Option<String>,
    /// Namespace of that cluster to run in.
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub deployment_namespace: String,
}

/// Nodes made by Cluster API run systemd unless something else is said.
fn default_kubelet() -> Kubelet {
    Kubelet {
        cgroupfs: Some(CgroupDriver::Systemd),
        ..Kubelet::default()
    }
}
