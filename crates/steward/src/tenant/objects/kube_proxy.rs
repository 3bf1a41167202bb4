//! kube-proxy, which carries the traffic of Services on each node.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Kind, SYSTEM, TenantObject, rbac, yaml};
use crate::tenant::{
    images,
    settings::{AddonImage, TenantSettings},
};

const NAME: &str = "kube-proxy";
const FOLDER: &str = "/var/lib/kube-proxy";
/// Makes pods follow their configuration: kube-proxy reads its kubeconfig only when it starts.
const CONFIG_HASH: &str = "steward.butlerlabs.dev/config-hash";

pub(super) fn objects(settings: &TenantSettings, image: &AddonImage) -> Vec<TenantObject> {
    let image = images::kube_proxy(&settings.registry, settings.version, image);
    let data = json!({
        "config.conf": yaml(&configuration(settings)),
        "kubeconfig.conf": yaml(&kubeconfig(settings)),
    });
    // Machines read it with their token: kubeadm looks at the configuration of every component.
    let readers = [rbac::group(rbac::NODE_TOKENS)];
    let [role, binding] = rbac::reader_of_config_map(SYSTEM, NAME, NAME, &readers);
    vec![
        TenantObject::system(Kind::ServiceAccount, NAME),
        rbac::cluster_binding(
            "kubeadm:node-proxier",
            "system:node-proxier",
            &[rbac::service_account(NAME)],
        ),
        role,
        binding,
        TenantObject::system(Kind::ConfigMap, NAME)
            .label("app", NAME)
            .with("data", data.clone()),
        daemon_set(&image, &data),
    ]
}

/// The mode is left to kube-proxy, which knows the best one of its release.
fn configuration(settings: &TenantSettings) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "bindAddress": if settings.pod_cidr.is_ipv4() { "0.0.0.0" } else { "::" },
        "clientConnection": { "kubeconfig": format!("{FOLDER}/kubeconfig.conf") },
        "clusterCIDR": settings.pod_cidr,
        // The limit is the machine's own: where a machine is a container the kernel refuses to change it, and
        // kube-proxy would end.
        "conntrack": { "maxPerCore": 0 },
    })
}

/// By the public endpoint: the Service of the API server works only once kube-proxy does.
fn kubeconfig(settings: &TenantSettings) -> Value {
    const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "default", "cluster": {
            "certificate-authority": format!("{ACCOUNT}/ca.crt"),
            "server": format!("https://{}", settings.endpoint),
        }}],
        "users": [{ "name": "default", "user": { "tokenFile": format!("{ACCOUNT}/token") } }],
        "contexts": [{ "name": "default", "context": {
            "cluster": "default",
            "namespace": "default",
            "user": "default",
        }}],
        "current-context": "default",
    })
}

fn daemon_set(image: &str, data: &Value) -> TenantObject {
    let labels = json!({ "k8s-app": NAME });
    let metadata = json!({ "labels": labels, "annotations": { CONFIG_HASH: hash(data) } });
    TenantObject::system(Kind::DaemonSet, NAME)
        .label("k8s-app", NAME)
        .with(
            "spec",
            json!({
                "selector": { "matchLabels": labels },
                "updateStrategy": { "type": "RollingUpdate" },
                "template": { "metadata": metadata, "spec": pod(image) },
            }),
        )
}

fn pod(image: &str) -> Value {
    json!({
        "priorityClassName": "system-node-critical",
        "serviceAccountName": NAME,
        "hostNetwork": true,
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "tolerations": [{ "operator": "Exists" }],
        "containers": [{
            "name": NAME,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": [
                "/usr/local/bin/kube-proxy",
                format!("--config={FOLDER}/config.conf"),
                "--hostname-override=$(NODE_NAME)",
            ],
            "env": [{ "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
            "securityContext": { "privileged": true },
            "volumeMounts": [
                { "name": NAME, "mountPath": FOLDER },
                { "name": "xtables-lock", "mountPath": "/run/xtables.lock" },
                { "name": "lib-modules", "mountPath": "/lib/modules", "readOnly": true },
            ],
        }],
        "volumes": [
            { "name": NAME, "configMap": { "name": NAME } },
            { "name": "xtables-lock", "hostPath": { "path": "/run/xtables.lock", "type": "FileOrCreate" } },
            { "name": "lib-modules", "hostPath": { "path": "/lib/modules" } },
        ],
    })
}

fn hash(data: &Value) -> String {
    let digest = Sha256::digest(data.to_string().as_bytes());
    let first = digest.iter().take(8);
    let number = first.fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{number:016x}")
}

#[cfg(test)]
mod tests {
    use super::{super::tests::settings, *};

    #[test]
    fn a_new_endpoint_rolls_the_pods() {
        let hash = |host: &str| {
            let mut settings = settings();
            settings.endpoint.host = host.into();
            let objects = objects(&settings, &AddonImage::default());
            objects[5].body["spec"]["template"]["metadata"]["annotations"][CONFIG_HASH].clone()
        };
        assert_ne!(hash("10.40.0.201"), hash("10.40.0.202"));
        assert_eq!(hash("10.40.0.201"), hash("10.40.0.201"));
    }

    #[test]
    fn the_range_of_pods_is_told() {
        let config = configuration(&settings());
        assert_eq!(config["clusterCIDR"], "10.43.0.0/16");
    }
}
