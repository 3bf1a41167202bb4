//! Flatcar Container Linux: Ignition.
//!
//! The system is read-only but for /opt and /etc, so the programs of Kubernetes are put into /opt/bin by a service
//! that runs once, checks what it downloaded, and joins. A machine that has joined never joins again.

use serde_json::{Value, json};

use super::{
    Context, JoinTicket, encoded,
    files::{self, CONTAINERD, File},
    join::{self, JoinError},
};

/// Version of the format; Flatcar's oldest supported release reads it.
const IGNITION: &str = "3.3.0";

const JOIN: &str = "/etc/kubernetes/butler-join.yaml";
const PREPARE: &str = "/opt/butler/prepare.sh";

const KUBELET_UNIT: &str = "[Unit]
Description=Runs the pods of this node
After=containerd.service
Wants=containerd.service

[Service]
Environment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"
Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf\"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/opt/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
";

const JOIN_UNIT: &str = "[Unit]
Description=Makes this machine a node
ConditionPathExists=!/var/lib/kubelet/config.yaml
After=network-online.target containerd.service
Wants=network-online.target containerd.service

[Service]
Type=oneshot
RemainAfterExit=yes
Environment=PATH=/opt/bin:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=/opt/butler/prepare.sh
ExecStart=/opt/bin/kubeadm join --config /etc/kubernetes/butler-join.yaml
Restart=on-failure
RestartSec=15

[Install]
WantedBy=multi-user.target
";

pub(super) fn ignition(context: &Context<'_>, join: &JoinTicket) -> Result<String, JoinError> {
    let mut written = files::common(context);
    written.extend(files::authorities(context, "/etc/ssl/certs", "pem"));
    let mut configuration = File::new(JOIN, join::yaml(&join::configuration(context, join)?)?);
    configuration.mode = 0o600;
    written.push(configuration);
    written.push(File::executable(PREPARE, script(context)));
    let time = context.spec.nodes.time_servers.join(" ");
    written.push(File::new(
        "/etc/systemd/timesyncd.conf.d/butler.conf",
        format!("[Time]\nNTP={time}\n"),
    ));
    let mut keys = context.spec.nodes.ssh_keys.clone();
    keys.extend(context.pool.ssh_key.clone());
    let mut document = json!({
        "ignition": { "version": IGNITION },
        "storage": { "files": written.iter().map(file).collect::<Value>() },
        "systemd": { "units": [
            { "name": "kubelet.service", "enabled": true, "contents": KUBELET_UNIT },
            { "name": "butler-join.service", "enabled": true, "contents": JOIN_UNIT },
            // Machines are replaced, never changed underneath their pods.
            { "name": "update-engine.service", "mask": true },
            { "name": "locksmithd.service", "mask": true },
        ] },
    });
    if !keys.is_empty()
        && let Some(fields) = document.as_object_mut()
    {
        let core = json!({"users": [{"name": "core", "sshAuthorizedKeys": keys}]});
        fields.insert("passwd".to_owned(), core);
    }
    Ok(document.to_string())
}

fn file(file: &File) -> Value {
    json!({
        "path": file.path,
        "mode": file.mode,
        "overwrite": true,
        "contents": { "source": format!("data:;base64,{}", encoded(&file.content)) },
    })
}

fn script(context: &Context<'_>) -> String {
    let version = context.version;
    format!(
        r#"#!/bin/bash
# Puts the programs of Kubernetes {version} in place. It may run again at any time.
set -euo pipefail

update-ca-certificates > /dev/null
modprobe overlay
modprobe br_netfilter
sysctl --system > /dev/null

arch=amd64
[ "$(uname -m)" = aarch64 ] && arch=arm64
mkdir -p /opt/bin
for program in kubeadm kubelet kubectl; do
    if [ -x "/opt/bin/$program" ] && "/opt/bin/$program" --version 2> /dev/null | grep -qF '{version}'; then
        continue
    fi
    from="https://dl.k8s.io/{version}/bin/linux/$arch/$program"
    curl -fsSL --retry 5 -o "/opt/bin/$program.new" "$from"
    echo "$(curl -fsSL --retry 5 "$from.sha256")  /opt/bin/$program.new" | sha256sum -c --quiet
    chmod 0755 "/opt/bin/$program.new"
    mv "/opt/bin/$program.new" "/opt/bin/$program"
done

{CONTAINERD}mkdir -p /etc/systemd/system/containerd.service.d
cat > /etc/systemd/system/containerd.service.d/10-config.conf <<'EOF'
[Service]
Environment=CONTAINERD_CONFIG=/etc/containerd/config.toml
ExecStart=
ExecStart=/usr/bin/containerd --config /etc/containerd/config.toml
EOF
systemctl daemon-reload
systemctl restart containerd systemd-timesyncd
"#
    )
}
