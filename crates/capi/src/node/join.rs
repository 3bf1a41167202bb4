//! How a machine without a bootstrap provider joins: where, whom it trusts, and with which token.

use butler_api::{butler::tenant_cluster::NodeTaint, types::KubeVersion};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{Context, token::BootstrapToken};
use crate::{object::hexadecimal, spec::is_copied};

/// Where a machine joins, whom it trusts, and its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinTicket {
    /// Host and port of the API server.
    pub endpoint: String,
    /// The cluster's authority, as PEM.
    pub authority: String,
    /// The token.
    pub token: BootstrapToken,
}

/// Why a ticket cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JoinError {
    /// The authority is no certificate.
    #[error("the cluster's authority is not a certificate")]
    Authority,
    /// A text could not be written in its format.
    #[error("could not write the bootstrap data as {format}: {reason}")]
    Format {
        /// The format.
        format: &'static str,
        /// What its library found.
        reason: String,
    },
}

impl JoinTicket {
    /// The same with a token that means nothing: what is left is what machines are made from.
    pub(super) fn without_token(&self) -> Self {
        let token = BootstrapToken::new("000000.0000000000000000", Timestamp::UNIX_EPOCH)
            .expect("the text has the shape of a token");
        Self {
            token,
            ..self.clone()
        }
    }

    /// The hash by which kubeadm knows the cluster's authority.
    pub(super) fn authority_hash(&self) -> Result<String, JoinError> {
        let (_, block) = x509_parser::pem::parse_x509_pem(self.authority.as_bytes())
            .map_err(|_| JoinError::Authority)?;
        let certificate = block.parse_x509().map_err(|_| JoinError::Authority)?;
        let digest = Sha256::digest(certificate.tbs_certificate.subject_pki.raw);
        Ok(format!("sha256:{}", hexadecimal(&digest, 32)))
    }
}

/// Flags of the kubelet: those of the user, and the labels that a kubelet may set itself.
pub(super) fn kubelet_args(context: &Context<'_>) -> Vec<(String, String)> {
    let nodes = &context.spec.nodes;
    let mut args: Vec<(String, String)> = nodes
        .kubelet_args
        .iter()
        .map(|(flag, value)| (flag.clone(), value.clone()))
        .collect();
    let labels = own_labels(context);
    if !labels.is_empty() {
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        args.push(("node-labels".to_owned(), labels.join(",")));
    }
    if context.spec.waits_for_cloud_controller() {
        args.push(("cloud-provider".to_owned(), "external".to_owned()));
    }
    args.sort();
    args
}

/// Labels that the kubelet sets itself; the others reach the Node by way of its Machine.
pub(super) fn own_labels(context: &Context<'_>) -> Vec<(String, String)> {
    let labels = context.pool.labels.iter();
    labels
        .filter(|(key, _)| !is_copied(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// A taint as the API writes it.
pub(super) fn taint(taint: &NodeTaint) -> Value {
    let mut written = json!({"key": taint.key, "effect": taint.effect.as_str()});
    if let (Some(value), Some(fields)) = (&taint.value, written.as_object_mut()) {
        fields.insert("value".to_owned(), json!(value));
    }
    written
}

/// kubeadm's configuration of a machine that joins.
///
/// kubeadm of 1.31 and later reads `v1beta4`, where flags are a list; the ones before do not know it.
pub(super) fn configuration(context: &Context<'_>, join: &JoinTicket) -> Result<Value, JoinError> {
    let args = kubelet_args(context);
    let is_new = context.version >= KubeVersion::new(1, 31, 0);
    let args = if is_new {
        let args = args.iter();
        args.map(|(name, value)| json!({"name": name, "value": value}))
            .collect::<Value>()
    } else {
        let args = args.into_iter();
        Value::Object(args.map(|(name, value)| (name, json!(value))).collect())
    };
    let taints: Value = context.pool.taints.iter().map(taint).collect();
    Ok(json!({
        "apiVersion": if is_new { "kubeadm.k8s.io/v1beta4" } else { "kubeadm.k8s.io/v1beta3" },
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "apiServerEndpoint": join.endpoint,
                "token": join.token.text().reveal(),
                "caCertHashes": [join.authority_hash()?],
            },
        },
        "nodeRegistration": {
            "imagePullPolicy": "IfNotPresent",
            "kubeletExtraArgs": args,
            "taints": taints,
        },
    }))
}

/// A value as YAML.
pub(super) fn yaml(value: &Value) -> Result<String, JoinError> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: true };
    serde_saphyr::to_string_with_options(value, options).map_err(|error| JoinError::Format {
        format: "YAML",
        reason: error.to_string(),
    })
}
