//! Talos Linux: a machine configuration.
//!
//! Two things are trusted: the authority of the machines' own API, which a service beside the control plane signs
//! with, and that of the cluster. Talos has no SSH, so keys are not for it.

use serde_json::{Map, Value, json};

use super::{
    Context, JoinTicket, TalosTrust, encoded, files,
    join::{self, JoinError},
};
use crate::spec;

/// What is different from cluster to cluster.
pub(super) struct Settings<'a> {
    pub(super) talos: &'a spec::Talos,
    pub(super) disk: String,
    pub(super) trust: &'a TalosTrust,
}

pub(super) fn machine_config(
    context: &Context<'_>,
    settings: &Settings<'_>,
    join: &JoinTicket,
) -> Result<String, JoinError> {
    let spec = context.spec;
    let document = json!({
        "version": "v1alpha1",
        "persist": true,
        "machine": machine(context, settings),
        "cluster": {
            "controlPlane": { "endpoint": format!("https://{}", join.endpoint) },
            "clusterName": spec.identity.cluster(),
            "ca": { "crt": encoded(&join.authority), "key": "" },
            "token": join.token.text().reveal(),
            "network": {
                "dnsDomain": spec.network.domain,
                "podSubnets": [spec.network.pods.to_string()],
                "serviceSubnets": [spec.network.services.to_string()],
            },
            // Machines find each other through the API server, not through a service outside.
            "discovery": { "enabled": false },
        },
    });
    let mut text = join::yaml(&document)?;
    for (index, pem) in spec.nodes.authorities.iter().enumerate() {
        let trusted = json!({
            "apiVersion": "v1alpha1",
            "kind": "TrustedRootsConfig",
            "name": format!("butler-{index}"),
            "certificates": format!("{}\n", pem.trim_end()),
        });
        text.push_str("---\n");
        text.push_str(&join::yaml(&trusted)?);
    }
    Ok(text)
}

fn machine(context: &Context<'_>, settings: &Settings<'_>) -> Value {
    let nodes = &context.spec.nodes;
    let mut machine = json!({
        "type": "worker",
        "token": settings.trust.token.reveal(),
        "ca": { "crt": encoded(&settings.trust.authority), "key": "" },
        "kubelet": kubelet(context),
        "install": install(context, settings),
        "time": { "servers": nodes.time_servers },
    });
    let Some(fields) = machine.as_object_mut() else {
        return machine;
    };
    let labels = join::own_labels(context);
    if !labels.is_empty() {
        let labels = labels.into_iter().map(|(key, value)| (key, json!(value)));
        fields.insert("nodeLabels".to_owned(), Value::Object(labels.collect()));
    }
    if !nodes.mirrors.is_empty() {
        let mirrors: Map<String, Value> = nodes
            .mirrors
            .iter()
            .map(|mirror| {
                let endpoints = json!({"endpoints": mirror.endpoints});
                (mirror.registry.clone(), endpoints)
            })
            .collect();
        fields.insert("registries".to_owned(), json!({ "mirrors": mirrors }));
    }
    if let Some(proxy) = &nodes.proxy {
        let variables: Map<String, Value> = files::variables(proxy)
            .into_iter()
            .map(|(name, value)| (name.to_lowercase(), json!(value)))
            .collect();
        fields.insert("env".to_owned(), Value::Object(variables));
    }
    machine
}

fn kubelet(context: &Context<'_>) -> Value {
    let version = context.version;
    let mut kubelet = json!({
        "image": format!("ghcr.io/siderolabs/kubelet:{version}"),
        "clusterDNS": [context.spec.network.dns().to_string()],
    });
    let Some(fields) = kubelet.as_object_mut() else {
        return kubelet;
    };
    let args: Map<String, Value> = join::kubelet_args(context)
        .into_iter()
        // Labels have a place of their own.
        .filter(|(name, _)| name != "node-labels")
        .map(|(name, value)| (name, json!(value)))
        .collect();
    if !args.is_empty() {
        fields.insert("extraArgs".to_owned(), Value::Object(args));
    }
    if !context.pool.taints.is_empty() {
        // A node may not change its own taints once it is there, so the kubelet registers with them.
        let taints: Value = context.pool.taints.iter().map(join::taint).collect();
        fields.insert(
            "extraConfig".to_owned(),
            json!({ "registerWithTaints": taints }),
        );
    }
    kubelet
}

fn install(context: &Context<'_>, settings: &Settings<'_>) -> Value {
    let mut install = json!({ "disk": settings.disk, "wipe": false });
    let image = settings.talos.installer.clone().or_else(|| {
        let version = settings.talos.version.as_ref()?;
        Some(match &context.pool.schematic {
            Some(schematic) => format!("factory.talos.dev/installer/{schematic}:{version}"),
            None => format!("ghcr.io/siderolabs/installer:{version}"),
        })
    });
    if let (Some(image), Some(fields)) = (image, install.as_object_mut()) {
        fields.insert("image".to_owned(), json!(image));
    }
    install
}
