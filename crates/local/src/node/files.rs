//! What is on the disk of a machine before it starts. Pure.

use serde_json::json;

use super::Node;
use crate::audit;

/// Folders of its root.
pub(super) const FOLDERS: [&str; 18] = [
    "usr",
    "etc/cni/net.d",
    "etc/containerd/certs.d/_default",
    "etc/kubernetes",
    "etc/ssl",
    "var/lib/containerd",
    "var/lib/kubelet",
    "var/log",
    "var/tmp",
    "run",
    "tmp",
    "proc",
    "sys",
    "dev",
    "root",
    "mnt",
    "opt/kubernetes",
    "opt/containerd",
];

/// What it takes from the host's `/etc`, because programs of the host's `/usr` look for it.
pub(super) const COPIES: [&str; 9] = [
    "passwd",
    "group",
    "nsswitch.conf",
    "services",
    "protocols",
    "alternatives",
    "ld.so.cache",
    "ca-certificates",
    "ssl/certs",
];

/// Paths and contents, written at every start.
pub(super) fn files(node: &Node) -> Vec<(&'static str, String)> {
    let Node {
        name,
        address,
        resolver,
        registry,
        pause,
        ..
    } = node;
    vec![
        ("/etc/hostname", format!("{name}\n")),
        (
            "/etc/hosts",
            format!("127.0.0.1 localhost\n{address} {name}\n"),
        ),
        (audit::POLICY, audit::policy()),
        ("/etc/resolv.conf", format!("nameserver {resolver}\n")),
        ("/etc/containerd/config.toml", containerd(pause)),
        ("/etc/containerd/cni.tmpl", cni()),
        (
            "/etc/containerd/certs.d/_default/hosts.toml",
            format!(
                "server = \"{registry}\"\n[host.\"{registry}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
            ),
        ),
    ]
}

fn containerd(pause: &str) -> String {
    format!(
        r#"version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # A host that is a container itself may not lower a score, and every sandbox would fail.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
    conf_template = "/etc/containerd/cni.tmpl"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "/etc/containerd/certs.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"#
    )
}

/// Pods get addresses from the range the cluster gave the node; containerd fills it in.
fn cni() -> String {
    let network = json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge", "bridge": "cni0",
                "isGateway": true, "ipMasq": false, "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    // In memory: addresses must not outlive the pods.
                    "dataDir": "/run/cni/ipam",
                    "ranges": [[{"subnet": "{{.PodCIDR}}"}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
        ],
    });
    network.to_string()
}
