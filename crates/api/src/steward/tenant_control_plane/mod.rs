//! `TenantControlPlane`: one hosted Kubernetes control plane, run as pods.

use kube_derive::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::rules;

pub mod addons;
pub mod addons_status;
pub mod deployment;
pub mod exposure;
pub mod kubernetes;
pub mod network;
pub mod security;
pub mod status;

pub use addons::Addons;
pub use deployment::Deployment;
pub use exposure::{Gateway, Ingress, Service};
pub use kubernetes::Kubernetes;
pub use network::NetworkProfile;
pub use status::TenantControlPlaneStatus;

/// What the control plane should be: its version, where its state lives, how it is reached and run.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "steward.butlerlabs.dev",
    version = "v1alpha1",
    kind = "TenantControlPlane",
    plural = "tenantcontrolplanes",
    shortname = "tcp",
    category = "butler",
    category = "steward",
    label("cluster.x-k8s.io/provider", "control-plane-steward"),
    label("clusterctl.cluster.x-k8s.io", ""),
    namespaced,
    status = "TenantControlPlaneStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A hosted Kubernetes control plane: API server, controller manager and scheduler run as pods of this cluster, and worker nodes anywhere join it.",
    crates(kube_core = "::kube_core", kube = "::kube_derive"),
    attr = "x_kube(crates(kube_core = \"::kube_core\"))",
    scale(
        spec_replicas_path = ".spec.controlPlane.deployment.replicas",
        status_replicas_path = ".status.kubernetesResources.deployment.replicas",
        label_selector_path = ".status.kubernetesResources.deployment.selector"
    ),
    validation = rules::service_name(),
    validation = rules::one_minor_at_a_time("spec.kubernetes.version", "status.kubernetesResources.version.version"),
    validation = rules::no_downgrade("spec.kubernetes.version", "status.kubernetesResources.version.version"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.kubernetes.version"),
    printcolumn(
        name = "Installed Version",
        type_ = "string",
        json_path = ".status.kubernetesResources.version.version"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.kubernetesResources.version.status"
    ),
    printcolumn(
        name = "Control-Plane Endpoint",
        type_ = "string",
        json_path = ".status.controlPlaneEndpoint"
    ),
    printcolumn(
        name = "Kubeconfig",
        type_ = "string",
        json_path = ".status.kubeconfig.admin.secretName"
    ),
    printcolumn(
        name = "Datastore",
        type_ = "string",
        json_path = ".status.storage.dataStoreName"
    ),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        json_path = ".spec.controlPlane.deployment.replicas",
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
    validation = Rule::new("has(self.dataStore) || !has(oldSelf.dataStore)")
        .message("dataStore cannot be removed once it is set: the data stays where it is")
        .field_path(".dataStore"),
    validation = crate::cel::immutable_optional("dataStoreSchema"),
    validation = crate::cel::immutable_optional("dataStoreUsername"),
    validation = crate::cel::immutable_optional("dataStoreOverrides"),
    validation = Rule::new("(has(self.kubernetes.certificates) && has(self.kubernetes.certificates.authoritySecretRef) ? self.kubernetes.certificates.authoritySecretRef.name : '') == (has(oldSelf.kubernetes.certificates) && has(oldSelf.kubernetes.certificates.authoritySecretRef) ? oldSelf.kubernetes.certificates.authoritySecretRef.name : '')")
        .message("authoritySecretRef cannot be added, changed or removed after creation: nodes trust the authority that they joined with")
        .field_path(".kubernetes.certificates.authoritySecretRef"),
    validation = rules::load_balancer_only("loadBalancerSourceRanges", "self.networkProfile", "self.controlPlane.service.serviceType")
        .field_path(".networkProfile.loadBalancerSourceRanges"),
    validation = rules::load_balancer_only("loadBalancerClass", "self.networkProfile", "self.controlPlane.service.serviceType")
        .field_path(".networkProfile.loadBalancerClass"),
    validation = Rule::new("self.controlPlane.service.serviceType != 'LoadBalancer' || oldSelf.controlPlane.service.serviceType != 'LoadBalancer' || (has(self.networkProfile.loadBalancerClass) == has(oldSelf.networkProfile.loadBalancerClass) && (!has(self.networkProfile.loadBalancerClass) || self.networkProfile.loadBalancerClass == oldSelf.networkProfile.loadBalancerClass))")
        .message("loadBalancerClass cannot be added, changed or removed while the Service is a LoadBalancer")
        .field_path(".networkProfile.loadBalancerClass"),
    validation = Rule::new("!has(self.controlPlane.service.additionalPorts) || self.controlPlane.service.additionalPorts.all(p, p.port != self.networkProfile.port)")
        .message("an additional port must differ from networkProfile.port, which is the API server's")
        .field_path(".controlPlane.service.additionalPorts"),
    validation = Rule::new("!has(self.addons) || !has(self.addons.konnectivity) || self.addons.konnectivity.server.port != self.networkProfile.port")
        .message("the konnectivity port must differ from networkProfile.port, which is the API server's")
        .field_path(".addons.konnectivity.server.port"),
    validation = Rule::new("!has(self.addons) || !has(self.addons.konnectivity) || !has(self.controlPlane.service.additionalPorts) || self.controlPlane.service.additionalPorts.all(p, p.port != self.addons.konnectivity.server.port)")
        .message("an additional port must differ from the konnectivity port")
        .field_path(".controlPlane.service.additionalPorts")
)]
#[serde(rename_all = "camelCase")]
pub struct TenantControlPlaneSpec {
    /// Stops kinds of writes to the tenant's API, for example while its data is copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_permissions: Option<WritePermissions>,
    /// The DataStore that holds the tenant's state, such as `default`. Left out, the platform's default
    /// store is used. Data does not move: once there is some, another name changes nothing, and the
    /// condition `StoreAsWanted` says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub data_store: Option<String>,
    /// Name of the tenant's own part of the store (etcd prefix, database, bucket). Fixed at creation;
    /// left out, a name is made that no other tenant can have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "data_store_identity")]
    pub data_store_schema: Option<String>,
    /// User of the tenant in the store. Fixed at creation; left out, it is made like dataStoreSchema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "data_store_identity")]
    pub data_store_username: Option<String>,
    /// Resources whose objects go to another etcd DataStore, for example `/events`. Both stores must have
    /// the same certificate authority: an API server signs in to all of its stores with one certificate.
    /// Fixed at creation, because objects do not move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "data_store_overrides")]
    pub data_store_overrides: Vec<DataStoreOverride>,
    /// The pods of the control plane and how they are reached.
    pub control_plane: ControlPlane,
    /// The Kubernetes release and its settings.
    pub kubernetes: Kubernetes,
    /// Addresses, ports and ranges. The defaults suit most clusters.
    #[serde(default)]
    pub network_profile: NetworkProfile,
    /// What runs inside the tenant cluster from the start. An addon that is left out is not installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addons: Option<Addons>,
}

/// The pods of the control plane and how they are reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!has(self.ingress) || !has(self.gateway)")
        .message("ingress and gateway exclude each other: set one of them")
        .field_path(".gateway")
)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlane {
    /// The Deployment that runs the control plane.
    #[serde(default)]
    pub deployment: Deployment,
    /// The Service in front of it.
    pub service: Service,
    /// Reach the API server through an Ingress controller, by host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Ingress>,
    /// Reach the API server through the Gateway API, by host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Gateway>,
}

/// Kinds of writes to the tenant's API that are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(
    clippy::struct_excessive_bools,
    reason = "three independent switches of the API"
)]
pub struct WritePermissions {
    /// Refuse the creation of objects.
    #[serde(default)]
    pub block_creation: bool,
    /// Refuse changes of objects.
    #[serde(default)]
    pub block_update: bool,
    /// Refuse the deletion of objects.
    #[serde(default)]
    pub block_deletion: bool,
}

/// One resource that is stored elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DataStoreOverride {
    /// Built-in resource as `group/resource`; the core group is empty, as in `/events`.
    #[schemars(length(max = 253), regex(pattern = r"^[a-z0-9.-]*/[a-z]+$"))]
    pub resource: String,
    /// The etcd DataStore for it.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub data_store: String,
}

/// Text that is safe as etcd prefix, SQL identifier and bucket alike: it ends up in statements.
pub fn data_store_identity(_: &mut SchemaGenerator) -> Schema {
    crate::schema::text(
        127,
        "self.matches('^[A-Za-z0-9_][-A-Za-z0-9_]*$')",
        "must hold letters, digits, underscores and dashes only, and not start with a dash",
    )
}

fn data_store_overrides(generator: &mut SchemaGenerator) -> Schema {
    let list = generator.subschema_for::<Vec<DataStoreOverride>>();
    crate::schema::merge_by_key(list, "resource", 32)
}
