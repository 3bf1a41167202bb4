//! What all machines of a cluster are told.

use std::collections::BTreeMap;

use super::{Faults, Raw};

/// Whom machines ask for the time where nobody says anything.
const TIME_SERVERS: [&str; 1] = ["pool.ntp.org"];

/// Where images of one registry are pulled from instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The registry as images name it.
    pub registry: String,
    /// Whom to ask first, in this order.
    pub endpoints: Vec<String>,
}

/// How machines reach the world outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// For plain requests.
    pub http: Option<String>,
    /// For encrypted requests.
    pub https: Option<String>,
    /// What is reached directly.
    pub no_proxy: Vec<String>,
}

/// What all machines of a cluster are told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSettings {
    /// Mirrors.
    pub mirrors: Vec<Mirror>,
    /// Proxy.
    pub proxy: Option<Proxy>,
    /// Authorities to trust, as PEM.
    pub authorities: Vec<String>,
    /// SSH keys beside that of a pool.
    pub ssh_keys: Vec<String>,
    /// Flags of the kubelet.
    pub kubelet_args: BTreeMap<String, String>,
    /// Time servers.
    pub time_servers: Vec<String>,
}

pub(super) fn validate(raw: &Raw<'_>, faults: &mut Faults) -> NodeSettings {
    let spec = &raw.cluster.spec;
    let settings = spec.node_settings.clone().unwrap_or_default();
    for (index, text) in settings.trusted_cas.iter().enumerate() {
        let parsed = x509_parser::pem::parse_x509_pem(text.as_bytes());
        let is_certificate = parsed
            .is_ok_and(|(_, block)| block.label == "CERTIFICATE" && block.parse_x509().is_ok());
        if !is_certificate {
            faults.add(
                format!("spec.nodeSettings.trustedCAs[{index}]"),
                "is not a certificate: give one certificate as PEM",
            );
        }
    }
    for flag in settings.kubelet_args.keys() {
        let is_flag = flag.starts_with(|first: char| first.is_ascii_lowercase())
            && flag
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if !is_flag {
            faults.add(
                format!("spec.nodeSettings.kubeletArgs[{flag}]"),
                "is not a flag of the kubelet: write it without its dashes, such as max-pods",
            );
        }
    }
    NodeSettings {
        mirrors: settings
            .registry_mirrors
            .into_iter()
            .map(|mirror| Mirror {
                registry: mirror.registry,
                endpoints: mirror.endpoints,
            })
            .collect(),
        proxy: settings.proxy.map(|proxy| {
            let networking = &spec.networking;
            let mut direct = vec![
                "localhost".to_owned(),
                "127.0.0.1".to_owned(),
                networking.pod_cidr.clone(),
                networking.service_cidr.clone(),
                format!(".{}", networking.cluster_domain),
                ".svc".to_owned(),
            ];
            direct.extend(networking.node_cidr.clone());
            direct.extend(proxy.no_proxy);
            Proxy {
                https: proxy.https.or_else(|| proxy.http.clone()),
                http: proxy.http,
                no_proxy: direct,
            }
        }),
        authorities: settings.trusted_cas,
        ssh_keys: settings.ssh_authorized_keys,
        kubelet_args: settings.kubelet_args,
        time_servers: time_servers(raw),
    }
}

/// The cluster's, else the provider's, else the platform's, else a public one.
fn time_servers(raw: &Raw<'_>) -> Vec<String> {
    let candidates = [
        &raw.cluster.spec.time_servers,
        &raw.provider.spec.network.time_servers,
        &raw.platform.default_time_servers,
    ];
    let named = candidates.into_iter().find(|servers| !servers.is_empty());
    named
        .cloned()
        .unwrap_or_else(|| TIME_SERVERS.map(str::to_owned).to_vec())
}
