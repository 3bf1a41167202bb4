//! What a machine needs to become a node: the published endpoint, and what bootstrap tokens and nodes may do.
//!
//! Tokens themselves are made by whoever adds machines; none is made here.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::{Kind, PUBLIC, TenantObject, rbac, yaml};
use crate::tenant::settings::TenantSettings;

const CLUSTER_INFO: &str = "cluster-info";

pub(super) fn objects(settings: &TenantSettings) -> Vec<TenantObject> {
    let mut objects = permissions();
    objects.push(cluster_info(settings));
    let everybody = [rbac::user("system:anonymous")];
    let name = "kubeadm:bootstrap-signer-clusterinfo";
    objects.extend(rbac::reader_of_config_map(
        PUBLIC,
        name,
        CLUSTER_INFO,
        &everybody,
    ));
    objects
}

fn permissions() -> Vec<TenantObject> {
    let tokens = [rbac::group(rbac::NODE_TOKENS)];
    let nodes = [rbac::group(rbac::NODES)];
    let rule = json!({ "apiGroups": [""], "resources": ["nodes"], "verbs": ["get"] });
    vec![
        // A machine that comes back under the name of a living node is refused by kubeadm, which has to look.
        TenantObject::new(Kind::ClusterRole, None, "kubeadm:get-nodes")
            .with("rules", json!([rule])),
        rbac::cluster_binding("kubeadm:get-nodes", "kubeadm:get-nodes", &tokens),
        rbac::cluster_binding(
            "kubeadm:kubelet-bootstrap",
            "system:node-bootstrapper",
            &tokens,
        ),
        rbac::cluster_binding(
            "kubeadm:node-autoapprove-bootstrap",
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            &tokens,
        ),
        rbac::cluster_binding(
            "kubeadm:node-autoapprove-certificate-rotation",
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            &nodes,
        ),
        rbac::cluster_binding(
            "kubeadm:cluster-admins",
            "cluster-admin",
            &[rbac::group("kubeadm:cluster-admins")],
        ),
        // The API server asks kubelets for logs under this name, and needs no more than that.
        rbac::cluster_binding(
            "kubeadm:apiserver-kubelet-client",
            "system:kubelet-api-admin",
            &[rbac::user("kube-apiserver-kubelet-client")],
        ),
    ]
}

/// Only the kubeconfig is ours: the tenant's bootstrap signer keeps its signatures in keys beside it.
fn cluster_info(settings: &TenantSettings) -> TenantObject {
    TenantObject::new(Kind::ConfigMap, Some(PUBLIC), CLUSTER_INFO)
        .with("data", json!({ "kubeconfig": yaml(&kubeconfig(settings)) }))
}

/// kubeadm takes the cluster of the current context, or else the one without a name.
fn kubeconfig(settings: &TenantSettings) -> Value {
    let authority = ByteString(settings.ca_certificate.clone().into_bytes());
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "", "cluster": {
            "certificate-authority-data": authority,
            "server": format!("https://{}", settings.endpoint),
        }}],
        "contexts": null,
        "current-context": "",
        "users": null,
    })
}
