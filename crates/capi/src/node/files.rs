//! Files and scripts that machines with containerd and kubeadm share, whatever wraps them.

use std::fmt::Write as _;

use super::Context;
use crate::spec::{Mirror, Proxy};

/// A file on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) mode: u16,
    pub(super) content: String,
}

impl File {
    pub(super) fn new(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            mode: 0o644,
            content: content.into(),
        }
    }

    pub(super) fn executable(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            mode: 0o755,
            ..Self::new(path, content)
        }
    }
}

/// What the kernel of a node has to do: forward packets, and show bridged ones to its filter.
const SYSCTL: &str = "net.bridge.bridge-nf-call-iptables = 1
net.bridge.bridge-nf-call-ip6tables = 1
net.ipv4.ip_forward = 1
net.ipv6.conf.all.forwarding = 1
";

const MODULES: &str = "overlay\nbr_netfilter\n";

/// Kernel settings, mirrors and proxy.
pub(super) fn common(context: &Context<'_>) -> Vec<File> {
    let nodes = &context.spec.nodes;
    let mut files = vec![
        File::new("/etc/modules-load.d/kubernetes.conf", MODULES),
        File::new("/etc/sysctl.d/90-kubernetes.conf", SYSCTL),
    ];
    files.extend(nodes.mirrors.iter().map(mirror));
    if let Some(proxy) = &nodes.proxy {
        let unit = format!("[Service]\n{}", environment(proxy));
        for service in ["containerd", "kubelet"] {
            let path = format!("/etc/systemd/system/{service}.service.d/http-proxy.conf");
            files.push(File::new(path, unit.clone()));
        }
    }
    files
}

/// Authorities as files in the folder where the system looks for them.
pub(super) fn authorities(context: &Context<'_>, folder: &str, ending: &str) -> Vec<File> {
    let authorities = context.spec.nodes.authorities.iter().enumerate();
    authorities
        .map(|(index, pem)| {
            let path = format!("{folder}/butler-{index}.{ending}");
            File::new(path, format!("{}\n", pem.trim_end()))
        })
        .collect()
}

/// Whom containerd asks for the images of one registry.
fn mirror(mirror: &Mirror) -> File {
    let upstream = match mirror.registry.as_str() {
        "docker.io" => "https://registry-1.docker.io".to_owned(),
        other => format!("https://{other}"),
    };
    let mut content = format!("server = \"{upstream}\"\n");
    for endpoint in &mirror.endpoints {
        write!(
            content,
            "\n[host.\"{endpoint}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
        )
        .expect("writing to a String never fails");
    }
    let path = format!("/etc/containerd/certs.d/{}/hosts.toml", mirror.registry);
    File::new(path, content)
}

/// The proxy as lines of a systemd unit.
fn environment(proxy: &Proxy) -> String {
    let mut lines = String::new();
    for (name, value) in variables(proxy) {
        // systemd expands percent signs, which passwords in addresses are full of.
        let value = value.replace('%', "%%");
        writeln!(lines, "Environment=\"{name}={value}\"").expect("writing to a String never fails");
    }
    lines
}

/// The proxy as variables.
pub(super) fn variables(proxy: &Proxy) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    variables.extend(proxy.http.clone().map(|address| ("HTTP_PROXY", address)));
    variables.extend(proxy.https.clone().map(|address| ("HTTPS_PROXY", address)));
    variables.push(("NO_PROXY", proxy.no_proxy.join(",")));
    variables
}

/// How containerd is told to look for mirrors and to leave cgroups to systemd, by either format of its file.
pub(super) const CONTAINERD: &str = r"mkdir -p /etc/containerd
containerd config default > /etc/containerd/config.toml
sed -i 's/SystemdCgroup = false/SystemdCgroup = true/' /etc/containerd/config.toml
sed -i 's|config_path = .*|config_path = \x27/etc/containerd/certs.d\x27|' /etc/containerd/config.toml
";
