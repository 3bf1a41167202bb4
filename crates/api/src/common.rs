//! Small field types that several kinds share: references, ranges, resource requests.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of an object in the same namespace, or of a cluster-scoped object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalRef {
    /// Name of the object.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
}

/// The name of an object, with a namespace where it differs from the default one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectRef {
    /// Name of the object.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
    /// Namespace of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: Option<String>,
}

/// The name of an object that may live in any namespace; both parts are required.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamespacedRef {
    /// Name of the object.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
    /// Namespace of the object.
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: String,
}

/// A Secret, and the key in it that is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
    /// Namespace of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: Option<String>,
    /// Key inside the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}

/// CPU and memory of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceAmounts {
    /// CPU in cores, such as `2` or `500m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub cpu: Option<IntOrString>,
    /// Memory, such as `512Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::quantity")]
    pub memory: Option<IntOrString>,
}

/// What the containers of a hosted control plane ask for, and the most they may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneResources {
    /// Of kube-apiserver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server: Option<ResourceRequests>,
    /// Of kube-controller-manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_manager: Option<ResourceRequests>,
    /// Of kube-scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<ResourceRequests>,
    /// Of konnectivity-server, which carries traffic from the API server to the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub konnectivity: Option<ResourceRequests>,
}

/// What a container asks for, and the most it may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRequests {
    /// What the scheduler sets aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceAmounts>,
    /// The most it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceAmounts>,
}

/// The first and the last address of a range, both included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new(crate::cel::in_order("self.start", "self.end"))
        .message("start must not come after end, and both must be IPv4 or both IPv6")
        .field_path(".start")
)]
pub struct AddressRange {
    /// First address of the range, such as `10.40.1.100`.
    #[schemars(schema_with = "crate::schema::ip")]
    pub start: String,
    /// Last address of the range, such as `10.40.1.150`.
    #[schemars(schema_with = "crate::schema::ip")]
    pub end: String,
}

/// Where machines come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InfrastructureProvider {
    /// Harvester.
    Harvester,
    /// Nutanix AHV.
    Nutanix,
    /// Proxmox VE.
    Proxmox,
    /// Microsoft Azure.
    Azure,
    /// Amazon Web Services.
    Aws,
    /// Google Cloud.
    Gcp,
    /// VMware vSphere.
    Vsphere,
    /// This machine.
    #[default]
    Local,
}

/// How the API servers of tenant clusters are reached from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.mode != 'Ingress' || (has(self.hostname) && self.hostname != '')")
        .message("mode Ingress needs a hostname such as *.k8s.example.com")
        .field_path(".hostname"),
    validation = Rule::new("self.mode != 'Gateway' || (has(self.hostname) && self.hostname != '')")
        .message("mode Gateway needs a hostname such as *.k8s.example.com")
        .field_path(".hostname"),
    validation = Rule::new("self.mode != 'Gateway' || (has(self.gatewayRef) && self.gatewayRef != '')")
        .message("mode Gateway needs a gatewayRef, written as namespace/name")
        .field_path(".gatewayRef")
)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneExposure {
    /// LoadBalancer gives every tenant an address of its own; Ingress and Gateway share one address and
    /// tell tenants apart by host name.
    #[serde(default)]
    pub mode: ExposureMode,
    /// Host name pattern of the API servers, such as `*.k8s.example.com`. Needed for Ingress and Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::host_pattern")]
    pub hostname: Option<String>,
    /// The Gateway to attach routes to, as `namespace/name`. Needed for Gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::namespaced_name")]
    pub gateway_ref: Option<String>,
    /// Ingress class to use. Defaults to the default class of the management cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub ingress_class_name: Option<String>,
    /// Which ingress controller it is, because TLS passthrough is asked for differently by each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_type: Option<IngressController>,
}

/// The ways to expose an API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExposureMode {
    /// A `LoadBalancer` Service per tenant.
    #[default]
    LoadBalancer,
    /// One ingress controller, TLS passthrough by host name.
    Ingress,
    /// One Gateway, a `TLSRoute` per tenant.
    Gateway,
}

/// Ingress controllers that pass TLS through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IngressController {
    /// `HAProxy`.
    Haproxy,
    /// ingress-nginx.
    Nginx,
    /// Traefik.
    Traefik,
    /// Any other: plain Ingress without annotations.
    Generic,
}

/// What Helm last reported about a release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HelmRelease {
    /// Name of the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// How often the release was installed, upgraded or rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Helm's word for its state, such as `deployed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Version of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
