//! Control planes that tests start from.

use butler_api::steward::TenantControlPlane;
use serde_json::{Value, json};

use super::{ControlPlane, SpecError, validate};

/// A control plane with this spec, laid over the smallest one that is right.
pub(crate) fn raw(over: &Value) -> TenantControlPlane {
    let mut object = json!({
        "apiVersion": "steward.butlerlabs.dev/v1alpha1",
        "kind": "TenantControlPlane",
        "metadata": { "namespace": "team-a", "name": "prod", "uid": "5e8c", "generation": 1 },
        "spec": {
            "controlPlane": { "service": { "serviceType": "LoadBalancer" } },
            "kubernetes": { "version": "v1.35.4" },
        },
    });
    json_patch::merge(&mut object, over);
    serde_json::from_value(object).unwrap()
}

/// The same, checked.
pub(crate) fn plane(over: &Value) -> ControlPlane {
    validate(&raw(over)).unwrap()
}

/// What is wrong with it.
pub(crate) fn problem(over: &Value) -> SpecError {
    validate(&raw(over)).unwrap_err()
}
