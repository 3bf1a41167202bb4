//! The load-balancer Services inside a tenant: how many addresses it uses, and how many it waits for.
//!
//! A tenant is looked at, not watched: nothing is kept for it between two looks. What a look finds decides about growing
//! and shrinking, so it is never an old view.

use std::{future::Future, net::IpAddr};

use butler_runtime::error::{ApiError, Category, Classify};
use butler_steward::{
    Reach,
    names::Part,
    tenant::client::{ClientError, connect},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta},
};

use crate::{provider_config::tenant::Demand, slim::ClusterSummary};

/// Keys of kubeconfig Secrets: Steward's and Cluster API's. Names of Services mean nothing outside of the management cluster.
fn keys(reach: Reach) -> &'static [&'static str] {
    match reach {
        Reach::Service => &["admin.svc", "admin.conf", "value"],
        Reach::Endpoint => &["admin.conf", "value"],
    }
}

/// Annotations with which a Service asks `MetalLB` for addresses of its own choice.
const CHOSEN: [&str; 2] = [
    "metallb.io/loadBalancerIPs",
    "metallb.universe.tf/loadBalancerIPs",
];

/// Why a tenant could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The API server of the platform or of the tenant.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The kubeconfig.
    #[error("could not use Secret {secret}")]
    Kubeconfig {
        /// Namespace and name.
        secret: String,
        /// What is wrong with it.
        #[source]
        source: ClientError,
    },
}

impl Classify for LookError {
    fn category(&self) -> Category {
        match self {
            Self::Api(error) => error.category(),
            // Steward writes it anew.
            Self::Kubeconfig { .. } => Category::Unavailable,
        }
    }
}

/// Looks into tenants.
pub trait TenantServices: Send + Sync + 'static {
    /// The load-balancer Services of a cluster as they are now; nothing while it cannot be looked into yet.
    fn look(
        &self,
        cluster: &ClusterSummary,
    ) -> impl Future<Output = Result<Option<Vec<Demand>>, LookError>> + Send;
}

/// Looks into tenants with the kubeconfig that Steward wrote for the platform.
pub struct ThroughKubeconfig {
    management: Client,
    reach: Reach,
}

impl ThroughKubeconfig {
    /// Reads kubeconfigs with this client.
    pub fn new(management: Client, reach: Reach) -> Self {
        Self { management, reach }
    }
}

impl TenantServices for ThroughKubeconfig {
    async fn look(&self, cluster: &ClusterSummary) -> Result<Option<Vec<Demand>>, LookError> {
        let Some((full, kubeconfig)) = kubeconfig(&self.management, self.reach, cluster).await?
        else {
            return Ok(None);
        };
        let client = connect(&kubeconfig)
            .await
            .map_err(|source| LookError::Kubeconfig {
                secret: full,
                source,
            })?;
        let services: Api<Service> = Api::all(client);
        let balanced = ListParams::default().fields("spec.type=LoadBalancer");
        let name = format!("TenantCluster {}", cluster.name_any());
        let listed = services.list(&balanced).await;
        let listed = listed.map_err(ApiError::of("list", "Services of", &name))?;
        Ok(Some(listed.iter().map(demand).collect()))
    }
}

/// The platform's own kubeconfig of a cluster and the name of its Secret; nothing while the cluster is not ready.
pub(crate) async fn kubeconfig(
    management: &Client,
    reach: Reach,
    cluster: &ClusterSummary,
) -> Result<Option<(String, Vec<u8>)>, ApiError> {
    match cluster.status.phase.as_deref() {
        Some("Ready" | "Updating") => early_kubeconfig(management, reach, cluster).await,
        _ => Ok(None),
    }
}

/// The same from the moment that the API server answers: what makes a cluster ready needs it before.
pub(crate) async fn early_kubeconfig(
    management: &Client,
    reach: Reach,
    cluster: &ClusterSummary,
) -> Result<Option<(String, Vec<u8>)>, ApiError> {
    let status = &cluster.status;
    let Some(secret) = &status.kubeconfig_secret_ref else {
        return Ok(None);
    };
    let namespace = status
        .tenant_namespace
        .clone()
        .or_else(|| cluster.namespace());
    let namespace = namespace.unwrap_or_default();
    let steward = Part::AdminKubeconfig.name(&cluster.name_any());
    match kubeconfig_in(management, reach, &namespace, &steward).await? {
        None => kubeconfig_in(management, reach, &namespace, &secret.name).await,
        found => Ok(found),
    }
}

/// The kubeconfig that a Secret holds, and the Secret's full name.
pub(crate) async fn kubeconfig_in(
    management: &Client,
    reach: Reach,
    namespace: &str,
    name: &str,
) -> Result<Option<(String, Vec<u8>)>, ApiError> {
    let full = format!("{namespace}/{name}");
    let secrets: Api<Secret> = Api::namespaced(management.clone(), namespace);
    let found = secrets.get_opt(name).await;
    let found = found.map_err(ApiError::of("get", "Secret", &full))?;
    let mut data = found.and_then(|secret| secret.data).unwrap_or_default();
    let content = keys(reach).iter().find_map(|key| data.remove(*key));
    Ok(content.map(|content| (full, content.0)))
}

/// What a Service uses or waits for.
pub fn demand(service: &Service) -> Demand {
    let spec = service.spec.as_ref();
    let class = spec.and_then(|spec| spec.load_balancer_class.as_deref());
    let chosen = spec
        .and_then(|spec| spec.load_balancer_ip.as_deref())
        .is_some_and(|ip| !ip.is_empty())
        || CHOSEN
            .iter()
            .any(|key| service.annotations().contains_key(*key));
    let given = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref())
        .and_then(|balancer| balancer.ingress.as_deref())
        .unwrap_or_default();
    Demand {
        since: since(&service.metadata),
        addresses: given
            .iter()
            .filter_map(|ingress| ingress.ip.as_ref()?.parse::<IpAddr>().ok())
            .collect(),
        foreign: class.is_some() || chosen,
    }
}

/// A Service that is going waits for nothing, and counts as new for as long as it is there.
fn since(metadata: &ObjectMeta) -> Timestamp {
    match (&metadata.deletion_timestamp, &metadata.creation_timestamp) {
        (None, Some(created)) => created.0,
        _ => Timestamp::MAX,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(spec: &Value, annotations: &Value, ip: Option<&str>) -> Demand {
        let ingress: Vec<Value> = ip.map(|ip| json!({"ip": ip})).into_iter().collect();
        let service: Service = serde_json::from_value(json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations},
            "spec": spec, "status": {"loadBalancer": {"ingress": ingress}},
        }))
        .unwrap();
        demand(&service)
    }

    #[test]
    fn names_of_services_are_used_inside_of_the_management_cluster_only() {
        assert_eq!(keys(Reach::Service).first(), Some(&"admin.svc"));
        assert!(!keys(Reach::Endpoint).contains(&"admin.svc"));
    }

    #[test]
    fn a_plain_service_is_ours_and_waits_until_it_has_an_address() {
        let waits = service(&json!({"type": "LoadBalancer"}), &json!({}), None);
        assert_eq!(
            waits,
            Demand {
                since: "2026-01-01T00:00:00Z".parse().unwrap(),
                addresses: Vec::new(),
                foreign: false,
            }
        );
        let served = service(
            &json!({"type": "LoadBalancer"}),
            &json!({}),
            Some("10.40.0.7"),
        );
        assert_eq!(served.addresses, ["10.40.0.7".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn a_service_of_another_class_or_with_an_address_of_its_own_choice_is_not_ours() {
        for (spec, annotations) in [
            (json!({"loadBalancerClass": "example.com/other"}), json!({})),
            (json!({"loadBalancerIP": "192.0.2.1"}), json!({})),
            (
                json!({}),
                json!({"metallb.io/loadBalancerIPs": "192.0.2.1"}),
            ),
        ] {
            assert!(service(&spec, &annotations, None).foreign, "{spec}");
        }
    }

    #[test]
    fn a_service_that_is_being_deleted_never_counts_as_waiting_for_long() {
        let going: Service = serde_json::from_value(json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z"},
        }))
        .unwrap();
        assert_eq!(demand(&going).since, Timestamp::MAX);
    }
}
