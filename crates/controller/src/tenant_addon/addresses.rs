//! The addresses that `MetalLB` may give out in a tenant: its chart takes no such values, they are objects of its kinds.

use butler_runtime::{
    apply::{Applier, Target},
    error::{ApiError, is_not_found},
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use super::observe::Place;
use crate::MANAGER;

/// The name of both objects.
const NAME: &str = "butler";

/// Writes them where they differ. Without addresses there is no pool, so that what was given back is announced no more.
pub(super) async fn give(place: &Place, ranges: &str) -> Result<(), ApiError> {
    let namespace = &place.request.release.namespace;
    let ranges: Vec<&str> = ranges.split(',').filter(|it| !it.is_empty()).collect();
    for (kind, body) in wanted(namespace, &ranges) {
        let gvk = GroupVersionKind::gvk("metallb.io", "v1beta1", kind);
        let resource = ApiResource::from_gvk(&gvk);
        let api: Api<DynamicObject> =
            Api::namespaced_with(place.client.clone(), namespace, &resource);
        let live = api.get_opt(NAME).await;
        let live = live.map_err(ApiError::of("get", kind, NAME))?;
        match (live, ranges.is_empty()) {
            (None, true) => {}
            (Some(_), true) => match api.delete(NAME, &DeleteParams::default()).await {
                Err(error) if !is_not_found(&error) => {
                    return Err(ApiError::of("delete", kind, NAME)(error));
                }
                Ok(_) | Err(_) => {}
            },
            (live, false) => {
                let target = Target::new(&gvk, Some(namespace), NAME, body);
                let applier = Applier::new(place.client.clone(), MANAGER);
                let live = live.map(|live| json!(live));
                applier.apply_body(&target, live.as_ref()).await?;
            }
        }
    }
    Ok(())
}

fn wanted(namespace: &str, ranges: &[&str]) -> [(&'static str, Value); 2] {
    let object = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "metallb.io/v1beta1", "kind": kind,
            "metadata": {"name": NAME, "namespace": namespace},
            "spec": spec,
        })
    };
    let pool = "IPAddressPool";
    let advertisement = "L2Advertisement";
    [
        (pool, object(pool, json!({"addresses": ranges}))),
        (
            advertisement,
            object(advertisement, json!({"ipAddressPools": [NAME]})),
        ),
    ]
}
