//! The hosted control plane of a tenant cluster.

use kube_derive::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{
    cel,
    common::{ControlPlaneResources, LocalRef},
    schema,
};

/// The hosted control plane of a tenant cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = cel::immutable_optional("dataStoreRef")
)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlane {
    /// How many copies of the API server run, from 1 to 3. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 3))]
    pub replicas: i32,
    /// How the API server is reached: by a LoadBalancer, NodePort or ClusterIP Service, or by host name
    /// through the shared Ingress or Gateway. Default: as ButlerConfig says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_type: Option<ServiceType>,
    /// More host names and addresses the API server's certificate is valid for.
    #[serde(rename = "certSANs", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "cert_sans")]
    pub cert_sans: Vec<String>,
    /// DataStore that keeps the cluster's state. Default: the platform's. It cannot change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_store_ref: Option<LocalRef>,
    /// Whether nodes wait for a cloud controller manager to initialize them, on vSphere, AWS, Azure and Google
    /// Cloud. Set it only if you install that manager into the cluster, as an addon or by hand: nodes that wait
    /// for one run nothing else until it is there. Default: false.
    #[serde(default)]
    pub external_cloud_provider: bool,
    /// CPU and memory of the components. A component that is named here replaces its default of
    /// ButlerConfig as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ControlPlaneResources>,
}

impl Default for ControlPlane {
    fn default() -> Self {
        Self {
            replicas: one(),
            service_type: None,
            cert_sans: Vec::new(),
            data_store_ref: None,
            external_cloud_provider: false,
            resources: None,
        }
    }
}

fn one() -> i32 {
    1
}

/// The ways to reach a tenant's API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    /// An address of its own.
    LoadBalancer,
    /// A port of the management cluster's nodes.
    NodePort,
    /// Only inside the management cluster.
    ClusterIP,
    /// By host name, through the shared ingress controller.
    Ingress,
    /// By host name, through the shared Gateway.
    Gateway,
}

fn cert_sans(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "maxItems": 64, "items": schema::host(generator) })
}
