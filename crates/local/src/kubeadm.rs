//! What kubeadm is told about the management cluster. Pure.

use butler_machine::runtime::eviction_thresholds;
use serde_json::{Value, json};

use crate::{
    audit,
    settings::{MANAGEMENT, Settings},
};

/// The documents of `kubeadm init`.
pub(crate) fn init(settings: &Settings, etcd: &str, core_dns: &str) -> String {
    let address = settings.management();
    let endpoint = format!("{address}:6443");
    let documents = [
        json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "InitConfiguration",
            "localAPIEndpoint": { "advertiseAddress": address, "bindPort": 6443 },
            "nodeRegistration": {
                "name": MANAGEMENT,
                "criSocket": "unix:///run/containerd/containerd.sock",
                "taints": [],
            },
            // Four minutes are the default; a busy machine with a slow disk needs more to unpack the images.
            "timeouts": { "controlPlaneComponentHealthCheck": "8m0s" },
        }),
        json!({
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "ClusterConfiguration",
            "clusterName": "butler",
            "kubernetesVersion": settings.kubernetes,
            "controlPlaneEndpoint": endpoint,
            "networking": {
                "podSubnet": settings.pods,
                "serviceSubnet": settings.services,
            },
            "apiServer": {
                "certSANs": ["127.0.0.1"],
                "extraArgs": arguments(&[
                    ("audit-policy-file", audit::POLICY),
                    ("audit-log-path", audit::LOG),
                    ("audit-log-maxsize", "16"),
                    ("audit-log-maxbackup", "2"),
                ]),
                "extraVolumes": [
                    {
                        "name": "audit-policy", "hostPath": audit::POLICY, "mountPath": audit::POLICY,
                        "readOnly": true, "pathType": "File",
                    },
                    {
                        "name": "audit-log", "hostPath": audit::FOLDER, "mountPath": audit::FOLDER,
                        "pathType": "DirectoryOrCreate",
                    },
                ],
                // Twice the live memory is kept otherwise, and the definitions of Cluster API and Butler are much of it.
                "extraEnvs": [{ "name": "GOGC", "value": "50" }],
            },
            // One replica has nobody to elect, and would wait for its own lease after a crash.
            "controllerManager": { "extraArgs": arguments(&[("leader-elect", "false")]) },
            "scheduler": { "extraArgs": arguments(&[("leader-elect", "false")]) },
            "etcd": { "local": { "imageTag": etcd } },
            "dns": { "imageTag": core_dns },
        }),
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": false,
            "failSwapOn": false,
            "imageGCHighThresholdPercent": 100,
            "serializeImagePulls": false,
            "maxParallelImagePulls": 4,
            "evictionHard": eviction_thresholds(),
        }),
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            // The kernel allows that setting in the host's namespace only.
            "conntrack": { "maxPerCore": 0 },
        }),
    ];
    let texts = documents.map(|it| it.to_string());
    texts.join("\n---\n")
}

fn arguments(pairs: &[(&str, &str)]) -> Vec<Value> {
    let argument = |(name, value): &(&str, &str)| json!({ "name": name, "value": value });
    pairs.iter().map(argument).collect()
}
