//! `kubeadm-config`: what `kubeadm join` and `kubeadm upgrade node` read about the cluster.

use serde_json::{Value, json};

use super::{Kind, SYSTEM, TenantObject, rbac, yaml};
use crate::tenant::settings::{AddonImage, TenantSettings};

const NAME: &str = "kubeadm-config";

pub(super) fn objects(settings: &TenantSettings) -> Vec<TenantObject> {
    let configuration = yaml(&cluster_configuration(settings));
    let config_map = TenantObject::system(Kind::ConfigMap, NAME)
        .with("data", json!({ "ClusterConfiguration": configuration }));
    let readers = [rbac::group(rbac::NODE_TOKENS), rbac::group(rbac::NODES)];
    let mut objects = vec![config_map];
    objects.extend(rbac::reader_of_config_map(
        SYSTEM,
        "kubeadm:nodes-kubeadm-config",
        NAME,
        &readers,
    ));
    objects
}

/// Only what is true of a hosted control plane: periods and algorithms of certificates are left to kubeadm's defaults,
/// which no worker uses, and the store behind the API server is none of the tenant's business.
fn cluster_configuration(settings: &TenantSettings) -> Value {
    json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "clusterName": settings.cluster_name,
        "kubernetesVersion": settings.version,
        "controlPlaneEndpoint": settings.endpoint.to_string(),
        "certificatesDir": "/etc/kubernetes/pki",
        "imageRepository": settings.registry,
        "networking": {
            "dnsDomain": settings.cluster_domain,
            "podSubnet": settings.pod_cidr,
            "serviceSubnet": settings.service_cidr,
        },
        "dns": dns(settings.core_dns.as_ref()),
        "proxy": if settings.kube_proxy.is_some() { json!({}) } else { json!({ "disabled": true }) },
        "etcd": { "local": { "dataDir": "/var/lib/etcd" } },
        "apiServer": {},
        "controllerManager": {},
        "scheduler": {},
    })
}

fn dns(addon: Option<&AddonImage>) -> Value {
    let Some(AddonImage { repository, tag }) = addon else {
        return json!({ "disabled": true });
    };
    let fields = [("imageRepository", repository), ("imageTag", tag)];
    fields
        .into_iter()
        .filter_map(|(field, value)| Some((field.to_owned(), Value::from(value.clone()?))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
