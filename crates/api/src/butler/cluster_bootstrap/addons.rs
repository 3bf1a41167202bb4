//! What a bootstrap installs on the new management cluster.
//!
//! Versions have no default in the schema: each release of Butler brings the ones it was tested with.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::{cel, common::SecretRef};

/// What is installed. A part that is left out is installed with its defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapAddons {
    /// The network between pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<CniAddon>,
    /// What moves the `vip` between control plane machines.
    #[serde(
        default,
        rename = "controlPlaneHA",
        skip_serializing_if = "Option::is_none"
    )]
    pub control_plane_ha: Option<ControlPlaneHaAddon>,
    /// Certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<CertManagerAddon>,
    /// Volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageAddon>,
    /// Services of type `LoadBalancer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerAddon>,
    /// HTTP from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<IngressAddon>,
    /// What hosts the control planes of tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_provider: Option<ControlPlaneProviderAddon>,
    /// Cluster API, which makes the machines of tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capi: Option<CapiAddon>,
    /// GitOps for the management cluster itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_ops: Option<GitOpsAddon>,
    /// Butler's controllers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub butler_controller: Option<ButlerControllerAddon>,
    /// Butler's web console.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console: Option<ConsoleAddon>,
}

fn yes() -> bool {
    true
}

/// The network between pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CniAddon {
    /// Which one. Defaults to `cilium`; with `none` you install your own.
    #[serde(default, rename = "type")]
    pub type_: CniType,
    /// Version of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// Whether Hubble shows what flows. Defaults to true.
    #[serde(default = "yes")]
    pub hubble_enabled: bool,
}

/// Networks between pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CniType {
    /// Cilium.
    #[default]
    Cilium,
    /// Your own.
    None,
}

/// What moves the `vip` between control plane machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneHaAddon {
    /// Which one. Defaults to `kube-vip`.
    #[serde(default, rename = "type")]
    pub type_: ControlPlaneHaType,
    /// Version of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
}

/// Ways to move an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControlPlaneHaType {
    /// kube-vip.
    #[default]
    KubeVip,
    /// Nothing: the endpoint is outside the cluster.
    None,
}

/// Certificates, by cert-manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertManagerAddon {
    /// Whether it is installed. Defaults to true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Version of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
}

/// Volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageAddon {
    /// Which one. Defaults to `longhorn`.
    #[serde(default, rename = "type")]
    pub type_: StorageType,
    /// Version of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// Copies of every volume. Defaults to 3, and to 1 on a single node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub replica_count: Option<i32>,
}

/// Providers of volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StorageType {
    /// Longhorn.
    #[default]
    Longhorn,
    /// Your own.
    None,
}

/// Services of type `LoadBalancer`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerAddon {
    /// Which one. Defaults to `metallb`.
    #[serde(default, rename = "type")]
    pub type_: LoadBalancerType,
    /// Its addresses, such as `10.40.0.200-10.40.0.220`. The older way to write `network.loadBalancerPool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "address_pool")]
    pub address_pool: Option<String>,
}

fn address_pool(_: &mut SchemaGenerator) -> Schema {
    let (start, end) = ("self.split('-')[0]", "self.split('-')[1]");
    crate::schema::text(
        79,
        &format!(
            "isCIDR(self) || (self.split('-').size() == 2 && isIP({start}) && isIP({end}) && ({}))",
            cel::in_order(start, end)
        ),
        "must be two addresses in order such as 10.40.1.0-10.40.1.50, or a network such as 10.40.1.0/26",
    )
}

/// Providers of load balancers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoadBalancerType {
    /// MetalLB.
    #[default]
    Metallb,
    /// Your own, or the cloud's.
    None,
}

/// HTTP from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IngressAddon {
    /// Whether it is installed. Defaults to true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Which one. Defaults to `traefik`.
    #[serde(default, rename = "type")]
    pub type_: IngressType,
    /// Version of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
}

/// Ingress controllers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IngressType {
    /// Traefik.
    #[default]
    Traefik,
    /// ingress-nginx.
    Nginx,
    /// Your own.
    None,
}

/// What hosts the control planes of tenants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneProviderAddon {
    /// Whether it is installed. Defaults to true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Which one. Defaults to `steward`.
    #[serde(default, rename = "type")]
    pub type_: ControlPlaneProviderType,
    /// Version of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
}

/// Hosts of control planes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ControlPlaneProviderType {
    /// Butler's own.
    #[default]
    Steward,
    /// Kamaji.
    Kamaji,
    /// None: no tenants on this cluster.
    None,
}

/// Cluster API, which makes the machines of tenants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapiAddon {
    /// Whether it is installed. Defaults to true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Version of the core, such as `v1.13.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// Where tenants get machines from. Defaults to the provider of this cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub infrastructure_providers: Vec<CapiInfrastructureProvider>,
}

/// A provider of Cluster API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapiInfrastructureProvider {
    /// Which one.
    pub name: MachineProvider,
    /// Version of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// The Secret with its credentials. Defaults to those of the ProviderConfig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretRef>,
}

/// Where tenants can get machines from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MachineProvider {
    /// Harvester.
    #[default]
    Harvester,
    /// Nutanix AHV.
    Nutanix,
    /// Proxmox VE.
    Proxmox,
    /// Google Cloud.
    Gcp,
    /// Amazon Web Services.
    Aws,
    /// Microsoft Azure.
    Azure,
}

/// GitOps for the management cluster itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitOpsAddon {
    /// Whether it is installed. Defaults to true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Which one. Defaults to `flux`.
    #[serde(default, rename = "type")]
    pub type_: GitOpsType,
}

/// GitOps tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GitOpsType {
    /// Flux.
    #[default]
    Flux,
    /// None.
    None,
}

/// Butler's controllers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ButlerControllerAddon {
    /// Whether they are installed. Defaults to true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Image to run. Defaults to `ghcr.io/butlerdotdev/butler-controller`.
    #[serde(default = "controller_image")]
    #[schemars(length(min = 1, max = 512))]
    pub image: String,
    /// Version of the image. Defaults to that of the Butler that runs the bootstrap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
}

fn controller_image() -> String {
    "ghcr.io/butlerdotdev/butler-controller".into()
}

/// Butler's web console.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleAddon {
    /// Whether it is installed. Defaults to false.
    #[serde(default)]
    pub enabled: bool,
    /// Version of it. Defaults to that of the Butler that runs the bootstrap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// How it is reached from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<ConsoleIngress>,
}

/// How the console is reached from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleIngress {
    /// Whether there is an Ingress. Defaults to false.
    #[serde(default)]
    pub enabled: bool,
    /// Host name. Defaults to `butler.<cluster>.local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::host")]
    pub host: Option<String>,
    /// Ingress class. Defaults to the default class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub class_name: Option<String>,
    /// Whether it is served over TLS. Defaults to false.
    #[serde(default)]
    pub tls: bool,
    /// The Secret with the certificate. Defaults to one that cert-manager makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::object_name")]
    pub tls_secret_name: Option<String>,
}
