//! How a hosted control plane is reached: Service, Ingress, Gateway.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::steward::fragments::ExtraMetadata;

/// The Service in front of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// `LoadBalancer`, `NodePort` or `ClusterIP`.
    pub service_type: ServiceType,
    /// Labels and annotations of the Service, for example for a cloud's load balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<ExtraMetadata>,
    /// More ports, for additional containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "additional_ports")]
    pub additional_ports: Vec<AdditionalPort>,
}

/// Type of the Service in front of a control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// An address of its own from a load balancer.
    #[default]
    LoadBalancer,
    /// A port of every node.
    NodePort,
    /// Reachable from this cluster only, or through an Ingress or Gateway.
    ClusterIP,
}

/// One more port of the Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!(self.name in ['kube-apiserver', 'konnectivity-server', 'steward-trustd'])")
        .message("this port name is used by the control plane itself")
        .field_path(".name")
)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalPort {
    /// Name of the port.
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub name: String,
    /// `TCP` (the default), `UDP` or `SCTP`.
    #[serde(default)]
    pub protocol: Protocol,
    /// What is spoken on the port, such as `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub app_protocol: Option<String>,
    /// Port of the Service.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Port of the container, by number or name.
    #[schemars(schema_with = "target_port")]
    pub target_port: IntOrString,
}

/// Transport of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Reach the API server through an Ingress controller that passes TLS through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ingress {
    /// Labels and annotations of the Ingress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<ExtraMetadata>,
    /// `IngressClass` to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub ingress_class_name: Option<String>,
    /// Host name of the API server, with the port where it is not 443.
    #[schemars(schema_with = "crate::steward::fragments::host_name_and_port")]
    pub hostname: String,
    /// The controller's dialect: `haproxy`, `nginx`, `traefik` or `generic` (the default), which adds
    /// no annotations of its own.
    #[serde(default)]
    pub controller_type: IngressController,
}

/// How an Ingress controller is told to pass TLS through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IngressController {
    /// Annotations of the user.
    #[default]
    Generic,
    /// `HAProxy`.
    Haproxy,
    /// ingress-nginx.
    Nginx,
    /// Traefik.
    Traefik,
}

/// Reach the API server through the Gateway API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    /// Labels and annotations of the routes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additional_metadata: Option<ExtraMetadata>,
    /// The Gateways that the routes attach to.
    #[schemars(length(min = 1, max = 16))]
    pub parent_refs: Vec<ParentRef>,
    /// Host name of the API server.
    #[schemars(schema_with = "crate::steward::fragments::host_name")]
    pub hostname: String,
}

/// A Gateway that routes attach to. The port and the listener are chosen by Steward.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!has(self.port) && !has(self.sectionName)")
        .message("a parent must not name a port or sectionName: the listeners kube-apiserver and konnectivity-server are used")
)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// API group. Default `gateway.networking.k8s.io`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub group: Option<String>,
    /// Kind. Default `Gateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: Option<String>,
    /// Namespace. Default: that of the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::dns_label")]
    pub namespace: Option<String>,
    /// Name of the Gateway.
    #[schemars(schema_with = "crate::schema::object_name")]
    pub name: String,
    /// Must be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Must be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub section_name: Option<String>,
}

fn additional_ports(generator: &mut SchemaGenerator) -> Schema {
    let list = generator.subschema_for::<Vec<AdditionalPort>>();
    crate::schema::merge_by_key(list, "name", 16)
}

fn target_port(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "maxLength": 15,
        "x-kubernetes-validations": [{
            "rule": "type(self) == int ? self >= 1 && self <= 65535 : self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "message": "must be a port from 1 to 65535 or the name of a container port",
        }],
    })
}
