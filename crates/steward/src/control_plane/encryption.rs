//! Encryption at rest: where its keys come from, how far a change of them has come, and the last step of it, which writes
//! everything in the store once more. What is done next is decided in [`crate::workload::encryption`].

use std::time::Duration;

use butler_api::steward::TenantControlPlane;
use butler_pki::Fresh;
use butler_runtime::error::{ApiError, chain};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Secret},
};
use kube::{Api, ResourceExt as _, api::ListParams};

use super::{
    ASK_AGAIN, Controller, certificates::Certificates, error::Error, own_kubeconfig,
    settings::Problem, tenants::Rewriting, workload::installed,
};
use crate::{
    names::{self, Part},
    spec::{ControlPlane, EncryptionProvider},
    workload::{
        encryption::{self, Facts, Stage},
        encryption_keys::{self, Made},
        is_rolled_out, marked_encryption_config,
    },
};

/// How soon the next objects are written once more.
const GO_ON: Duration = Duration::from_secs(1);

impl Controller {
    /// What is known about encryption, with the keys to use; and why there are none.
    pub(super) async fn keys(
        &self,
        raw: &TenantControlPlane,
        spec: &ControlPlane,
        held: &[Secret],
    ) -> Result<(Facts, Option<Problem>), Error> {
        let deployment = self.deployment(spec);
        let mut facts = observe(raw, spec, held, deployment.as_deref());
        let Some(wanted) = &spec.encryption else {
            return Ok((facts, None));
        };
        if let Some(name) = &wanted.key_secret {
            let found = self.secret(spec, name).await?;
            return Ok(match encryption_keys::brought(name, found.as_ref()) {
                Ok(keys) => (Facts { keys, ..facts }, None),
                Err(error) => {
                    let problem = Problem {
                        reason: error.reason(),
                        message: format!("spec.kubernetes.encryption.keySecretRef: {error}"),
                    };
                    let held = true;
                    (Facts { held, ..facts }, Some(problem))
                }
            });
        }
        match wanted.provider {
            EncryptionProvider::Kms { .. } => {}
            EncryptionProvider::Secretbox
            | EncryptionProvider::AesCbc
            | EncryptionProvider::AesGcm => {
                facts.keys = self.made_keys(raw, spec, held, &facts).await?;
            }
        }
        Ok((facts, None))
    }

    /// Keys that are made here. They are written before anything is encrypted with them.
    async fn made_keys(
        &self,
        raw: &TenantControlPlane,
        spec: &ControlPlane,
        held: &[Secret],
        facts: &Facts,
    ) -> Result<Vec<encryption::Key>, Error> {
        let name = Part::EncryptionKeys.name(&spec.identity.name);
        let live = held.iter().find(|held| held.name_any() == name);
        let before = live.map(Made::of);
        let stage = before.as_ref().map(|before| {
            let keys = before.keys.clone();
            let facts = Facts {
                keys,
                ..facts.clone()
            };
            encryption::plan(spec, &facts).stage
        });
        let asked = raw.annotations().get(names::ENCRYPTION_ROTATE);
        let next = Made::next(
            before.as_ref(),
            asked.map(String::as_str).filter(|word| !word.is_empty()),
            facts.live.as_deref(),
            stage,
            Fresh.secret()?,
        );
        let secret = next.secret(spec);
        // A key that something may be encrypted with is never replaced on an old view.
        match live {
            None => self.applier.create(&secret).await?,
            Some(live) => {
                self.applier.apply_over(&secret, live).await?;
            }
        }
        Ok(next.keys)
    }

    /// Whether pods of an earlier configuration still end: they may write with it to their last moment, so nothing may
    /// follow before they are gone. Asked only when something is to follow.
    pub(super) async fn pods_are_leaving(
        &self,
        spec: &ControlPlane,
        facts: &Facts,
    ) -> Result<bool, Error> {
        let wait = match encryption::plan(spec, facts).stage {
            Stage::Plain | Stage::Settled => false,
            Stage::Learning | Stage::RollingOut | Stage::Rewriting => facts.rolled_out,
        };
        if !wait {
            return Ok(false);
        }
        let identity = &spec.identity;
        let ours = ListParams::default().labels(&format!("{}={}", names::NAME, identity.name));
        let api: Api<Pod> = Api::namespaced(self.applier.client().clone(), &identity.namespace);
        let pods = api.list_metadata(&ours).await;
        let pods = pods.map_err(ApiError::of("list", "Pods of", &identity.name))?;
        Ok(pods
            .iter()
            .any(|pod| pod.metadata.deletion_timestamp.is_some()))
    }

    /// Writes everything in the tenant's store once more, where that is the next step: how far that is, in words, and
    /// when to go on.
    pub(super) async fn rewrite(
        &self,
        spec: &ControlPlane,
        facts: &Facts,
        held: &[Secret],
        certificates: &Certificates,
    ) -> Result<Option<(String, Duration)>, Error> {
        let plan = encryption::plan(spec, facts);
        let (Stage::Rewriting, Some(live)) = (plan.stage, &facts.live) else {
            // What was begun is void as soon as anything else may write.
            self.tenants.stop_rewriting(&spec.identity.uid);
            return Ok(None);
        };
        let Some(kubeconfig) = own_kubeconfig(certificates, self.settings.reach) else {
            return Ok(None);
        };
        let resources = encryption::resources_of(live);
        let uid = &spec.identity.uid;
        let step = self
            .tenants
            .rewrite(uid, kubeconfig, &plan.writers, &resources)
            .await;
        Ok(Some(match step {
            Rewriting::Shut => ("the API server does not answer".to_owned(), ASK_AGAIN),
            Rewriting::Failed(error) => (chain(&error), ASK_AGAIN),
            Rewriting::Unfinished(objects) => (format!("{objects} objects so far"), GO_ON),
            Rewriting::Finished(objects) => {
                let name = &spec.identity.name;
                tracing::info!(control_plane = %name, objects, "everything is written once more");
                self.note_rewritten(spec, live, plan.writers, held).await?;
                (format!("all {objects} objects are done"), GO_ON)
            }
        }))
    }

    /// From here on, keys that no longer write may be forgotten.
    async fn note_rewritten(
        &self,
        spec: &ControlPlane,
        live: &[u8],
        writers: String,
        held: &[Secret],
    ) -> Result<(), Error> {
        let marked = marked_encryption_config(spec, live.to_vec(), Some(writers));
        let seen = held
            .iter()
            .find(|held| held.name_any() == marked.name_any());
        if let Some(seen) = seen {
            self.applier.apply_over(&marked, seen).await?;
        }
        Ok(())
    }
}

/// Where encryption stands: the live configuration, and whether all pods run with it.
fn observe(
    raw: &TenantControlPlane,
    spec: &ControlPlane,
    held: &[Secret],
    deployment: Option<&Deployment>,
) -> Facts {
    let name = Part::EncryptionConfig.name(&spec.identity.name);
    let secret = held.iter().find(|held| held.name_any() == name);
    let live = secret
        .and_then(|secret| secret.data.as_ref()?.get(encryption::FILE))
        .map(|file| file.0.clone());
    Facts {
        rolled_out: is_rolled_out(deployment, Part::EncryptionConfig, live.as_deref()),
        rewritten: secret.and_then(|secret| {
            secret
                .annotations()
                .get(names::ENCRYPTION_REWRITTEN)
                .cloned()
        }),
        fresh: deployment.is_none() && installed(raw).is_none(),
        live,
        ..Facts::default()
    }
}
