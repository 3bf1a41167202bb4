//! The stage between certificates and pods: what the API server is told through objects of users is there and can be
//! used, and keys for encryption are at hand.
//!
//! Pods never mount objects of users. What was found to be right is copied, so that an edit which breaks a policy, or
//! deletes it, changes nothing for an API server that runs or restarts; the condition says what is wrong meanwhile.

use std::time::Duration;

use butler_api::steward::{TenantControlPlane, tenant_control_plane::security::KeyRef};
use butler_runtime::{conditions::Verdict, error::ApiError};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, ResourceExt as _, config::Kubeconfig};

use super::{Controller, Error, owning, progress::Progress, pruning::SECRETS};
use crate::{
    names::Part,
    spec::{Audit, AuditPolicy, ControlPlane, audit_policy},
    workload::{AuditFiles, StoreOverride, configs, encryption},
};

const STAGE: &str = "SettingsReady";
/// How soon something that is missing or wrong is looked at again: objects of users are not watched.
const SOON: Duration = Duration::from_secs(15);
/// How soon pods that end are looked at again.
const LEAVING: Duration = Duration::from_secs(3);
/// How soon something that is right is looked at again.
const LATER: Duration = Duration::from_mins(1);

/// What pods are made from besides spec and certificates.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    pub(super) audit: AuditFiles,
    pub(super) encryption: encryption::Facts,
    /// Resources that are kept elsewhere.
    pub(super) overrides: Vec<StoreOverride>,
    /// When to look at the users' objects again.
    pub(super) again: Option<Timestamp>,
}

/// Why something that a user keeps cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Controller {
    /// Everything is at hand; none while pods cannot be made or changed.
    pub(super) async fn settings(
        &self,
        raw: &TenantControlPlane,
        spec: &ControlPlane,
        held: &[Secret],
        progress: &mut Progress,
    ) -> Result<Option<Prepared>, Error> {
        let (audit, mut problems) = self.audit(spec, held).await?;
        let (mut encryption, problem) = self.keys(raw, spec, held).await?;
        let leaving = self.pods_are_leaving(spec, &encryption).await?;
        encryption.rolled_out &= !leaving;
        // Nothing may be written in plain that is to be encrypted; pods that run go on as they are.
        let unencrypted = problem.is_some() && encryption.fresh && encryption.live.is_none();
        problems.extend(problem);
        if let Some(told) = encryption_verdict(spec, &encryption) {
            progress.also(told);
        }
        if leaving {
            progress.add_to("Encrypted", "pods of before have yet to end");
        }
        let complete = problems.is_empty();
        if complete {
            progress.passed(
                STAGE,
                "Ready",
                "everything that the spec refers to is there",
            );
        } else {
            let messages: Vec<&str> = problems.iter().map(|one| one.message.as_str()).collect();
            let reason = problems.first().map_or("Waiting", |first| first.reason);
            progress.stopped(STAGE, reason, messages.join("; "));
        }
        let wait = match (leaving, complete) {
            (true, _) => Some(LEAVING),
            (false, false) => Some(SOON),
            (false, true) => refers(spec).then_some(LATER),
        };
        let again = wait.map(|wait| self.clock.now() + wait);
        let usable = is_complete(spec, &audit) && !unencrypted;
        Ok(usable.then_some(Prepared {
            audit,
            encryption,
            again,
            ..Prepared::default()
        }))
    }

    /// The audit files: what users keep, or else the copy of what they kept last.
    async fn audit(
        &self,
        spec: &ControlPlane,
        held: &[Secret],
    ) -> Result<(AuditFiles, Vec<Problem>), Error> {
        let (mut files, mut problems) = (AuditFiles::default(), Vec::new());
        let Some(Audit { policy, webhook }) = &spec.audit else {
            return Ok((files, problems));
        };
        if let AuditPolicy::ConfigMap(reference) = policy {
            let found = self.user_config_map(spec, &reference.name).await?;
            match policy_file(reference, found.as_ref()) {
                Ok(text) => files.policy = Some(text),
                Err(problem) => {
                    problems.push(problem);
                    files.policy = self.copied_policy(spec);
                }
            }
        }
        if let Some(reference) = webhook {
            let found = self.secret(spec, &reference.name).await?;
            match webhook_file(reference, found.as_ref()) {
                Ok(file) => files.webhook = Some(file),
                Err(problem) => {
                    problems.push(problem);
                    files.webhook = copied_webhook(spec, held);
                }
            }
        }
        Ok((files, problems))
    }

    /// Secrets that only some control planes have. Keys follow from what is read, and a watch may be behind: where there
    /// are any, or some are asked for, they are read now.
    /// None where one of them is somebody else's.
    pub(super) async fn optional_secrets(
        &self,
        spec: &ControlPlane,
        progress: &mut Progress,
    ) -> Result<Option<Vec<Secret>>, Error> {
        let identity = &spec.identity;
        let watched = |part: &Part| {
            // Every control plane with a tunnel has this one, and nothing is made from it here.
            let expected = *part == Part::KonnectivityKubeconfig && spec.konnectivity.is_some();
            let name = part.name(&identity.name);
            let found = self.feeds.secrets.get(Some(&identity.namespace), &name);
            found.is_some() && !expected
        };
        let webhook = spec.audit.as_ref().and_then(|audit| audit.webhook.as_ref());
        let asked = spec.encryption.is_some() || webhook.is_some();
        if !asked && !SECRETS.iter().any(watched) {
            return Ok(Some(Vec::new()));
        }
        let mut held = Vec::new();
        for part in SECRETS {
            let Some(found) = self.secret(spec, &part.name(&identity.name)).await? else {
                continue;
            };
            if owning::is_ours(&found, identity) {
                held.push(found);
            } else if is_wanted(spec, part) {
                progress.taken(STAGE, "Secret", &found.name_any());
                return Ok(None);
            }
        }
        Ok(Some(held))
    }

    fn copied_policy(&self, spec: &ControlPlane) -> Option<String> {
        let name = Part::AuditPolicy.name(&spec.identity.name);
        let copy = self
            .feeds
            .config_maps
            .get(Some(&spec.identity.namespace), &name)?;
        copy.data.as_ref()?.get(configs::AUDIT_POLICY).cloned()
    }

    async fn user_config_map(
        &self,
        spec: &ControlPlane,
        name: &str,
    ) -> Result<Option<ConfigMap>, Error> {
        let client = self.applier.client().clone();
        let api: Api<ConfigMap> = Api::namespaced(client, &spec.identity.namespace);
        let found = api.get_opt(name).await;
        Ok(found.map_err(ApiError::of("get", "ConfigMap", name))?)
    }

    /// A Secret in the namespace of the control plane, as it is now.
    pub(super) async fn secret(
        &self,
        spec: &ControlPlane,
        name: &str,
    ) -> Result<Option<Secret>, Error> {
        let client = self.applier.client().clone();
        let api: Api<Secret> = Api::namespaced(client, &spec.identity.namespace);
        let found = api.get_opt(name).await;
        Ok(found.map_err(ApiError::of("get", "Secret", name))?)
    }
}

fn copied_webhook(spec: &ControlPlane, held: &[Secret]) -> Option<Vec<u8>> {
    let name = Part::AuditWebhook.name(&spec.identity.name);
    let copy = held.iter().find(|held| held.name_any() == name)?;
    let file = copy.data.as_ref()?.get(configs::AUDIT_WEBHOOK)?;
    Some(file.0.clone())
}

/// Whether the spec asks for a Secret that only some control planes have. The tunnel's was seen to before.
fn is_wanted(spec: &ControlPlane, part: Part) -> bool {
    match part {
        Part::AuditWebhook => spec.audit.as_ref().is_some_and(|one| one.webhook.is_some()),
        Part::EncryptionConfig => spec.encryption.is_some(),
        Part::EncryptionKeys => spec
            .encryption
            .as_ref()
            .is_some_and(|one| one.key_secret.is_none()),
        _ => false,
    }
}

/// Whether the spec refers to objects of users, of which nothing tells.
fn refers(spec: &ControlPlane) -> bool {
    let audit = spec.audit.as_ref().is_some_and(|audit| {
        audit.webhook.is_some() || matches!(audit.policy, AuditPolicy::ConfigMap(_))
    });
    let encryption = spec.encryption.as_ref();
    audit || encryption.is_some_and(|encryption| encryption.key_secret.is_some())
}

/// Whether there is a file for everything that the API server would be told to read.
fn is_complete(spec: &ControlPlane, files: &AuditFiles) -> bool {
    let Some(audit) = &spec.audit else {
        return true;
    };
    let policy = matches!(audit.policy, AuditPolicy::Inline(_)) || files.policy.is_some();
    policy && (audit.webhook.is_none() || files.webhook.is_some())
}

/// The policy in a `ConfigMap` of a user.
fn policy_file(reference: &KeyRef, found: Option<&ConfigMap>) -> Result<String, Problem> {
    let KeyRef { name, key } = reference;
    let problem = |reason, message| Problem { reason, message };
    let found = found.ok_or_else(|| {
        let message =
            format!("there is no ConfigMap {name}, which spec.kubernetes.audit refers to");
        problem("AuditPolicyNotFound", message)
    })?;
    let text = found.data.as_ref().and_then(|data| data.get(key));
    let text = text.ok_or_else(|| {
        let message =
            format!("ConfigMap {name} has no key {key}, which spec.kubernetes.audit refers to");
        problem("AuditPolicyNotFound", message)
    })?;
    audit_policy::check_text(text).map_err(|error| {
        let message = format!("key {key} of ConfigMap {name} cannot be used: {error}");
        problem("AuditPolicyUnusable", message)
    })?;
    Ok(text.clone())
}

/// The kubeconfig in a Secret of a user.
fn webhook_file(reference: &KeyRef, found: Option<&Secret>) -> Result<Vec<u8>, Problem> {
    let KeyRef { name, key } = reference;
    let problem = |reason, message| Problem { reason, message };
    let found = found.ok_or_else(|| {
        let message = format!("there is no Secret {name}, which spec.kubernetes.audit refers to");
        problem("AuditWebhookNotFound", message)
    })?;
    let file = found.data.as_ref().and_then(|data| data.get(key));
    let file = file.ok_or_else(|| {
        let message =
            format!("Secret {name} has no key {key}, which spec.kubernetes.audit refers to");
        problem("AuditWebhookNotFound", message)
    })?;
    check_kubeconfig(&file.0).map_err(|error| {
        let message = format!("key {key} of Secret {name} cannot be used: {error}");
        problem("AuditWebhookUnusable", message)
    })?;
    Ok(file.0.clone())
}

/// Whether an API server can use it: it has nothing but this file. Never says what is in it.
fn check_kubeconfig(file: &[u8]) -> Result<(), &'static str> {
    let text = std::str::from_utf8(file).map_err(|_| "it is not text")?;
    let config = Kubeconfig::from_yaml(text).map_err(|_| "it is not a kubeconfig")?;
    let current = config.current_context.as_deref().unwrap_or_default();
    let context = config.contexts.iter().find(|one| one.name == current);
    let context = context.and_then(|one| one.context.as_ref());
    let context = context.ok_or("its current-context is not one of its contexts")?;
    let cluster = config
        .clusters
        .iter()
        .find(|one| one.name == context.cluster);
    let cluster = cluster.and_then(|one| one.cluster.as_ref());
    let cluster = cluster.ok_or("the cluster of its current context is not in it")?;
    let server = cluster.server.as_deref().unwrap_or_default();
    if !server.starts_with("https://") && !server.starts_with("http://") {
        return Err("its cluster has no server such as https://audit.example.com");
    }
    if cluster.certificate_authority.is_some() {
        return Err("it refers to a file: write certificate-authority-data");
    }
    let wanted = context.user.as_deref().unwrap_or_default();
    let user = config.auth_infos.iter().find(|one| one.name == wanted);
    let user = match (wanted, user.and_then(|one| one.auth_info.as_ref())) {
        ("", _) => return Ok(()),
        (_, Some(user)) => user,
        (_, None) => return Err("the user of its current context is not in it"),
    };
    if user.client_certificate.is_some() || user.client_key.is_some() || user.token_file.is_some() {
        return Err(
            "it refers to files: write client-certificate-data, client-key-data and token instead",
        );
    }
    if user.exec.is_some() || user.auth_provider.is_some() {
        return Err("it runs a program to sign in, which an API server does not have");
    }
    Ok(())
}

/// What is told about encryption; nothing where nothing is encrypted.
fn encryption_verdict(spec: &ControlPlane, facts: &encryption::Facts) -> Option<Verdict> {
    const TYPE: &str = "Encrypted";
    let plan = encryption::plan(spec, facts);
    let on = spec.encryption.is_some();
    let (reason, message) = match plan.stage {
        encryption::Stage::Plain if !on => return None,
        encryption::Stage::Plain => ("NoKeys", "waits for keys"),
        encryption::Stage::Learning => ("Learning", "all pods learn to read before one writes"),
        encryption::Stage::RollingOut => ("RollingOut", "pods are replaced"),
        encryption::Stage::Rewriting if on => ("Rewriting", "what was stored before is encrypted"),
        encryption::Stage::Rewriting => ("Decrypting", "what was encrypted before is decrypted"),
        encryption::Stage::Settled => {
            let resources = spec
                .encryption
                .as_ref()
                .map(|wanted| wanted.resources.join(", "));
            let message = format!(
                "{} are encrypted in the store",
                resources.unwrap_or_default()
            );
            return Some(Verdict::yes(TYPE, "Encrypted", message));
        }
    };
    Some(Verdict::no(TYPE, reason, message))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reference() -> KeyRef {
        KeyRef {
            name: "mine".into(),
            key: "file".into(),
        }
    }

    fn config_map(data: &Value) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": "mine"}, "data": data})).unwrap()
    }

    #[test]
    fn a_policy_that_is_missing_or_garbage_is_named() {
        let good = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]";
        let table = [
            (None, "AuditPolicyNotFound", "there is no ConfigMap mine"),
            (
                Some(json!({"other": good})),
                "AuditPolicyNotFound",
                "no key file",
            ),
            (
                Some(json!({"file": "rules: 7"})),
                "AuditPolicyUnusable",
                "cannot be used",
            ),
            (
                Some(json!({"file": ""})),
                "AuditPolicyUnusable",
                "cannot be used",
            ),
        ];
        for (data, reason, words) in table {
            let found = data.as_ref().map(config_map);
            let problem = policy_file(&reference(), found.as_ref()).unwrap_err();
            assert_eq!(problem.reason, reason);
            assert!(problem.message.contains(words), "{}", problem.message);
        }
        let found = config_map(&json!({"file": good}));
        assert_eq!(policy_file(&reference(), Some(&found)).unwrap(), good);
    }

    fn kubeconfig(cluster: &Value, user: &Value) -> Vec<u8> {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn a_kubeconfig_that_an_api_server_could_not_use_is_refused_and_not_shown() {
        let server = json!({"server": "https://audit.example.com"});
        let table = [
            (b"\xff\xfe".to_vec(), "not text"),
            (b"]garbage[".to_vec(), "not a kubeconfig"),
            (b"{}".to_vec(), "current-context"),
            (kubeconfig(&json!({}), &json!({})), "no server"),
            (
                kubeconfig(&json!({"server": "audit"}), &json!({})),
                "no server",
            ),
            (
                kubeconfig(
                    &json!({"server": "https://a", "certificate-authority": "/ca"}),
                    &json!({}),
                ),
                "certificate-authority-data",
            ),
            (kubeconfig(&server, &json!({"client-key": "/key"})), "files"),
            (
                kubeconfig(&server, &json!({"tokenFile": "/token"})),
                "files",
            ),
            (
                kubeconfig(
                    &server,
                    &json!({"exec": {"apiVersion": "x", "command": "login", "interactiveMode": "Never"}}),
                ),
                "program",
            ),
        ];
        for (file, words) in table {
            let error = check_kubeconfig(&file).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(
            check_kubeconfig(&kubeconfig(&server, &json!({"token": "t"}))),
            Ok(())
        );
    }
}
