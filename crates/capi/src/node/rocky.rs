//! Rocky Linux 9: a template of the kubeadm bootstrap provider.
//!
//! Packages are installed in exactly the cluster's version, and only if the image does not already have them: an
//! image with everything in it needs no repository. `SELinux` stays on.

use super::{
    Context,
    files::{self, CONTAINERD, File},
    join,
};
use crate::core::{self, Join, KubeadmSpec, Named, NodeRegistration, Ntp, Taint, User};

/// Where the script is put.
const PREPARE: &str = "/etc/butler/prepare.sh";

pub(super) fn spec(context: &Context<'_>) -> KubeadmSpec {
    let pool = context.pool;
    let registration = NodeRegistration {
        name: context.spec.infrastructure.node_name().map(str::to_owned),
        image_pull_policy: "IfNotPresent",
        kubelet_extra_args: args(context),
        taints: pool
            .taints
            .iter()
            .map(|taint| Taint {
                key: taint.key.clone(),
                value: taint.value.clone(),
                effect: taint.effect.as_str(),
            })
            .collect(),
        ignore_preflight_errors: context.spec.infrastructure.tolerated_checks(),
    };
    let join_configuration = Join {
        node_registration: registration,
    };
    // Local machines come with everything, and their agent plays the part of the system's services.
    if context.spec.infrastructure.is_prepared() {
        return KubeadmSpec {
            join_configuration,
            files: mirrors(context),
            ..KubeadmSpec::default()
        };
    }
    let mut written = files::common(context);
    written.extend(files::authorities(
        context,
        "/etc/pki/ca-trust/source/anchors",
        "pem",
    ));
    written.push(File::executable(PREPARE, script(context)));
    KubeadmSpec {
        join_configuration,
        files: written.into_iter().map(file).collect(),
        pre_kubeadm_commands: vec![PREPARE.to_owned()],
        users: users(context),
        ntp: Some(Ntp {
            enabled: true,
            servers: context.spec.nodes.time_servers.clone(),
        }),
    }
}

/// A machine that comes prepared still has to be told where images are.
fn mirrors(context: &Context<'_>) -> Vec<core::File> {
    let common = files::common(context).into_iter();
    common
        .filter(|file| file.path.starts_with("/etc/containerd/"))
        .map(file)
        .collect()
}

fn args(context: &Context<'_>) -> Vec<Named> {
    let mut args = join::kubelet_args(context);
    let provider_id = context.spec.infrastructure.provider_id();
    args.extend(provider_id.map(|id| ("provider-id".to_owned(), id.to_owned())));
    args.sort();
    args.into_iter()
        .map(|(name, value)| Named { name, value })
        .collect()
}

fn file(file: File) -> core::File {
    core::File {
        path: file.path,
        permissions: format!("{:04o}", file.mode),
        owner: "root:root",
        content: file.content,
    }
}

fn users(context: &Context<'_>) -> Vec<User> {
    let mut keys = context.spec.nodes.ssh_keys.clone();
    keys.extend(context.pool.ssh_key.clone());
    if keys.is_empty() {
        return Vec::new();
    }
    vec![User {
        name: "rocky",
        sudo: "ALL=(ALL) NOPASSWD:ALL",
        ssh_authorized_keys: keys,
    }]
}

/// Brings a plain image to where `kubeadm join` works.
fn script(context: &Context<'_>) -> String {
    let version = context.version;
    let (major, minor, patch) = (version.major(), version.minor(), version.patch());
    let number = format!("{major}.{minor}.{patch}");
    format!(
        r#"#!/bin/bash
# Prepares this machine for kubeadm join. It may run again at any time.
set -euo pipefail

update-ca-trust
modprobe overlay
modprobe br_netfilter
sysctl --system > /dev/null
swapoff -a
sed -i '/\sswap\s/s/^/#/' /etc/fstab
systemctl disable --now firewalld 2> /dev/null || true

if ! command -v containerd > /dev/null; then
    cat > /etc/yum.repos.d/docker-ce.repo <<'EOF'
[docker-ce-stable]
name=Docker CE
baseurl=https://download.docker.com/linux/rhel/9/$basearch/stable
enabled=1
gpgcheck=1
gpgkey=https://download.docker.com/linux/rhel/gpg
EOF
    dnf install -y containerd.io
fi
{CONTAINERD}systemctl daemon-reload
systemctl enable containerd
systemctl restart containerd

if [ "$(kubelet --version 2> /dev/null)" != "Kubernetes {version}" ] || ! command -v kubeadm > /dev/null; then
    cat > /etc/yum.repos.d/kubernetes.repo <<'EOF'
[kubernetes]
name=Kubernetes
baseurl=https://pkgs.k8s.io/core:/stable:/v{major}.{minor}/rpm/
enabled=1
gpgcheck=1
gpgkey=https://pkgs.k8s.io/core:/stable:/v{major}.{minor}/rpm/repodata/repomd.xml.key
EOF
    dnf install -y kubelet-{number} kubeadm-{number} kubectl-{number}
fi
systemctl enable kubelet

# Volumes of Longhorn are iSCSI, shared ones NFS.
rpm -q iscsi-initiator-utils nfs-utils > /dev/null || dnf install -y iscsi-initiator-utils nfs-utils
systemctl enable --now iscsid
"#
    )
}
