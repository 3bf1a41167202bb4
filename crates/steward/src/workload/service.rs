//! The Service in front of the pods, and the budget that keeps enough of them.

use std::ops::RangeInclusive;

use k8s_openapi::{
    api::{
        core::v1::{Service, ServicePort, ServiceSpec},
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};

use super::{object, pod};
use crate::{
    names,
    spec::{ControlPlane, Exposure},
};

/// The range that clusters give node ports from unless they are told otherwise. A port of the spec that
/// lies in it is asked for; any other is left to the cluster.
const NODE_PORTS: RangeInclusive<u16> = 30000..=32767;

/// The Service. It exists before the endpoint is known, which is read from it, and stays while the control
/// plane is asleep, so that the address is kept.
pub fn service(spec: &ControlPlane) -> Service {
    let settings = &spec.service;
    let node_port = |port: u16| {
        let ask = settings.exposure == Exposure::NodePort && NODE_PORTS.contains(&port);
        ask.then_some(i32::from(port))
    };
    // By name, not by number: while pods are replaced, old and new ones may listen on different ports.
    let own = |name: &str, port: u16, target: &str| ServicePort {
        name: Some(name.to_owned()),
        node_port: node_port(port),
        port: port.into(),
        protocol: Some("TCP".to_owned()),
        target_port: Some(IntOrString::String(target.to_owned())),
        ..ServicePort::default()
    };
    let mut ports = vec![own(names::API_SERVER, spec.network.port, names::API_SERVER)];
    let tunnel = spec.konnectivity.as_ref();
    ports.extend(
        tunnel.map(|tunnel| own(names::KONNECTIVITY_SERVER, tunnel.port, pod::TUNNEL_PORT)),
    );
    ports.extend(settings.ports.iter().cloned());
    let (type_, class, ranges) = match &settings.exposure {
        Exposure::LoadBalancer {
            class,
            source_ranges,
        } => ("LoadBalancer", class.clone(), source_ranges.clone()),
        Exposure::NodePort => ("NodePort", None, Vec::new()),
        Exposure::ClusterIp => ("ClusterIP", None, Vec::new()),
    };
    let text = |list: Vec<String>| Some(list).filter(|list| !list.is_empty());
    Service {
        metadata: object(
            spec,
            spec.identity.name.clone(),
            "service",
            Some(&settings.metadata),
        ),
        spec: Some(ServiceSpec {
            type_: Some(type_.to_owned()),
            selector: Some(names::selector(&spec.identity.name)),
            ports: Some(ports),
            external_ips: text(
                settings
                    .external_ips
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            ),
            load_balancer_class: class,
            load_balancer_source_ranges: text(ranges.iter().map(ToString::to_string).collect()),
            publish_not_ready_addresses: Some(false),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// Lets nodes be drained one pod at a time; pods that do not work are never in the way.
pub(super) fn disruption_budget(spec: &ControlPlane) -> Option<PodDisruptionBudget> {
    (spec.replicas > 1).then(|| PodDisruptionBudget {
        metadata: object(spec, spec.identity.name.clone(), "disruption-budget", None),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(LabelSelector {
                match_labels: Some(names::selector(&spec.identity.name)),
                ..LabelSelector::default()
            }),
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    })
}
