//! Another try of a cluster that failed: the wish is an annotation, and counts once.

use butler_api::{butler::TenantCluster, names};
use butler_runtime::{apply::Applier, error::ApiError};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::seen::is_reported;

/// Whether a cluster that failed is to be tried again: its user asked for it, or changed what failed.
pub(super) fn is_due(raw: &TenantCluster) -> bool {
    raw.annotations().contains_key(names::RETRY) || !is_reported(raw)
}

/// Takes the wish away after the phase was reported that answers it. It is on the object until then, so that a crash in
/// between does not lose it.
pub(super) async fn consume(applier: &Applier, raw: &TenantCluster) -> Result<(), ApiError> {
    if !raw.annotations().contains_key(names::RETRY) {
        return Ok(());
    }
    let name = raw.name_any();
    let without = json!({"metadata": {
        "uid": raw.metadata.uid,
        "annotations": {names::RETRY: null},
    }});
    let api = applier.beside(raw);
    let taken = api
        .patch(&name, &PatchParams::default(), &Patch::Merge(&without))
        .await;
    taken
        .map(drop)
        .map_err(ApiError::of("annotate", "TenantCluster", &name))
}
