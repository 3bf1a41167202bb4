//! The objects a tenant cluster is made of: complete, in the order they are applied, each with the cluster's labels.
//!
//! Nothing is decided here about time or order of events; [`crate::plan`] says which version, which target and how
//! many, and this writes it down.

use std::collections::BTreeMap;

use butler_api::{
    common::{IngressController, ResourceAmounts, ResourceRequests},
    controlplane::{
        ControlPlaneSettings, StewardControlPlane,
        network::{Gateway, Ingress, Network},
        settings::{Addons, Component, CoreDns},
        steward_control_plane::StewardControlPlaneSpec,
    },
    names,
    steward::{
        fragments::Resources,
        tenant_control_plane::{
            addons::{ImageOverride, Konnectivity},
            exposure::{self, ParentRef, ServiceType},
            kubernetes::CgroupDriver,
        },
    },
    types::KubeVersion,
};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::{Value, json};

use crate::{
    core::{
        self, BOOTSTRAP, Bootstrap, CLUSTER_NAME, Checks, Cluster, ClusterNetwork, ClusterSpec,
        DEPLOYMENT_NAME, INFRASTRUCTURE, KubeadmConfigTemplate, KubeadmTemplate,
        KubeadmTemplateSpec, Labelled, MachineDeletion, MachineDeployment, MachineDeploymentSpec,
        MachineHealthCheck, MachineHealthCheckSpec, MachineRollout, MachineSpec, MachineTemplate,
        Ranges, Reference, Remediation, RollingUpdate, Selector, Strategy, TriggerIf,
        UnhealthyCondition, UnhealthyRemediation,
    },
    day2::Target,
    node::{Told, needs_trust},
    object::Object,
    provider::Infrastructure,
    quota::Sizes,
    spec::{Exposure, Pool, Size, TenantSpec, is_copied},
};

/// Annotation of a pool: what its machines were made from before.
pub const CAME_FROM: &str = "butler.butlerlabs.dev/came-from";
/// Annotation of a pool: since when its machines are being replaced.
pub const ROLLS_SINCE: &str = "butler.butlerlabs.dev/rolls-since";
/// Annotation of a pool: what did not work and is not tried again.
pub const FAILED_ROLLOUT: &str = "butler.butlerlabs.dev/failed-rollout";
/// Annotation by which the autoscaler knows the fewest machines of a pool.
pub const AUTOSCALER_MIN: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
/// Annotation by which the autoscaler knows the most machines of a pool.
pub const AUTOSCALER_MAX: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";

/// The tenant namespace. Control planes run in it, which need no rights on their node.
pub(crate) fn namespace(spec: &TenantSpec) -> Object {
    let identity = &spec.identity;
    let mut labels = identity.labels();
    labels.insert(
        "pod-security.kubernetes.io/enforce".to_owned(),
        "baseline".to_owned(),
    );
    let description = format!(
        "What tenant cluster {}/{} is made of",
        identity.namespace, identity.name
    );
    // Written before any machine is asked for, where no user can write: what stands here counts.
    let granted = serde_json::to_string(&Sizes::of(&spec.pools)).unwrap_or_default();
    Object::Namespace(Box::new(Namespace {
        metadata: ObjectMeta {
            name: Some(identity.tenant_namespace()),
            labels: Some(labels),
            annotations: Some(BTreeMap::from([
                (names::DESCRIPTION.to_owned(), description),
                (names::GRANTED.to_owned(), granted),
            ])),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }))
}

/// The Cluster.
pub(crate) fn cluster(spec: &TenantSpec) -> Object {
    let identity = &spec.identity;
    let name = identity.cluster();
    let range = |range: butler_api::types::Cidr| Ranges {
        cidr_blocks: vec![range.to_string()],
    };
    let kind = spec.infrastructure.kinds().cluster;
    Object::Cluster(Box::new(Cluster::new(
        identity.metadata(name),
        ClusterSpec {
            paused: spec.paused,
            cluster_network: ClusterNetwork {
                pods: range(spec.network.pods),
                services: range(spec.network.services),
                service_domain: spec.network.domain.clone(),
            },
            control_plane_ref: Reference::new(core::CONTROL_PLANE, "StewardControlPlane", name),
            infrastructure_ref: Reference::new(INFRASTRUCTURE, kind, name),
        },
    )))
}

/// The hosted control plane, with or without kube-proxy in the cluster.
pub(crate) fn control_plane(
    spec: &TenantSpec,
    version: KubeVersion,
    replicas: u32,
    kube_proxy: bool,
) -> Object {
    let identity = &spec.identity;
    let wanted = &spec.control_plane;
    let component = |amounts: &Option<ResourceRequests>| {
        let resources = amounts.as_ref().map(resources)?;
        Some(Component {
            resources: Some(resources),
            ..Component::default()
        })
    };
    let mut settings = ControlPlaneSettings {
        data_store_name: wanted.data_store.clone(),
        addons: Some(addons(spec, kube_proxy)),
        api_server: component(&wanted.resources.api_server),
        controller_manager: component(&wanted.resources.controller_manager),
        scheduler: component(&wanted.resources.scheduler),
        network: network(spec),
        ..ControlPlaneSettings::default()
    };
    if needs_trust(spec) {
        // Talos runs kubelets without systemd.
        settings.kubelet.cgroupfs = Some(CgroupDriver::Cgroupfs);
    }
    let control_plane = StewardControlPlaneSpec {
        version: version.to_string(),
        replicas: i32::try_from(replicas).unwrap_or(i32::MAX),
        control_plane_endpoint: None,
        settings,
    };
    let mut object = StewardControlPlane::new(identity.cluster(), control_plane);
    object.metadata = identity.metadata(identity.cluster());
    Object::ControlPlane(Box::new(object))
}

/// What runs inside the cluster from the start. Nodes of local clusters are reached without a tunnel.
fn addons(spec: &TenantSpec, kube_proxy: bool) -> Addons {
    let is_local = spec.infrastructure.is_local();
    let mut konnectivity = Konnectivity::default();
    let amounts = spec.control_plane.resources.konnectivity.as_ref();
    konnectivity.server.resources = amounts.map(resources);
    let bootstrap = needs_trust(spec).then(|| {
        let value = json!({ "provider": "talos", "talos": {} });
        serde_json::from_value(value).expect("every other field has a default")
    });
    Addons {
        core_dns: Some(CoreDns::default()),
        kube_proxy: kube_proxy.then(ImageOverride::default),
        konnectivity: (!is_local).then_some(konnectivity),
        tcp_proxy: None,
        worker_bootstrap: bootstrap,
    }
}

fn network(spec: &TenantSpec) -> Network {
    let mut network = Network {
        cert_sans: spec.control_plane.cert_sans.clone(),
        ..Network::default()
    };
    match &spec.control_plane.exposure {
        Exposure::LoadBalancer => network.service_type = ServiceType::LoadBalancer,
        Exposure::NodePort => network.service_type = ServiceType::NodePort,
        Exposure::ClusterIp => network.service_type = ServiceType::ClusterIP,
        Exposure::Ingress {
            host,
            class,
            controller,
        } => {
            network.service_type = ServiceType::ClusterIP;
            network.ingress = Some(Ingress {
                class_name: class.clone(),
                hostname: host.clone(),
                controller_type: match controller {
                    IngressController::Haproxy => exposure::IngressController::Haproxy,
                    IngressController::Nginx => exposure::IngressController::Nginx,
                    IngressController::Traefik => exposure::IngressController::Traefik,
                    IngressController::Generic => exposure::IngressController::Generic,
                },
                ..Ingress::default()
            });
        }
        Exposure::Gateway {
            host,
            namespace,
            name,
        } => {
            network.service_type = ServiceType::ClusterIP;
            network.gateway = Some(Gateway {
                hostname: host.clone(),
                parent_refs: vec![ParentRef {
                    group: Some("gateway.networking.k8s.io".to_owned()),
                    kind: Some("Gateway".to_owned()),
                    namespace: Some(namespace.clone()),
                    name: name.clone(),
                    ..ParentRef::default()
                }],
                ..Gateway::default()
            });
        }
    }
    network
}

fn resources(amounts: &ResourceRequests) -> Resources {
    let list = |amounts: &Option<ResourceAmounts>| {
        let amounts = amounts.clone().unwrap_or_default();
        let named = [("cpu", amounts.cpu), ("memory", amounts.memory)];
        named
            .into_iter()
            .filter_map(|(name, amount)| Some((name.to_owned(), amount?)))
            .collect()
    };
    Resources {
        requests: list(&amounts.requests),
        limits: list(&amounts.limits),
    }
}

/// What machines of a pool are told, as an object. New content is a new name; a new token is not.
pub(crate) fn bootstrap(spec: &TenantSpec, pool: &Pool, told: Told) -> Object {
    let identity = &spec.identity;
    match told {
        Told::Kubeadm(kubeadm) => {
            let content = KubeadmTemplateSpec {
                template: KubeadmTemplate { spec: *kubeadm },
            };
            let value = serde_json::to_value(&content).unwrap_or(Value::Null);
            let name = identity.content(&pool.name, &value);
            let metadata = identity.pool_metadata(&name, &pool.name);
            Object::Bootstrap(Box::new(KubeadmConfigTemplate::new(metadata, content)))
        }
        Told::Data(data) => {
            let name = identity.content(&pool.name, &data.identity);
            let text = |text: &str| ByteString(text.as_bytes().to_vec());
            Object::Secret(Box::new(Secret {
                metadata: identity.pool_metadata(&name, &pool.name),
                type_: Some("cluster.x-k8s.io/secret".to_owned()),
                data: Some(BTreeMap::from([
                    ("value".to_owned(), text(data.text.reveal())),
                    ("format".to_owned(), text(data.format)),
                ])),
                ..Secret::default()
            }))
        }
    }
}

/// What is decided about a pool beside its spec.
pub(crate) struct PoolOrder<'a> {
    pub(crate) target: &'a Target,
    pub(crate) came_from: Option<&'a Target>,
    /// Since when it is being replaced.
    pub(crate) began: Option<Timestamp>,
    pub(crate) failed: Option<&'a str>,
    /// Whether it sleeps.
    pub(crate) asleep: bool,
}

/// The labels by which a pool knows its machines. They can never change.
fn selector(spec: &TenantSpec, pool: &Pool) -> BTreeMap<String, String> {
    let identity = &spec.identity;
    BTreeMap::from([
        (CLUSTER_NAME.to_owned(), identity.cluster().to_owned()),
        (DEPLOYMENT_NAME.to_owned(), identity.pool(&pool.name)),
    ])
}

/// A pool.
pub(crate) fn machine_deployment(spec: &TenantSpec, pool: &Pool, order: &PoolOrder<'_>) -> Object {
    let identity = &spec.identity;
    let name = identity.pool(&pool.name);
    let mut metadata = identity.pool_metadata(&name, &pool.name);
    let annotations = metadata.annotations.get_or_insert_default();
    let replicas = match pool.size {
        _ if order.asleep => Some(0),
        Size::Fixed(count) => Some(i32::try_from(count).unwrap_or(i32::MAX)),
        Size::Between { min, max } => {
            annotations.insert(AUTOSCALER_MIN.to_owned(), min.to_string());
            annotations.insert(AUTOSCALER_MAX.to_owned(), max.to_string());
            None
        }
    };
    if let Some(target) = order.came_from {
        let text = serde_json::to_string(target).unwrap_or_default();
        annotations.insert(CAME_FROM.to_owned(), text);
    }
    if let Some(began) = order.began {
        annotations.insert(ROLLS_SINCE.to_owned(), began.to_string());
    }
    if let Some(failed) = order.failed {
        annotations.insert(FAILED_ROLLOUT.to_owned(), failed.to_owned());
    }
    let mut labels = selector(spec, pool);
    labels.insert(names::POOL.to_owned(), pool.name.clone());
    let copied = pool.labels.iter().filter(|(key, _)| is_copied(key));
    labels.extend(copied.map(|(key, value)| (key.clone(), value.clone())));
    let bootstrap = &order.target.bootstrap;
    let bootstrap = if bootstrap.kind == "Secret" {
        Bootstrap::DataSecretName(bootstrap.name.clone())
    } else {
        Bootstrap::ConfigRef(Reference::new(BOOTSTRAP, &bootstrap.kind, &bootstrap.name))
    };
    let template = &order.target.machine_template;
    let drain = if order.asleep {
        pool.drain_seconds.min(ASLEEP_DRAIN_SECONDS)
    } else {
        pool.drain_seconds
    };
    let drain = i32::try_from(drain).unwrap_or(i32::MAX);
    Object::MachineDeployment(Box::new(MachineDeployment::new(
        metadata,
        MachineDeploymentSpec {
            cluster_name: identity.cluster().to_owned(),
            replicas,
            rollout: MachineRollout {
                strategy: Strategy {
                    kind: "RollingUpdate",
                    rolling_update: RollingUpdate {
                        max_surge: i32::try_from(pool.surge).unwrap_or(i32::MAX),
                        max_unavailable: i32::try_from(pool.unavailable).unwrap_or(i32::MAX),
                    },
                },
            },
            remediation: Remediation { max_in_flight: 1 },
            selector: Selector {
                match_labels: selector(spec, pool),
            },
            template: MachineTemplate {
                metadata: Labelled { labels },
                spec: MachineSpec {
                    cluster_name: identity.cluster().to_owned(),
                    version: order.target.version.to_string(),
                    bootstrap,
                    infrastructure_ref: Reference::new(
                        INFRASTRUCTURE,
                        &template.kind,
                        &template.name,
                    ),
                    failure_domain: spec.infrastructure.zone(pool),
                    deletion: MachineDeletion {
                        node_drain_timeout_seconds: drain,
                        // A volume that does not let go must not hold a machine for ever.
                        node_volume_detach_timeout_seconds: drain,
                        node_deletion_timeout_seconds: NODE_DELETION_SECONDS,
                    },
                },
            },
        },
    )))
}

/// How long pods of a cluster that falls asleep have to end. None of them finds another node, so that whoever wants some
/// to stay available would keep the cluster awake until its patience ends.
const ASLEEP_DRAIN_SECONDS: u32 = 30;

/// How long a Node may outlive its machine.
const NODE_DELETION_SECONDS: i32 = 60;
/// How long a machine may take to become a Node: images of providers can be slow to copy.
const STARTUP_SECONDS: i32 = 20 * 60;
/// How long a Node may be out of reach: longer than a restart of its machine.
const UNHEALTHY_SECONDS: i32 = 5 * 60;
/// How long a machine of this very host may be down: the host knows at once, and starts one in seconds.
const LOCAL_DOWN_SECONDS: i32 = 60;
/// When more than this is broken it is not the machines, and making new ones only makes it worse.
const STORM: &str = "40%";

/// The repair of a pool.
pub(crate) fn machine_health_check(spec: &TenantSpec, pool: &Pool) -> Object {
    let identity = &spec.identity;
    let name = identity.pool(&pool.name);
    let unhealthy = |status: &'static str| UnhealthyCondition {
        kind: "Ready",
        status,
        timeout_seconds: UNHEALTHY_SECONDS,
    };
    let down = UnhealthyCondition {
        kind: "InfrastructureReady",
        status: "False",
        timeout_seconds: LOCAL_DOWN_SECONDS,
    };
    // Elsewhere this holds for many minutes while a machine is being made.
    let is_quick = matches!(spec.infrastructure, Infrastructure::Local(_));
    Object::MachineHealthCheck(Box::new(MachineHealthCheck::new(
        identity.pool_metadata(&name, &pool.name),
        MachineHealthCheckSpec {
            cluster_name: identity.cluster().to_owned(),
            selector: Selector {
                match_labels: selector(spec, pool),
            },
            checks: Checks {
                node_startup_timeout_seconds: STARTUP_SECONDS,
                unhealthy_node_conditions: vec![unhealthy("False"), unhealthy("Unknown")],
                unhealthy_machine_conditions: Vec::from_iter(is_quick.then_some(down)),
            },
            remediation: UnhealthyRemediation {
                trigger_if: TriggerIf {
                    // Of one or two machines every one is more than that.
                    unhealthy_less_than_or_equal_to: if pool.size.most() < 3 {
                        "100%"
                    } else {
                        STORM
                    },
                },
            },
        },
    )))
}
