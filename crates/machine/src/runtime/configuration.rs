//! The files of a machine that depend on what it is made from. Pure.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Cgroups, MachineSpec};

/// Where the kubelet looks for settings that go before the cluster's own.
pub(crate) const KUBELET_DROP_INS: &str = "/etc/kubernetes/kubelet.conf.d";
/// Where the container runtime listens.
pub(crate) const RUNTIME_SOCKET: &str = "/run/containerd/containerd.sock";

/// Paths and contents; written at every start.
pub(crate) fn files(spec: &MachineSpec, cgroups: &Cgroups) -> Vec<(String, String)> {
    let MachineSpec {
        hostname, address, ..
    } = spec;
    let nameservers = spec.nameservers.iter().map(|it| format!("nameserver {it}"));
    let mut files = vec![
        ("/etc/hostname".to_owned(), format!("{hostname}\n")),
        (
            "/etc/hosts".to_owned(),
            format!("127.0.0.1 localhost\n::1 localhost\n{address} {hostname}\n"),
        ),
        ("/etc/resolv.conf".to_owned(), lines(nameservers)),
        (
            "/etc/containerd/config.toml".to_owned(),
            containerd(&spec.sandbox_image),
        ),
        ("/etc/containerd/cni.tmpl".to_owned(), cni()),
        (
            format!("{KUBELET_DROP_INS}/10-platform.conf"),
            kubelet(spec, cgroups),
        ),
    ];
    for mirror in &spec.mirrors {
        let folder = format!("/etc/containerd/certs.d/{}", mirror.registry);
        let url = &mirror.url;
        let mut hosts = format!(
            "server = \"{url}\"\n[host.\"{url}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
        );
        if let Some(authority) = &mirror.authority {
            let _ = writeln!(hosts, "  ca = \"{folder}/ca.crt\"");
            files.push((format!("{folder}/ca.crt"), authority.clone()));
        }
        files.push((format!("{folder}/hosts.toml"), hosts));
    }
    files
}

/// The second version of the file is read by containerd 1 and 2 alike.
fn containerd(sandbox_image: &str) -> String {
    format!(
        r#"version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox_image}"
  # Hosts that are containers themselves may not lower a score, and every sandbox would fail.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
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

/// A network for pods without an agent: containerd fills in the range that the cluster gives the Node. A cluster that
/// brings a network of its own puts its file into `/etc/cni/net.d` under an earlier name.
fn cni() -> String {
    let conflist = json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    // Addresses of pods must not outlive the pods: they would leak with every restart.
                    "dataDir": "/run/cni/ipam",
                    "ranges": [[{"subnet": "{{.PodCIDR}}"}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
        ],
    });
    format!("{conflist:#}\n")
}

/// When a kubelet ends pods for want of room. The disk is the host's: how full it is in hundredths says nothing about
/// this machine, and on a large disk one hundredth is several GiB that others may well have used.
pub fn eviction_thresholds() -> Value {
    json!({
        "memory.available": "50Mi",
        "nodefs.available": "100Mi",
        "nodefs.inodesFree": "1%",
        "imagefs.available": "100Mi",
    })
}

/// What a kubelet has to know of the host it shares, whatever its cluster says.
fn kubelet(spec: &MachineSpec, cgroups: &Cgroups) -> String {
    let mut settings = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "providerID": spec.provider_id,
        "containerRuntimeEndpoint": format!("unix://{RUNTIME_SOCKET}"),
        "cgroupDriver": "cgroupfs",
        "failSwapOn": false,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": eviction_thresholds(),
    });
    // Older kubelets do not know the setting, newer ones refuse to start without it.
    if let Cgroups::V1(_) = cgroups
        && let Some(settings) = settings.as_object_mut()
    {
        settings.insert("failCgroupV1".to_owned(), false.into());
    }
    format!("{settings:#}\n")
}

/// The accounts of a machine: those of the host's system, and none of its people.
pub(crate) fn system_accounts(host: &str) -> String {
    let system = |line: &&str| {
        let id: Option<u32> = line.split(':').nth(2).and_then(|id| id.parse().ok());
        id.is_some_and(|id| id < 1000 || id == 65534)
    };
    lines(host.lines().filter(system))
}

/// Text of lines, each with its end.
pub(crate) fn lines<T: AsRef<str>>(lines: impl Iterator<Item = T>) -> String {
    lines.fold(String::new(), |text, line| text + line.as_ref() + "\n")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::runtime::{Mirror, Programs};

    pub(crate) fn spec() -> MachineSpec {
        MachineSpec {
            id: "m".parse().unwrap(),
            hostname: "worker".to_owned(),
            provider_id: "local://team/worker".to_owned(),
            network_namespace: "/proc/1/ns/net".into(),
            address: Ipv4Addr::new(10, 40, 0, 7).into(),
            nameservers: vec![Ipv4Addr::new(10, 40, 0, 254).into()],
            cpu_milli: None,
            memory_bytes: Some(1 << 30),
            programs: Programs {
                kubernetes: "/k".into(),
                containerd: "/c".into(),
                cni: "/n".into(),
                extra: vec!["/x".into()],
            },
            sandbox_image: "registry.k8s.io/pause:3.10.1".to_owned(),
            mirrors: vec![Mirror {
                registry: "_default".to_owned(),
                url: "https://10.40.0.254".to_owned(),
                authority: Some("PEM".to_owned()),
            }],
            image_store: None,
        }
    }

    fn file(path: &str, cgroups: &Cgroups) -> String {
        let mut files = files(&spec(), cgroups).into_iter();
        files
            .find(|(held, _)| held == path)
            .unwrap_or_else(|| panic!("no {path}"))
            .1
    }

    #[test]
    fn a_mirror_with_an_authority_is_trusted_by_it() {
        let cgroups = Cgroups::V2("/sys/fs/cgroup".into());
        let hosts = file("/etc/containerd/certs.d/_default/hosts.toml", &cgroups);
        assert!(hosts.contains("[host.\"https://10.40.0.254\"]"), "{hosts}");
        assert!(
            hosts.contains("ca = \"/etc/containerd/certs.d/_default/ca.crt\""),
            "{hosts}"
        );
        assert_eq!(
            file("/etc/containerd/certs.d/_default/ca.crt", &cgroups),
            "PEM"
        );
    }

    #[test]
    fn the_kubelet_knows_its_id_and_accepts_old_cgroups_only_where_they_are() {
        let path = "/etc/kubernetes/kubelet.conf.d/10-platform.conf";
        let old = file(path, &Cgroups::V1(Vec::new()));
        assert!(
            old.contains("\"providerID\": \"local://team/worker\""),
            "{old}"
        );
        assert!(old.contains("\"failCgroupV1\": false"), "{old}");
        let new = file(path, &Cgroups::V2("/sys/fs/cgroup".into()));
        assert!(!new.contains("failCgroupV1"), "{new}");
    }

    #[test]
    fn people_of_the_host_have_no_account_in_a_machine() {
        let host = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";
        let kept = system_accounts(host);
        assert!(kept.contains("root:") && kept.contains("nobody:"), "{kept}");
        assert!(!kept.contains("ann"), "{kept}");
    }
}
