//! How the API server of a `StewardControlPlane` is reached.

use std::collections::BTreeMap;

use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::steward::{
    rules,
    tenant_control_plane::exposure::{IngressController, ParentRef, ServiceType},
};

/// How the API server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!has(self.ingress) || !has(self.gateway)")
        .message("ingress and gateway exclude each other: set one of them")
        .field_path(".gateway"),
    validation = rules::load_balancer_only("loadBalancerConfig", "self", "self.serviceType")
        .field_path(".loadBalancerConfig"),
    validation = Rule::new("self.serviceType != 'LoadBalancer' || oldSelf.serviceType != 'LoadBalancer' || (has(self.loadBalancerConfig) && has(self.loadBalancerConfig.loadBalancerClass) ? self.loadBalancerConfig.loadBalancerClass : '') == (has(oldSelf.loadBalancerConfig) && has(oldSelf.loadBalancerConfig.loadBalancerClass) ? oldSelf.loadBalancerConfig.loadBalancerClass : '')")
        .message("loadBalancerClass cannot be added, changed or removed while the Service is a LoadBalancer")
        .field_path(".loadBalancerConfig")
)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Type of the Service: `LoadBalancer` (the default), `NodePort` or `ClusterIP`.
    #[serde(default)]
    pub service_type: ServiceType,
    /// Fixed IP address of the API server. Left out, it is read from the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::steward::tenant_control_plane::network::address")]
    pub service_address: Option<String>,
    /// Labels of the Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::labels")]
    pub service_labels: BTreeMap<String, String>,
    /// Annotations of the Service, for example for a cloud's load balancer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::annotations")]
    pub service_annotations: BTreeMap<String, String>,
    /// Settings of the load balancer, with serviceType `LoadBalancer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_config: Option<LoadBalancerConfig>,
    /// Reach the API server through an Ingress controller, by host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Ingress>,
    /// Reach the API server through the Gateway API, by host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Gateway>,
    /// More names and addresses that the API server's certificate is valid for.
    #[serde(default, rename = "certSANs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::subject_names")]
    pub cert_sans: Vec<String>,
    /// Addresses of the cluster's DNS Service, inside its Service range. Default: the tenth address.
    #[serde(
        default,
        rename = "dnsServiceIPs",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(schema_with = "crate::steward::fragments::ips")]
    pub dns_service_ips: Vec<String>,
}

/// Settings of the load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerConfig {
    /// Client ranges that the load balancer lets in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::cidrs")]
    pub load_balancer_source_ranges: Vec<String>,
    /// Load-balancer implementation to use. Fixed while the Service is a `LoadBalancer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub load_balancer_class: Option<String>,
}

/// Reach the API server through an Ingress controller that passes TLS through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ingress {
    /// `IngressClass` to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub class_name: Option<String>,
    /// Host name of the API server, with the port where it is not 443.
    #[schemars(schema_with = "crate::steward::fragments::host_name_and_port")]
    pub hostname: String,
    /// The controller's dialect: `haproxy`, `nginx`, `traefik` or `generic` (the default).
    #[serde(default)]
    pub controller_type: IngressController,
    /// Labels of the Ingress.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::labels")]
    pub extra_labels: BTreeMap<String, String>,
    /// Annotations of the Ingress.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::annotations")]
    pub extra_annotations: BTreeMap<String, String>,
}

/// Reach the API server through the Gateway API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    /// The Gateways that the routes attach to.
    #[schemars(length(min = 1, max = 16))]
    pub parent_refs: Vec<ParentRef>,
    /// Host name of the API server.
    #[schemars(schema_with = "crate::steward::fragments::host_name")]
    pub hostname: String,
    /// Labels of the routes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::labels")]
    pub extra_labels: BTreeMap<String, String>,
    /// Annotations of the routes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::steward::fragments::annotations")]
    pub extra_annotations: BTreeMap<String, String>,
}
