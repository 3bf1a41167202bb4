//! From a `StewardControlPlane` and its Cluster to a `TenantControlPlane`. Pure.

use std::collections::BTreeMap;

use butler_api::names::PLAN_HASH;
use butler_api::{
    controlplane::{
        ControlPlaneSettings, StewardControlPlane,
        network::{self, Network},
        settings::{self, Component},
    },
    steward::{
        TenantControlPlane,
        fragments::ExtraMetadata,
        tenant_control_plane::{
            Addons, ControlPlane, Deployment, Gateway, Ingress, Kubernetes, NetworkProfile,
            Service, TenantControlPlaneSpec,
            addons::ImageOverride,
            deployment::{ComponentResources, ExtraArgs, ExtraVolumeMounts, RegistrySettings},
        },
    },
};
use butler_pki::capi::CLUSTER_NAME;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{ResourceExt, core::ObjectMeta};

use super::cluster::{Cluster, ClusterNetwork, GROUP};
use crate::names;

/// What kubectl remembers in an annotation is about the object it was applied to.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The hosted control plane that a Cluster's control plane becomes: same name, same namespace, owned by it.
///
/// `live` is the one that stands, if any: where its data is was decided when it was made.
pub(super) fn tenant(
    plane: &StewardControlPlane,
    cluster: &Cluster,
    owner: OwnerReference,
    live: Option<&TenantControlPlane>,
) -> TenantControlPlane {
    let data = place(&plane.spec.settings, &owner.uid, live);
    let mut annotations = annotations(plane);
    annotations.insert(names::WORKED_ON_FOR.to_owned(), owner.uid.clone());
    let mut labels = plane.labels().clone();
    labels.insert(CLUSTER_NAME.to_owned(), cluster.name_any());
    let spec = &plane.spec;
    let settings = &spec.settings;
    TenantControlPlane {
        metadata: ObjectMeta {
            name: plane.metadata.name.clone(),
            namespace: plane.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: TenantControlPlaneSpec {
            write_permissions: None,
            data_store: data.store,
            data_store_schema: data.schema,
            data_store_username: data.user,
            data_store_overrides: Vec::new(),
            control_plane: ControlPlane {
                deployment: deployment(settings, spec.replicas),
                service: service(&settings.network),
                ingress: settings.network.ingress.as_ref().map(ingress),
                gateway: settings.network.gateway.as_ref().map(gateway),
            },
            kubernetes: kubernetes(settings, &spec.version),
            network_profile: network_profile(settings, &cluster.spec.cluster_network),
            addons: settings.addons.as_ref().map(addons),
        },
        status: None,
    }
}

/// Where a control plane has its data.
struct Place {
    store: Option<String>,
    schema: Option<String>,
    user: Option<String>,
}

/// Written into the spec: after a move to another management cluster nothing else says where the data is. UIDs are new
/// there, no status is copied, and its default store may be another.
fn place(settings: &ControlPlaneSettings, uid: &str, live: Option<&TenantControlPlane>) -> Place {
    let asked = |name: &Option<String>| name.clone().or_else(|| Some(format!("steward-{uid}")));
    let status = live.and_then(|live| live.status.as_ref());
    let storage = status.and_then(|status| status.storage.as_ref());
    let held = live.and_then(|live| live.spec.data_store.clone());
    let recorded = || storage.and_then(|storage| storage.data_store_name.clone());
    let store = settings.data_store_name.clone();
    // Restored by a move: it has the names of its place from elsewhere, so its spec alone says where its data is.
    let copied = live.is_some_and(|live| {
        let schema = &live.spec.data_store_schema;
        schema.is_some() && *schema != asked(&settings.data_store_schema)
    });
    let wanted = if copied {
        held.or(store)
    } else {
        store.or(held)
    };
    Place {
        // Data does not move: what was recorded stays, and the report says so where another is asked for.
        store: recorded().or(wanted),
        // Fixed when it was made, also where it was left out then.
        schema: match live {
            Some(live) => live.spec.data_store_schema.clone(),
            None => asked(&settings.data_store_schema),
        },
        user: match live {
            Some(live) => live.spec.data_store_username.clone(),
            None => asked(&settings.data_store_username),
        },
    }
}

/// Annotations of the control plane go along, but not those that others keep about the object itself.
fn annotations(plane: &StewardControlPlane) -> BTreeMap<String, String> {
    let travels = |key: &str| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let of_cluster_api = domain == GROUP || domain.ends_with(&format!(".{GROUP}"));
        !of_cluster_api && ![LAST_APPLIED, PLAN_HASH, names::WORKED_ON_FOR].contains(&key)
    };
    let held = plane.annotations().iter().filter(|(key, _)| travels(key));
    held.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn kubernetes(settings: &ControlPlaneSettings, version: &str) -> Kubernetes {
    let version = if version.starts_with('v') {
        version.to_owned()
    } else {
        format!("v{version}")
    };
    Kubernetes {
        version,
        kubelet: settings.kubelet.clone(),
        admission_controllers: settings.admission_controllers.clone(),
        audit: settings.audit.clone(),
        authentication: settings.authentication.clone(),
        certificates: settings.certificates.clone(),
        encryption: settings.encryption.clone(),
    }
}

fn deployment(settings: &ControlPlaneSettings, replicas: i32) -> Deployment {
    let defaults = Deployment::default();
    let (api_server, manager, scheduler) = (
        settings.api_server.clone().unwrap_or_default(),
        settings.controller_manager.clone().unwrap_or_default(),
        settings.scheduler.clone().unwrap_or_default(),
    );
    let pods = settings.deployment.clone().unwrap_or_default();
    Deployment {
        registry_settings: registry(&settings.registry, &api_server, &manager, &scheduler),
        replicas,
        node_selector: pods.node_selector,
        runtime_class_name: pods.runtime_class_name,
        priority_class_name: pods.priority_class_name,
        tolerations: pods.tolerations,
        affinity: pods.affinity,
        topology_spread_constraints: pods.topology_spread_constraints,
        service_account_name: pods
            .service_account_name
            .unwrap_or(defaults.service_account_name),
        strategy: pods.strategy,
        resources: resources(settings, &api_server, &manager, &scheduler),
        extra_args: extra_args(settings, &api_server, &manager, &scheduler),
        additional_metadata: pods.additional_metadata,
        pod_additional_metadata: pods.pod_additional_metadata,
        additional_init_containers: pods.extra_init_containers,
        additional_containers: pods.extra_containers,
        additional_volumes: pods.extra_volumes,
        additional_volume_mounts: some(ExtraVolumeMounts {
            api_server: api_server.extra_volume_mounts,
            controller_manager: manager.extra_volume_mounts,
            scheduler: scheduler.extra_volume_mounts,
        }),
    }
}

fn registry(
    registry: &str,
    api_server: &Component,
    manager: &Component,
    scheduler: &Component,
) -> RegistrySettings {
    let defaults = RegistrySettings::default();
    let image = |component: &Component, default| {
        let chosen = component.container_image_name.clone();
        chosen.unwrap_or(default)
    };
    RegistrySettings {
        registry: registry.to_owned(),
        tag_suffix: None,
        api_server_image: image(api_server, defaults.api_server_image),
        controller_manager_image: image(manager, defaults.controller_manager_image),
        scheduler_image: image(scheduler, defaults.scheduler_image),
    }
}

fn resources(
    settings: &ControlPlaneSettings,
    api_server: &Component,
    manager: &Component,
    scheduler: &Component,
) -> Option<ComponentResources> {
    some(ComponentResources {
        api_server: api_server.resources.clone(),
        controller_manager: manager.resources.clone(),
        scheduler: scheduler.resources.clone(),
        kine: settings.kine.clone().and_then(|kine| kine.resources),
    })
}

fn extra_args(
    settings: &ControlPlaneSettings,
    api_server: &Component,
    manager: &Component,
    scheduler: &Component,
) -> Option<ExtraArgs> {
    some(ExtraArgs {
        api_server: api_server.extra_args.clone(),
        controller_manager: manager.extra_args.clone(),
        scheduler: scheduler.extra_args.clone(),
        kine: settings.kine.clone().unwrap_or_default().extra_args,
    })
}

fn service(network: &Network) -> Service {
    Service {
        service_type: network.service_type,
        additional_metadata: metadata(&network.service_labels, &network.service_annotations),
        additional_ports: Vec::new(),
    }
}

fn ingress(wanted: &network::Ingress) -> Ingress {
    Ingress {
        additional_metadata: metadata(&wanted.extra_labels, &wanted.extra_annotations),
        ingress_class_name: wanted.class_name.clone(),
        hostname: wanted.hostname.clone(),
        controller_type: wanted.controller_type,
    }
}

fn gateway(wanted: &network::Gateway) -> Gateway {
    Gateway {
        additional_metadata: metadata(&wanted.extra_labels, &wanted.extra_annotations),
        parent_refs: wanted.parent_refs.clone(),
        hostname: wanted.hostname.clone(),
    }
}

fn network_profile(settings: &ControlPlaneSettings, cluster: &ClusterNetwork) -> NetworkProfile {
    let defaults = NetworkProfile::default();
    let network = &settings.network;
    let balancer = network.load_balancer_config.clone().unwrap_or_default();
    let first = |blocks: &[String], default| blocks.first().cloned().unwrap_or(default);
    NetworkProfile {
        address: network
            .service_address
            .clone()
            .filter(|held| !held.is_empty()),
        allow_address_as_external_ip: false,
        port: cluster.api_server_port.unwrap_or(defaults.port),
        cert_sans: cert_sans(network),
        service_cidr: first(&cluster.services.cidr_blocks, defaults.service_cidr),
        pod_cidr: first(&cluster.pods.cidr_blocks, defaults.pod_cidr),
        dns_service_ips: dns_service_ips(settings),
        cluster_domain: cluster
            .service_domain
            .clone()
            .filter(|domain| !domain.is_empty())
            .unwrap_or(defaults.cluster_domain),
        load_balancer_source_ranges: balancer.load_balancer_source_ranges,
        load_balancer_class: balancer.load_balancer_class,
    }
}

/// The names that were asked for, and the one that clients use to come in.
fn cert_sans(network: &Network) -> Vec<String> {
    let ingress = network.ingress.as_ref().map(|ingress| &ingress.hostname);
    let gateway = network.gateway.as_ref().map(|gateway| &gateway.hostname);
    let mut names = network.cert_sans.clone();
    for host in ingress.into_iter().chain(gateway) {
        let host = host.split_once(':').map_or(host.as_str(), |(host, _)| host);
        if !names.iter().any(|held| held == host) {
            names.push(host.to_owned());
        }
    }
    names
}

fn dns_service_ips(settings: &ControlPlaneSettings) -> Vec<String> {
    let core_dns = settings
        .addons
        .as_ref()
        .and_then(|addons| addons.core_dns.as_ref());
    let own = core_dns.map(|core_dns| &core_dns.dns_service_ips);
    own.filter(|own| !own.is_empty())
        .unwrap_or(&settings.network.dns_service_ips)
        .clone()
}

fn addons(wanted: &settings::Addons) -> Addons {
    Addons {
        core_dns: wanted.core_dns.as_ref().map(|core_dns| ImageOverride {
            image_repository: core_dns.image_repository.clone(),
            image_tag: core_dns.image_tag.clone(),
        }),
        kube_proxy: wanted.kube_proxy.clone(),
        konnectivity: wanted.konnectivity.clone(),
        tcp_proxy: wanted.tcp_proxy.clone(),
        worker_bootstrap: wanted.worker_bootstrap.clone(),
    }
}

fn metadata(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Option<ExtraMetadata> {
    some(ExtraMetadata {
        labels: labels.clone(),
        annotations: annotations.clone(),
    })
}

/// A block that says nothing is left out.
fn some<T: Default + PartialEq>(block: T) -> Option<T> {
    (block != T::default()).then_some(block)
}

#[cfg(test)]
mod tests;
