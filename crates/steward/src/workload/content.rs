//! Hashes of what pods mount, written into their template: a change of any of it replaces the pods, and a
//! change of anything else does not.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Hashes, Inputs, configs, encryption};
use crate::{
    names::{self, Part},
    spec::ControlPlane,
};

/// The annotations of the pods.
pub(super) fn annotations(spec: &ControlPlane, inputs: &Inputs) -> BTreeMap<String, String> {
    // No `..`: a new hash must be given its place here.
    let Hashes {
        ca,
        front_proxy_ca,
        service_account,
        api_server,
        kubelet_client,
        front_proxy_client,
        data_store,
        controller_manager_kubeconfig,
        scheduler_kubeconfig,
        konnectivity_kubeconfig,
    } = &inputs.hashes;
    let tunnel = spec.konnectivity.is_some();
    let mut hashes = BTreeMap::from([
        ("ca", ca.clone()),
        ("front-proxy-ca-certificate", front_proxy_ca.clone()),
        ("service-account", service_account.clone()),
        ("api-server-certificate", api_server.clone()),
        (
            "api-server-kubelet-client-certificate",
            kubelet_client.clone(),
        ),
        ("front-proxy-client-certificate", front_proxy_client.clone()),
        ("datastore-certificate", data_store.clone()),
        (
            "controller-manager-kubeconfig",
            controller_manager_kubeconfig.clone(),
        ),
        ("scheduler-kubeconfig", scheduler_kubeconfig.clone()),
    ]);
    let tunnel = konnectivity_kubeconfig.clone().filter(|_| tunnel);
    hashes.extend(tunnel.map(|hash| ("konnectivity-kubeconfig", hash)));
    for (part, _, content) in configs::all(spec, inputs) {
        hashes.insert(part.suffix(), of(content.as_bytes()));
    }
    let webhook = configs::audit_webhook(spec, inputs);
    hashes.extend(webhook.map(|file| (Part::AuditWebhook.suffix(), of(&file))));
    if let Some(config) = encryption::config(spec, &inputs.encryption) {
        hashes.insert(
            Part::EncryptionConfig.suffix(),
            of(config.to_string().as_bytes()),
        );
    }
    let key = |(name, hash): (&str, String)| (format!("{}{name}", names::CONTENT), hash);
    hashes.into_iter().map(key).collect()
}

/// Thirty-two hexadecimal digits that stand for a content.
pub(super) fn of(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    let number = digest
        .iter()
        .take(16)
        .fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    format!("{number:032x}")
}

/// The same for JSON, whose keys `serde_json` keeps sorted.
pub(super) fn of_value(value: &Value) -> String {
    of(value.to_string().as_bytes())
}
