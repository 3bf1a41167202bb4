//! The status of a control plane, from what was observed and done. Pure.

use std::sync::Arc;

use butler_api::steward::{
    TenantControlPlane,
    data_store::StorageUsage,
    tenant_control_plane::{
        TenantControlPlaneStatus,
        addons_status::{AddonStatus, AddonsStatus, KonnectivityStatus},
        status::{
            CertificatesStatus, DeploymentStatus, KubeconfigsStatus, KubernetesResources,
            LoadBalancerAddress, LoadBalancerStatus, SecretStatus, ServiceStatus, State,
            StorageSetup, StorageStatus, VersionStatus,
        },
    },
};
use butler_pki::{Contents, SecretKind};
use butler_runtime::conditions::Verdict;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::ResourceExt;

use crate::{names, spec::ControlPlane, store};

/// What a pass learned; what it did not reach stays as it was reported.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) store: Option<(String, store::Identity)>,
    /// What the tenant holds there, where something else was reported.
    pub(super) usage: Option<StorageUsage>,
    pub(super) endpoint: Option<String>,
    pub(super) contents: Option<Arc<Contents>>,
    pub(super) service: Option<Arc<Service>>,
    pub(super) deployment: Option<Arc<Deployment>>,
    pub(super) state: Option<State>,
    pub(super) installed: Option<String>,
    /// What the spec asks for stands in the tenant cluster.
    pub(super) furnished: bool,
}

/// What the spec asks for and gets only later: it is accepted, because platforms set it, and said.
pub(super) fn left_out(raw: &TenantControlPlane) -> Option<Verdict> {
    let addons = raw.spec.addons.as_ref()?;
    addons.worker_bootstrap.as_ref()?;
    let message = "spec.addons.workerBootstrap is kept for later: no trust service runs yet, so nodes that need one cannot join by it";
    Some(Verdict::no("WorkerBootstrapReady", "NotSupported", message))
}

/// The next status, without its conditions.
pub(super) fn status(
    held: &TenantControlPlaneStatus,
    spec: &ControlPlane,
    facts: Facts,
) -> TenantControlPlaneStatus {
    let Facts {
        store,
        usage,
        endpoint,
        contents,
        service,
        deployment,
        state,
        installed,
        furnished,
    } = facts;
    let name = &spec.identity.name;
    let before = held.kubernetes_resources.clone().unwrap_or_default();
    let resources = KubernetesResources {
        version: Some(version(before.version.as_ref(), state, installed)),
        deployment: deployment
            .map(|live| deployment_status(name, &live))
            .or(before.deployment),
        service: service
            .map(|live| service_status(spec, &live))
            .or(before.service),
    };
    let addons = furnished.then(|| addons(spec, contents.as_deref()));
    TenantControlPlaneStatus {
        addons: addons.or_else(|| held.addons.clone()),
        storage: store
            .map(|(store, identity)| {
                let certificate = contents.as_deref();
                let certificate =
                    certificate.and_then(|all| secret(name, all, SecretKind::DataStore));
                storage(held.storage.as_ref(), store, &identity, usage, certificate)
            })
            .or_else(|| held.storage.clone()),
        certificates: contents
            .as_deref()
            .map(|contents| certificates(name, contents))
            .or_else(|| held.certificates.clone()),
        kubeconfig: contents
            .as_deref()
            .map(|contents| kubeconfigs(name, contents))
            .or_else(|| held.kubeconfig.clone()),
        kubernetes_resources: Some(resources),
        control_plane_endpoint: endpoint.or_else(|| held.control_plane_endpoint.clone()),
        observed_generation: spec.identity.generation,
        conditions: held.conditions.clone(),
    }
}

fn version(
    before: Option<&VersionStatus>,
    state: Option<State>,
    installed: Option<String>,
) -> VersionStatus {
    let before = before.cloned().unwrap_or_default();
    VersionStatus {
        version: installed.or(before.version),
        status: state.or(before.status),
    }
}

fn storage(
    before: Option<&StorageStatus>,
    name: String,
    identity: &store::Identity,
    usage: Option<StorageUsage>,
    certificate: Option<SecretStatus>,
) -> StorageStatus {
    let before = before.filter(|before| before.data_store_name.as_ref() == Some(&name));
    StorageStatus {
        usage: usage.or_else(|| before.and_then(|before| before.usage.clone())),
        certificate: certificate.or_else(|| before.and_then(|before| before.certificate.clone())),
        driver: Some("etcd".to_owned()),
        data_store_name: Some(name),
        setup: Some(StorageSetup {
            schema: Some(identity.schema().to_owned()),
            user: Some(identity.user().to_owned()),
            checksum: Some(identity.checksum()),
        }),
    }
}

/// What the tenant cluster has been given.
fn addons(spec: &ControlPlane, contents: Option<&Contents>) -> AddonsStatus {
    let addon = |enabled| Some(AddonStatus { enabled });
    let tunnel = spec.konnectivity.is_some();
    let kubeconfig = contents.filter(|_| tunnel).and_then(|contents| {
        secret(
            &spec.identity.name,
            contents,
            SecretKind::KonnectivityKubeconfig,
        )
    });
    AddonsStatus {
        core_dns: addon(spec.addons.core_dns.is_some()),
        kube_proxy: addon(spec.addons.kube_proxy.is_some()),
        konnectivity: Some(KonnectivityStatus {
            enabled: tunnel,
            kubeconfig,
        }),
    }
}

fn secret(name: &str, contents: &Contents, kind: SecretKind) -> Option<SecretStatus> {
    let content = contents.get(&kind)?;
    Some(SecretStatus {
        secret_name: Some(kind.name(name)),
        checksum: Some(content.checksum()),
    })
}

fn certificates(name: &str, contents: &Contents) -> CertificatesStatus {
    CertificatesStatus {
        ca: secret(name, contents, SecretKind::Ca),
        api_server: secret(name, contents, SecretKind::ApiServer),
        api_server_kubelet_client: secret(name, contents, SecretKind::KubeletClient),
        front_proxy_ca: secret(name, contents, SecretKind::FrontProxyCa),
        front_proxy_client: secret(name, contents, SecretKind::FrontProxyClient),
        sa: secret(name, contents, SecretKind::ServiceAccount),
    }
}

fn kubeconfigs(name: &str, contents: &Contents) -> KubeconfigsStatus {
    KubeconfigsStatus {
        admin: secret(name, contents, SecretKind::AdminKubeconfig),
        controller_manager: secret(name, contents, SecretKind::ControllerManagerKubeconfig),
        scheduler: secret(name, contents, SecretKind::SchedulerKubeconfig),
    }
}

fn deployment_status(name: &str, live: &Deployment) -> DeploymentStatus {
    let status = live.status.clone().unwrap_or_default();
    let selector = names::selector(name);
    let selector: Vec<String> = selector
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    DeploymentStatus {
        name: Some(live.name_any()),
        namespace: live.namespace(),
        selector: Some(selector.join(",")),
        observed_generation: status.observed_generation,
        replicas: status.replicas,
        updated_replicas: status.updated_replicas,
        ready_replicas: status.ready_replicas,
        available_replicas: status.available_replicas,
        unavailable_replicas: status.unavailable_replicas,
    }
}

fn service_status(spec: &ControlPlane, live: &Service) -> ServiceStatus {
    let balancer = live
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref());
    ServiceStatus {
        name: Some(live.name_any()),
        namespace: live.namespace(),
        port: Some(spec.network.port.into()),
        load_balancer: ingress.map(|items| LoadBalancerStatus {
            ingress: items
                .iter()
                .map(|item| LoadBalancerAddress {
                    ip: item.ip.clone(),
                    hostname: item.hostname.clone(),
                })
                .collect(),
        }),
    }
}
