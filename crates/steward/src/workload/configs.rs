//! The files that tell the API server what to record, whom to let in, and how to reach nodes.
//!
//! They are written as JSON, which every reader of YAML accepts.

use butler_api::{
    steward::tenant_control_plane::security::{Authentication, Oidc},
    types::KubeVersion,
};
use serde_json::{Value, json};

use super::{Inputs, files};
use crate::{
    names::Part,
    spec::{AuditPolicy, ControlPlane},
};

/// File with the audit policy.
pub(crate) const AUDIT_POLICY: &str = "audit-policy.yaml";
/// File with the kubeconfig of the audit webhook.
pub(crate) const AUDIT_WEBHOOK: &str = "audit-webhook.conf";
/// File that says who may sign in.
pub(super) const AUTHENTICATION: &str = "authentication.yaml";
/// File that says how nodes are reached.
pub(super) const EGRESS: &str = "egress-selector-configuration.yaml";

/// The release from which structured authentication is stable.
const STABLE_AUTHENTICATION: u16 = 34;

/// The `ConfigMap`s of a control plane: what each is, its only file, and the content.
pub(super) fn all(spec: &ControlPlane, inputs: &Inputs) -> Vec<(Part, &'static str, String)> {
    let mut all = Vec::new();
    let policy = spec.audit.as_ref().and_then(|audit| match &audit.policy {
        AuditPolicy::Inline(policy) => Some(policy.to_string()),
        AuditPolicy::ConfigMap(_) => inputs.audit.policy.clone(),
    });
    all.extend(policy.map(|policy| (Part::AuditPolicy, AUDIT_POLICY, policy)));
    if let Some(settings) = &spec.authentication {
        let file = authentication(settings, inputs.version).to_string();
        all.push((Part::Authentication, AUTHENTICATION, file));
    }
    if spec.konnectivity.is_some() {
        all.push((Part::EgressSelector, EGRESS, egress().to_string()));
    }
    all
}

/// The kubeconfig of the audit webhook.
pub(super) fn audit_webhook(spec: &ControlPlane, inputs: &Inputs) -> Option<Vec<u8>> {
    let wanted = spec.audit.as_ref()?.webhook.is_some();
    inputs.audit.webhook.clone().filter(|_| wanted)
}

fn authentication(settings: &Authentication, version: KubeVersion) -> Value {
    let stable = version.minor() >= STABLE_AUTHENTICATION;
    let providers = match &settings.oidc {
        Some(provider) => vec![oidc(provider)],
        None => settings.jwt.clone(),
    };
    json!({
        "apiVersion": format!("apiserver.config.k8s.io/{}", if stable { "v1" } else { "v1beta1" }),
        "kind": "AuthenticationConfiguration",
        "jwt": providers,
    })
}

/// The same meaning as the API server's `--oidc-*` flags, in the form that several providers share.
fn oidc(provider: &Oidc) -> Value {
    // Without a prefix, names of the provider could be those of system users; only the flags' own
    // exception for mail addresses is made.
    let prefix = match provider.username_prefix.as_deref() {
        Some("-") => String::new(),
        Some(prefix) => prefix.to_owned(),
        None if provider.username_claim == "email" => String::new(),
        None => format!("{}#", provider.issuer_url),
    };
    let groups = provider.groups_claim.as_ref().map(|claim| {
        let prefix = provider.groups_prefix.clone().unwrap_or_default();
        json!({ "claim": claim, "prefix": prefix })
    });
    let rules = provider.required_claims.iter();
    let rules: Vec<Value> = rules
        .map(|(claim, value)| json!({ "claim": claim, "requiredValue": value }))
        .collect();
    let mut all = json!({
        "issuer": {
            "url": provider.issuer_url,
            "audiences": [provider.client_id],
            "certificateAuthority": provider.certificate_authority,
        },
        "claimMappings": {
            "username": { "claim": provider.username_claim, "prefix": prefix },
            "groups": groups,
        },
        "claimValidationRules": rules,
    });
    drop_nulls(&mut all);
    all
}

/// What was not given is left out.
fn drop_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(drop_nulls);
    }
}

/// Traffic to nodes, pods and Services of the tenant goes through the tunnel's socket.
fn egress() -> Value {
    let socket = format!("{}/konnectivity-server.socket", files::TUNNEL);
    json!({
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{
            "name": "cluster",
            "connection": {
                "proxyProtocol": "GRPC",
                "transport": { "uds": { "udsName": socket } },
            },
        }],
    })
}
