//! Bottlerocket: settings as TOML.
//!
//! There is no shell and no file to write: what the settings cannot say, the system cannot do.

use std::collections::BTreeMap;

use serde::Serialize;
use toml::{Table, Value};

use super::{
    Context, JoinTicket, encoded, files,
    join::{self, JoinError},
};
use crate::spec::{Faults, NodeSettings, Pool};

/// What a kubelet's flag is called in the settings, and whether it is a number.
const FLAGS: [(&str, &str, bool); 12] = [
    ("container-log-max-files", "container-log-max-files", true),
    ("container-log-max-size", "container-log-max-size", false),
    ("cpu-manager-policy", "cpu-manager-policy", false),
    ("event-burst", "event-burst", true),
    ("event-qps", "event-qps", true),
    (
        "image-gc-high-threshold",
        "image-gc-high-threshold-percent",
        true,
    ),
    (
        "image-gc-low-threshold",
        "image-gc-low-threshold-percent",
        true,
    ),
    ("kube-api-burst", "kube-api-burst", true),
    ("kube-api-qps", "kube-api-qps", true),
    ("max-pods", "max-pods", true),
    ("pod-max-pids", "pod-pids-limit", true),
    ("topology-manager-policy", "topology-manager-policy", false),
];

fn known(flag: &str) -> Option<&'static (&'static str, &'static str, bool)> {
    FLAGS.iter().find(|(name, ..)| *name == flag)
}

/// Flags that Bottlerocket has no setting for.
pub(super) fn check(pool: &Pool, nodes: &NodeSettings, faults: &mut Faults) {
    for (flag, value) in &nodes.kubelet_args {
        let names: Vec<&str> = FLAGS.iter().map(|(name, ..)| *name).collect();
        match known(flag) {
            None => faults.add(
                format!("spec.nodeSettings.kubeletArgs[{flag}]"),
                format!(
                    "pool {} runs Bottlerocket, which has no setting for it: use one of {}, or another operating system",
                    pool.name,
                    names.join(", ")
                ),
            ),
            Some((_, _, true)) if value.parse::<i64>().is_err() => faults.add(
                format!("spec.nodeSettings.kubeletArgs[{flag}]"),
                format!("{value:?} is not a whole number"),
            ),
            Some(_) => {}
        }
    }
}

#[derive(Serialize)]
struct Document {
    settings: Settings,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Settings {
    kubernetes: Table,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_registry: Option<Registry>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pki: BTreeMap<String, Authority>,
    #[serde(skip_serializing_if = "Table::is_empty")]
    network: Table,
    ntp: Ntp,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_containers: Option<HostContainers>,
}

#[derive(Serialize)]
struct Registry {
    mirrors: Vec<RegistryMirror>,
}

#[derive(Serialize)]
struct RegistryMirror {
    registry: String,
    endpoint: Vec<String>,
}

#[derive(Serialize)]
struct Authority {
    data: String,
    trusted: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Ntp {
    time_servers: Vec<String>,
}

#[derive(Serialize)]
struct HostContainers {
    admin: Admin,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Admin {
    enabled: bool,
    user_data: String,
}

pub(super) fn settings(context: &Context<'_>, join: &JoinTicket) -> Result<String, JoinError> {
    let nodes = &context.spec.nodes;
    let mirrors: Vec<RegistryMirror> = nodes
        .mirrors
        .iter()
        .map(|mirror| RegistryMirror {
            registry: mirror.registry.clone(),
            endpoint: mirror.endpoints.clone(),
        })
        .collect();
    let document = Document {
        settings: Settings {
            kubernetes: kubernetes(context, join),
            container_registry: (!mirrors.is_empty()).then_some(Registry { mirrors }),
            pki: authorities(context),
            network: network(context),
            ntp: Ntp {
                time_servers: nodes.time_servers.clone(),
            },
            host_containers: admin(context),
        },
    };
    toml::to_string(&document).map_err(|error| JoinError::Format {
        format: "TOML",
        reason: error.to_string(),
    })
}

fn kubernetes(context: &Context<'_>, join: &JoinTicket) -> Table {
    let spec = context.spec;
    let mut settings = Table::new();
    let mut set = |key: &str, value: Value| settings.insert(key.to_owned(), value);
    set("api-server", format!("https://{}", join.endpoint).into());
    set("authentication-mode", "tls".into());
    set("bootstrap-token", join.token.text().reveal().into());
    set("cluster-certificate", encoded(&join.authority).into());
    set("cluster-dns-ip", spec.network.dns().to_string().into());
    set("cluster-domain", spec.network.domain.clone().into());
    set("cluster-name", spec.identity.cluster().into());
    let waits = spec.waits_for_cloud_controller();
    set("cloud-provider", if waits { "external" } else { "" }.into());
    for (flag, value) in &spec.nodes.kubelet_args {
        if let Some((_, setting, is_number)) = known(flag) {
            let number = value.parse::<i64>().ok().filter(|_| *is_number);
            set(
                setting,
                number.map_or_else(|| value.clone().into(), Value::Integer),
            );
        }
    }
    let labels: Table = join::own_labels(context)
        .into_iter()
        .map(|(key, value)| (key, Value::String(value)))
        .collect();
    if !labels.is_empty() {
        set("node-labels", labels.into());
    }
    let mut taints = BTreeMap::<String, Vec<Value>>::new();
    for taint in &context.pool.taints {
        let value = taint.value.as_deref().unwrap_or_default();
        let entry = format!("{value}:{}", taint.effect.as_str());
        taints
            .entry(taint.key.clone())
            .or_default()
            .push(entry.into());
    }
    if !taints.is_empty() {
        let taints: Table = taints
            .into_iter()
            .map(|(key, values)| (key, Value::Array(values)))
            .collect();
        set("node-taints", taints.into());
    }
    settings
}

fn authorities(context: &Context<'_>) -> BTreeMap<String, Authority> {
    let authorities = context.spec.nodes.authorities.iter().enumerate();
    authorities
        .map(|(index, pem)| {
            let authority = Authority {
                data: encoded(pem),
                trusted: true,
            };
            (format!("butler-{index}"), authority)
        })
        .collect()
}

fn network(context: &Context<'_>) -> Table {
    let mut network = Table::new();
    if let Some(proxy) = &context.spec.nodes.proxy {
        // One proxy for everything: there is no setting for plain requests alone.
        let variables = files::variables(proxy);
        let address = variables.iter().find(|(name, _)| *name == "HTTPS_PROXY");
        if let Some((_, address)) = address {
            network.insert("https-proxy".to_owned(), address.clone().into());
        }
        let direct: Vec<Value> = proxy.no_proxy.iter().cloned().map(Value::String).collect();
        network.insert("no-proxy".to_owned(), direct.into());
    }
    network
}

/// The container that people sign in to; without a key there is nobody to let in.
fn admin(context: &Context<'_>) -> Option<HostContainers> {
    let mut keys = context.spec.nodes.ssh_keys.clone();
    keys.extend(context.pool.ssh_key.clone());
    if keys.is_empty() {
        return None;
    }
    let user_data = serde_json::json!({"ssh": {"authorized-keys": keys}}).to_string();
    Some(HostContainers {
        admin: Admin {
            enabled: true,
            user_data: encoded(&user_data),
        },
    })
}
