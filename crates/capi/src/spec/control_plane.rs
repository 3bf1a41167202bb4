//! The hosted control plane of a cluster, and how it is reached.

use butler_api::{
    butler::tenant_cluster::ServiceType,
    common::{ControlPlaneExposure, ControlPlaneResources, ExposureMode, IngressController},
};

use super::{Faults, Raw};
use crate::names::Identity;

/// How an API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// By an address of its own.
    LoadBalancer,
    /// By a port of the management cluster's nodes.
    NodePort,
    /// Only inside the management cluster.
    ClusterIp,
    /// By host name, through the shared ingress controller.
    Ingress {
        /// Host name.
        host: String,
        /// Class.
        class: Option<String>,
        /// Whose dialect.
        controller: IngressController,
    },
    /// By host name, through the shared Gateway.
    Gateway {
        /// Host name.
        host: String,
        /// Namespace of the Gateway.
        namespace: String,
        /// Name of the Gateway.
        name: String,
    },
}

/// The hosted control plane.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlPlane {
    /// Pods.
    pub replicas: u32,
    /// How it is reached.
    pub exposure: Exposure,
    /// More names of its certificate.
    pub cert_sans: Vec<String>,
    /// Where its state is kept; left out, the platform's default.
    pub data_store: Option<String>,
    /// CPU and memory of its containers.
    pub resources: ControlPlaneResources,
    /// Whether nodes wait for a cloud controller manager, where the provider has one. Nothing here installs it.
    pub external_cloud_provider: bool,
}

pub(super) fn validate(
    raw: &Raw<'_>,
    identity: Option<&Identity>,
    faults: &mut Faults,
) -> Option<ControlPlane> {
    let spec = &raw.cluster.spec.control_plane;
    let replicas = u32::try_from(spec.replicas)
        .ok()
        .filter(|replicas| (1..=3).contains(replicas));
    let replicas = faults.need(
        "spec.controlPlane.replicas",
        replicas,
        format!("{} copies cannot run: use 1, 2 or 3", spec.replicas),
    );
    let exposure = exposure(raw, identity?, faults);
    let own = spec.resources.clone().unwrap_or_default();
    let defaults = raw.platform.default_control_plane_resources.clone();
    let defaults = defaults.unwrap_or_default();
    Some(ControlPlane {
        replicas: replicas?,
        exposure: exposure?,
        cert_sans: spec.cert_sans.clone(),
        data_store: spec.data_store_ref.as_ref().map(|store| store.name.clone()),
        // A component that is named replaces its default as a whole: half of each would suit neither.
        resources: ControlPlaneResources {
            api_server: own.api_server.or(defaults.api_server),
            controller_manager: own.controller_manager.or(defaults.controller_manager),
            scheduler: own.scheduler.or(defaults.scheduler),
            konnectivity: own.konnectivity.or(defaults.konnectivity),
        },
        external_cloud_provider: spec.external_cloud_provider,
    })
}

fn exposure(raw: &Raw<'_>, identity: &Identity, faults: &mut Faults) -> Option<Exposure> {
    let shared = &raw.platform.control_plane_exposure;
    let wanted = raw.cluster.spec.control_plane.service_type;
    let wanted = wanted.unwrap_or(match shared.mode {
        ExposureMode::LoadBalancer => ServiceType::LoadBalancer,
        ExposureMode::Ingress => ServiceType::Ingress,
        ExposureMode::Gateway => ServiceType::Gateway,
    });
    match wanted {
        ServiceType::LoadBalancer => Some(Exposure::LoadBalancer),
        ServiceType::NodePort => Some(Exposure::NodePort),
        ServiceType::ClusterIP => Some(Exposure::ClusterIp),
        ServiceType::Ingress => Some(Exposure::Ingress {
            host: host(shared, identity, faults)?,
            class: shared.ingress_class_name.clone(),
            controller: shared.controller_type.unwrap_or(IngressController::Generic),
        }),
        ServiceType::Gateway => {
            let gateway = shared.gateway_ref.as_deref();
            let gateway = gateway.and_then(|gateway| gateway.split_once('/'));
            let (namespace, name) = faults.need(
                "spec.controlPlane.serviceType",
                gateway,
                "Gateway needs controlPlaneExposure.gatewayRef in ButlerConfig: ask the platform's administrators, or choose LoadBalancer",
            )?;
            Some(Exposure::Gateway {
                host: host(shared, identity, faults)?,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        }
    }
}

/// `{cluster}.{tenant namespace}.{pattern}`: unique, because the namespace is.
fn host(shared: &ControlPlaneExposure, identity: &Identity, faults: &mut Faults) -> Option<String> {
    let pattern = shared.hostname.as_deref().filter(|name| !name.is_empty());
    let pattern = faults.need(
        "spec.controlPlane.serviceType",
        pattern,
        "it is reached by host name, which needs controlPlaneExposure.hostname in ButlerConfig: ask the platform's administrators, or choose LoadBalancer",
    )?;
    let base = pattern.strip_prefix("*.").unwrap_or(pattern);
    let namespace = identity.tenant_namespace();
    Some(format!("{}.{namespace}.{base}", identity.cluster()))
}
