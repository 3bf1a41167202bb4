//! Kairos: cloud-config with the `cluster` block of its kubeadm provider.

use serde_json::{Value, json};

use super::{
    Context, JoinTicket,
    files::{self, File},
    join::{self, JoinError},
};

/// What makes a text cloud-config.
const HEADER: &str = "#cloud-config\n";

pub(super) fn cloud_config(context: &Context<'_>, join: &JoinTicket) -> Result<String, JoinError> {
    let (host, _) = join
        .endpoint
        .rsplit_once(':')
        .unwrap_or((&join.endpoint, ""));
    let mut written = files::common(context);
    written.extend(files::authorities(
        context,
        "/usr/local/share/ca-certificates",
        "crt",
    ));
    let configuration = join::configuration(context, join)?;
    let node = json!({ "joinConfiguration": configuration });
    let document = json!({
        "hostname": "{{ trunc 63 .MachineID }}",
        "install": { "auto": true, "device": "auto", "reboot": true },
        "ntp": { "enabled": true, "servers": context.spec.nodes.time_servers },
        "users": users(context),
        "write_files": written.iter().map(file).collect::<Value>(),
        "stages": {
            "boot": [
                { "name": "Trust the authorities", "commands": ["update-ca-certificates || true"] },
                { "name": "Load modules", "commands": ["modprobe overlay", "modprobe br_netfilter"] },
                { "name": "Set up the kernel", "commands": ["sysctl --system"] },
            ],
        },
        "cluster": {
            "cluster_token": join.token.text().reveal(),
            "control_plane_host": host,
            "role": "worker",
            "config": join::yaml(&node)?,
        },
    });
    Ok(format!("{HEADER}{}", join::yaml(&document)?))
}

fn users(context: &Context<'_>) -> Value {
    let mut keys = context.spec.nodes.ssh_keys.clone();
    keys.extend(context.pool.ssh_key.clone());
    json!([{ "name": "kairos", "groups": ["admin"], "ssh_authorized_keys": keys }])
}

fn file(file: &File) -> Value {
    json!({
        "path": file.path,
        "permissions": format!("{:04o}", file.mode),
        "owner": "root:root",
        "content": file.content,
    })
}
