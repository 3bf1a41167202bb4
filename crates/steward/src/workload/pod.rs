//! What all containers and pods of a control plane have in common.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, ContainerPort, EnvVar, HTTPGetAction, PodSecurityContext, PodSpec,
        PodTemplateSpec, Probe, ResourceRequirements, SeccompProfile, SecurityContext, Sysctl,
        TopologySpreadConstraint,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
    },
};

use super::{Inputs, api_server, content, managers};
use crate::{
    endpoint::Endpoint,
    names,
    spec::{ControlPlane, network::target},
};

/// The port of the tunnel, which must be shorter than its name in the Service.
pub(super) const TUNNEL_PORT: &str = "konnectivity";
/// The user and group `nonroot` of the images that components are built on.
const NONROOT: i64 = 65532;
/// Ports below need a privilege that containers do not have.
const UNPRIVILEGED: u16 = 1024;

/// The template of the pods.
pub(super) fn template(
    spec: &ControlPlane,
    endpoint: &Endpoint,
    inputs: &Inputs,
) -> PodTemplateSpec {
    let name = &spec.identity.name;
    let pods = &spec.pods;
    let mut labels = pods.pod_metadata.labels.clone();
    labels.extend(names::labels(name, "deployment"));
    let mut annotations = pods.pod_metadata.annotations.clone();
    annotations.extend(content::annotations(spec, inputs));
    let some = |list: &BTreeMap<String, String>| Some(list.clone()).filter(|list| !list.is_empty());
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            affinity: pods.affinity.clone(),
            automount_service_account_token: Some(false),
            containers: containers(spec, endpoint, inputs),
            // Variables about every Service of the namespace would tell tenants' containers of others.
            enable_service_links: Some(false),
            init_containers: filled(pods.init_containers.clone()),
            node_selector: some(&pods.node_selector),
            priority_class_name: pods.priority_class.clone(),
            runtime_class_name: pods.runtime_class.clone(),
            security_context: Some(security(endpoint)),
            service_account_name: Some(pods.service_account.clone()),
            termination_grace_period_seconds: Some(api_server::GRACE),
            tolerations: filled(pods.tolerations.clone()),
            topology_spread_constraints: Some(spread(spec)),
            volumes: Some(
                [
                    api_server::volumes(spec, inputs),
                    managers::volumes(spec),
                    pods.volumes.clone(),
                ]
                .concat(),
            ),
            ..PodSpec::default()
        }),
    }
}

fn filled<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

fn containers(spec: &ControlPlane, endpoint: &Endpoint, inputs: &Inputs) -> Vec<Container> {
    let mut containers = vec![
        api_server::container(spec, endpoint, inputs),
        managers::controller_manager(spec, inputs),
        managers::scheduler(spec, inputs),
    ];
    let tunnel = spec.konnectivity.as_ref();
    containers.extend(tunnel.map(|tunnel| managers::konnectivity(spec, tunnel, endpoint, inputs)));
    containers.extend(spec.pods.containers.iter().cloned());
    containers
}

/// The group makes the files of Secrets readable; containers of users get the same user unless they say
/// otherwise.
fn security(endpoint: &Endpoint) -> PodSecurityContext {
    let low = endpoint.port < UNPRIVILEGED;
    PodSecurityContext {
        fs_group: Some(NONROOT),
        run_as_group: Some(NONROOT),
        run_as_non_root: Some(true),
        run_as_user: Some(NONROOT),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        // One of the settings that every cluster allows; it holds in the pod's own network only.
        sysctls: low.then(|| {
            vec![Sysctl {
                name: "net.ipv4.ip_unprivileged_port_start".to_owned(),
                value: "0".to_owned(),
            }]
        }),
        ..PodSecurityContext::default()
    }
}

/// Over nodes, then over zones, as far as that is possible: two pods on one node are worth less than they
/// cost, but a cluster of one node must work. Only pods of the same template are counted, since all pods of
/// the one before are about to go.
fn spread(spec: &ControlPlane) -> Vec<TopologySpreadConstraint> {
    let selector = LabelSelector {
        match_labels: Some(names::selector(&spec.identity.name)),
        ..LabelSelector::default()
    };
    if spec.pods.spread.is_empty() {
        let over = |key: &str| TopologySpreadConstraint {
            label_selector: Some(selector.clone()),
            match_label_keys: Some(vec!["pod-template-hash".to_owned()]),
            max_skew: 1,
            topology_key: key.to_owned(),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            ..TopologySpreadConstraint::default()
        };
        return vec![
            over("kubernetes.io/hostname"),
            over("topology.kubernetes.io/zone"),
        ];
    }
    let wanted = spec.pods.spread.iter().cloned();
    let complete = |mut rule: TopologySpreadConstraint| {
        rule.label_selector.get_or_insert_with(|| selector.clone());
        rule
    };
    wanted.map(complete).collect()
}

/// A container with the least rights that it works with.
pub(super) fn container(name: &str, image: String, command: Vec<String>) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(image),
        command: Some(command),
        // A quarter less memory for a little more work: an idle control plane measured 163 instead of
        // 222 MiB. A limit near the live heap (GOMEMLIMIT) was tried and burns most of a core instead.
        env: Some(vec![EnvVar {
            name: "GOGC".to_owned(),
            value: Some("25".to_owned()),
            ..EnvVar::default()
        }]),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                ..Capabilities::default()
            }),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// Lets a capability stay.
pub(super) fn allow(container: &mut Container, capability: &str) {
    let context = container.security_context.get_or_insert_default();
    let capabilities = context.capabilities.get_or_insert_default();
    capabilities
        .add
        .get_or_insert_default()
        .push(capability.to_owned());
}

/// A port of a container.
pub(super) fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number.into(),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// What the user gave, or a request of `(cpu, memory)` near what an idle component was measured to use, so
/// that pods are neither the first to be evicted nor in the way of others. There is no default limit.
pub(super) fn resources(
    given: Option<&ResourceRequirements>,
    (cpu, memory): (&str, &str),
) -> ResourceRequirements {
    let usual = || ResourceRequirements {
        requests: Some(BTreeMap::from([
            ("cpu".to_owned(), Quantity(cpu.to_owned())),
            ("memory".to_owned(), Quantity(memory.to_owned())),
        ])),
        ..ResourceRequirements::default()
    };
    given.cloned().unwrap_or_else(usual)
}

/// A probe over HTTPS, without credentials.
pub(super) fn probe(path: &str, port: u16, period: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: target(port),
            scheme: Some("HTTPS".to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(10),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}
