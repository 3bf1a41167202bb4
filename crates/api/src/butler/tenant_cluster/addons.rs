//! The addons that come with a tenant cluster.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{cel, common::LocalRef, schema};

/// The addons that come with a tenant cluster. What was installed once stays when it is no longer named: it goes with
/// `enabled: false`, or another provider, and the annotation `butler.butlerlabs.dev/remove-addons` on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Addons {
    /// Pod network. Every cluster has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cni: Option<Cni>,
    /// Addresses for Services of type LoadBalancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancer>,
    /// TLS certificates. Only installed when it is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<CertManager>,
    /// Persistent volumes. Only installed when it is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Ingress controller. Only installed when it is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Ingress>,
    /// Metrics and alerts. Only installed when it is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<Monitoring>,
    /// A GitOps tool, and the repository it follows. Only installed when it is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitops: Option<Gitops>,
}

/// Pod network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cni {
    /// Which one: cilium, or local for machines that bring their own. Default: local where the provider of machines is
    /// local, cilium everywhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<CniProvider>,
    /// Chart version, such as `1.17.0`. Default: the platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub version: Option<String>,
    /// Helm values, merged over Butler's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub values: Option<Value>,
}

/// Pod networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CniProvider {
    /// Cilium.
    Cilium,
    /// The machines' own: nothing is installed.
    Local,
}

/// Addresses for Services of type `LoadBalancer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancer {
    /// Whether it is installed. Default: true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Which one: metallb, or local for one that the provider of machines brings. Default: local where the provider is
    /// local or a public cloud, metallb everywhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<LoadBalancerProvider>,
    /// Your own addresses for load balancers: a range such as `10.40.1.0-10.40.1.50` or a network such as
    /// `10.40.1.0/26`. The same as networking.loadBalancerPool, which is preferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "address_pool")]
    pub address_pool: Option<String>,
    /// Chart version, such as `0.14.9`. Default: the platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub version: Option<String>,
    /// Helm values, merged over Butler's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub values: Option<Value>,
}

impl Default for LoadBalancer {
    fn default() -> Self {
        Self {
            enabled: yes(),
            provider: None,
            address_pool: None,
            version: None,
            values: None,
        }
    }
}

/// Load balancers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoadBalancerProvider {
    /// `MetalLB`.
    Metallb,
    /// The provider's own: nothing is installed.
    Local,
}

/// Two addresses in order with a dash between them, or a network.
fn address_pool(_: &mut SchemaGenerator) -> Schema {
    let (start, end) = ("self.split('-')[0]", "self.split('-')[1]");
    schema::text(
        79,
        &format!(
            "self.contains('-') ? self.split('-').size() == 2 && isIP({start}) && isIP({end}) && ({}) \
             : isCIDR(self) && cidr(self) == cidr(self).masked()",
            cel::in_order(start, end)
        ),
        "must be two addresses in order such as 10.40.1.0-10.40.1.50, or a network such as 10.40.1.0/26",
    )
}

/// TLS certificates by cert-manager.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertManager {
    /// Whether it is installed. Default: true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Chart version, such as `v1.16.2`. Default: the platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub version: Option<String>,
    /// Helm values, merged over Butler's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub values: Option<Value>,
}

impl Default for CertManager {
    fn default() -> Self {
        Self {
            enabled: yes(),
            version: None,
            values: None,
        }
    }
}

fn yes() -> bool {
    true
}

/// Persistent volumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Whether it is installed. Default: true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Which one: longhorn, linstor or local-path. Default: local-path where the provider of machines is local, longhorn
    /// everywhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<StorageProvider>,
    /// Chart version, such as `1.7.2`. Default: the platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub version: Option<String>,
    /// Helm values, merged over Butler's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub values: Option<Value>,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            enabled: yes(),
            provider: None,
            version: None,
            values: None,
        }
    }
}

/// Storage systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StorageProvider {
    /// Longhorn.
    Longhorn,
    /// LINSTOR.
    Linstor,
    /// Folders of the machines, by the local-path provisioner.
    LocalPath,
}

/// Ingress controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ingress {
    /// Whether it is installed. Default: true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Which one: traefik or nginx. Default: traefik.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<IngressProvider>,
    /// Chart version, such as `34.3.0`. Default: the platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub version: Option<String>,
    /// Helm values, merged over Butler's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub values: Option<Value>,
}

impl Default for Ingress {
    fn default() -> Self {
        Self {
            enabled: yes(),
            provider: None,
            version: None,
            values: None,
        }
    }
}

/// Ingress controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IngressProvider {
    /// Traefik.
    Traefik,
    /// ingress-nginx.
    Nginx,
}

/// Metrics and alerts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Monitoring {
    /// Whether it is installed. Default: true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Which one: prometheus, or metrics-server for `kubectl top` alone. Default: prometheus.
    #[serde(default)]
    pub provider: MonitoringProvider,
    /// Chart version, such as `65.8.1`. Default: the platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub version: Option<String>,
    /// Helm values, merged over Butler's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub values: Option<Value>,
}

impl Default for Monitoring {
    fn default() -> Self {
        Self {
            enabled: yes(),
            provider: MonitoringProvider::default(),
            version: None,
            values: None,
        }
    }
}

/// Monitoring systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MonitoringProvider {
    /// The Prometheus operator and its stack.
    #[default]
    Prometheus,
    /// metrics-server.
    MetricsServer,
}

/// A GitOps tool, and the repository it follows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gitops {
    /// Whether it is installed. Default: true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Which one: fluxcd or argocd. Default: fluxcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<GitopsProvider>,
    /// Chart version. Default: the platform's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::chart_version")]
    pub version: Option<String>,
    /// Helm values, merged over Butler's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub values: Option<Value>,
    /// What it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<GitopsRepository>,
}

impl Default for Gitops {
    fn default() -> Self {
        Self {
            enabled: yes(),
            provider: None,
            version: None,
            values: None,
            repository: None,
        }
    }
}

/// GitOps tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GitopsProvider {
    /// Flux.
    Fluxcd,
    /// Argo CD.
    Argocd,
}

/// What a GitOps tool follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitopsRepository {
    /// Address of the Git repository.
    #[schemars(schema_with = "crate::schema::git_url")]
    pub url: String,
    /// Branch to follow. Default: main.
    #[serde(default = "main")]
    #[schemars(length(min = 1, max = 255))]
    pub branch: String,
    /// Folder in the repository, such as `clusters/production`. Default: its root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub path: Option<String>,
    /// Secret with the credentials, in the namespace of the TenantCluster: `username` and `password`, or `identity` and
    /// `known_hosts` for an address by SSH. It must carry the label `butler.butlerlabs.dev/for-addons: "true"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalRef>,
}

fn main() -> String {
    "main".into()
}
