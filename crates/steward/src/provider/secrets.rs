//! The two Secrets that Cluster API reads beside a Cluster, made from those of the hosted control plane.
//!
//! Nobody else's Secret is ever overwritten: a Secret of the right name that is not ours must hold the same, or
//! the control plane says so and waits.

use butler_api::steward::TenantControlPlane;
use butler_pki::{Content, SecretKind, capi, capi::CLUSTER_NAME};
use butler_runtime::{apply::Applier, error::ApiError};
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::names;

/// The kubeconfig that is handed over unless an annotation names another.
const KUBECONFIG: &str = "admin.conf";

/// What became of the Secrets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Handover {
    /// Both stand.
    Done,
    /// What they are made from is not there yet.
    Early(String),
    /// A Secret of somebody else has the name.
    Taken(String),
}

/// What is to be done about one planned Secret.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Write,
    Label,
    Nothing,
    Refuse,
}

/// Writes what differs.
pub(super) async fn hand_over(
    applier: &Applier,
    cluster: capi::Cluster<'_>,
    tenant: &TenantControlPlane,
    owner: &OwnerReference,
) -> Result<Handover, ApiError> {
    let api: Api<Secret> = Api::namespaced(applier.client().clone(), cluster.namespace);
    let administrators = SecretKind::AdminKubeconfig.name(cluster.tenant);
    let authority = SecretKind::Ca.name(cluster.tenant);
    let (Some(held_kubeconfigs), Some(held_authority)) = (
        read(&api, &administrators).await?,
        read(&api, &authority).await?,
    ) else {
        let message = format!("waits for the Secrets {administrators} and {authority}");
        return Ok(Handover::Early(message));
    };
    let file = tenant.annotations().get(names::KUBECONFIG_SECRET_KEY);
    let file = file.map_or(KUBECONFIG, String::as_str);
    let Some(kubeconfig) = cluster.kubeconfig(&Content::from_secret(&held_kubeconfigs), file)
    else {
        let message = format!("there is no {file} in the Secret {administrators}");
        return Ok(Handover::Early(message));
    };
    let Some(certificate) = cluster.authority(&Content::from_secret(&held_authority)) else {
        let message = format!("there is no tls.crt or tls.key in the Secret {authority}");
        return Ok(Handover::Early(message));
    };
    for mut planned in [certificate, kubeconfig] {
        planned.metadata.owner_references = Some(vec![owner.clone()]);
        let name = planned.name_any();
        let live = read(&api, &name).await?;
        match step(&planned, live.as_ref(), &owner.uid) {
            Step::Nothing => {}
            Step::Write => {
                applier.apply(&planned, live.as_ref()).await?;
            }
            Step::Label => label(applier, &api, &name, cluster.name).await?,
            Step::Refuse => {
                let message = format!(
                    "the Secret {name} belongs to somebody else and holds something else; remove or rename it"
                );
                return Ok(Handover::Taken(message));
            }
        }
    }
    Ok(Handover::Done)
}

/// Ours, and nobody's that does not exist yet, is written; a foreign one that holds the same only gets its label.
/// The authority of a control plane that is called like its Cluster is such a one.
fn step(planned: &Secret, live: Option<&Secret>, owner: &str) -> Step {
    let Some(live) = live else {
        return Step::Write;
    };
    if live.owner_references().iter().any(|held| held.uid == owner) {
        return Step::Write;
    }
    let held = |key: &String| live.data.as_ref().and_then(|data| data.get(key));
    let same = planned
        .data
        .iter()
        .flatten()
        .all(|(key, value)| held(key) == Some(value));
    if !same {
        return Step::Refuse;
    }
    if live.labels().get(CLUSTER_NAME) == planned.labels().get(CLUSTER_NAME) {
        Step::Nothing
    } else {
        Step::Label
    }
}

/// The label alone: the rest of the Secret is applied by its owner, and stays.
async fn label(
    applier: &Applier,
    api: &Api<Secret>,
    name: &str,
    cluster: &str,
) -> Result<(), ApiError> {
    let patch = json!({"metadata": {"labels": {CLUSTER_NAME: cluster}}});
    let params = PatchParams {
        field_manager: Some(applier.manager().to_owned()),
        ..PatchParams::default()
    };
    let patched = api
        .patch_metadata(name, &params, &Patch::Merge(&patch))
        .await;
    patched.map_err(ApiError::of("label", "Secret", name))?;
    Ok(())
}

async fn read(api: &Api<Secret>, name: &str) -> Result<Option<Secret>, ApiError> {
    let found = api.get_opt(name).await;
    found.map_err(ApiError::of("get", "Secret", name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(owner: &str, key: &str, label: Option<&str>) -> Secret {
        let labels = label.map(|label| json!({CLUSTER_NAME: label}));
        let owner = json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner});
        let metadata = json!({"name": "blue-ca", "labels": labels, "ownerReferences": [owner]});
        let mut secret: Secret = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let value = k8s_openapi::ByteString(key.as_bytes().to_vec());
        secret.data = Some([("tls.crt".to_owned(), value)].into());
        secret
    }

    #[test]
    fn a_secret_of_somebody_else_is_never_overwritten() {
        let planned = secret("us", "certificate", Some("blue"));
        assert_eq!(step(&planned, None, "us"), Step::Write);
        assert_eq!(
            step(&planned, Some(&secret("us", "old", None)), "us"),
            Step::Write
        );
        assert_eq!(
            step(&planned, Some(&secret("them", "other", Some("blue"))), "us"),
            Step::Refuse
        );
    }

    #[test]
    fn the_authority_of_a_control_plane_that_is_called_like_its_cluster_only_gets_its_label() {
        let planned = secret("us", "certificate", Some("blue"));
        assert_eq!(
            step(&planned, Some(&secret("tenant", "certificate", None)), "us"),
            Step::Label
        );
        let labelled = secret("tenant", "certificate", Some("blue"));
        assert_eq!(step(&planned, Some(&labelled), "us"), Step::Nothing);
    }
}
