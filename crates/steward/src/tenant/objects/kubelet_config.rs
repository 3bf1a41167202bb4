//! `kubelet-config`: the configuration that every joining node starts its kubelet with.

use serde_json::{Value, json};

use super::{Kind, SYSTEM, TenantObject, rbac, yaml};
use crate::tenant::settings::{CgroupDriver, TenantSettings};

const NAME: &str = "kubelet-config";
const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const DOCUMENT: &str = "KubeletConfiguration";

/// Patches that do not fit the kubelet's configuration.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// An operation could not be carried out.
    #[error("could not patch the kubelet's configuration; the paths must exist in it: {paths}")]
    Operation {
        /// What there is.
        paths: String,
        /// Which operation failed, and why.
        #[source]
        source: json_patch::PatchError,
    },
    /// What came out is something else.
    #[error(
        "the patches make something else of the kubelet's configuration: apiVersion and kind must stay"
    )]
    NotAKubelet,
}

pub(super) fn objects(settings: &TenantSettings) -> Result<Vec<TenantObject>, PatchError> {
    let configuration = yaml(&configuration(settings)?);
    let config_map = TenantObject::system(Kind::ConfigMap, NAME)
        .with("data", json!({ "kubelet": configuration }));
    let readers = [rbac::group(rbac::NODES), rbac::group(rbac::NODE_TOKENS)];
    let mut objects = vec![config_map];
    objects.extend(rbac::reader_of_config_map(
        SYSTEM,
        "kubeadm:kubelet-config",
        NAME,
        &readers,
    ));
    Ok(objects)
}

/// What kubeadm sets; all else is left out, which kubelets read the same as kubeadm's written-out zeros.
fn configuration(settings: &TenantSettings) -> Result<Value, PatchError> {
    let driver = settings
        .kubelet
        .cgroup_driver
        .unwrap_or(CgroupDriver::Systemd);
    let base = json!({
        "apiVersion": API_VERSION,
        "kind": DOCUMENT,
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": "/etc/kubernetes/pki/ca.crt" },
        },
        "authorization": { "mode": "Webhook" },
        "cgroupDriver": driver.as_str(),
        "clusterDNS": settings.dns_addresses(),
        "clusterDomain": settings.cluster_domain,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": 10248,
        "rotateCertificates": true,
        "staticPodPath": "/etc/kubernetes/manifests",
    });
    let mut patched = base.clone();
    json_patch::patch(&mut patched, &settings.kubelet.patches).map_err(|source| {
        PatchError::Operation {
            paths: top_level(&base),
            source,
        }
    })?;
    let field = |name| patched.get(name).and_then(Value::as_str);
    if field("apiVersion") == Some(API_VERSION) && field("kind") == Some(DOCUMENT) {
        Ok(patched)
    } else {
        Err(PatchError::NotAKubelet)
    }
}

fn top_level(document: &Value) -> String {
    let fields = document
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys());
    fields
        .map(|field| format!("/{field}"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::{super::tests::settings, *};

    fn with_patches(patches: Value) -> TenantSettings {
        let mut settings = settings();
        settings.kubelet.patches = serde_json::from_value(patches).unwrap();
        settings
    }

    fn patched(patches: Value) -> Result<Value, PatchError> {
        configuration(&with_patches(patches))
    }

    #[test]
    fn patches_add_and_replace_in_order() {
        let result = patched(json!([
            { "op": "add", "path": "/maxPods", "value": 50 },
            { "op": "replace", "path": "/maxPods", "value": 60 },
            { "op": "replace", "path": "/cgroupDriver", "value": "cgroupfs" },
        ]));
        let result = result.unwrap();
        assert_eq!(
            (&result["maxPods"], &result["cgroupDriver"]),
            (&json!(60), &json!("cgroupfs"))
        );
    }

    #[test]
    fn a_patch_of_a_field_that_is_not_there_says_which_are() {
        let error =
            patched(json!([{ "op": "replace", "path": "/maxPods", "value": 50 }])).unwrap_err();
        assert!(
            error.to_string().contains("/cgroupDriver, /clusterDNS"),
            "{error}"
        );
    }

    #[test]
    fn patches_cannot_turn_the_document_into_another() {
        let whole = patched(json!([{ "op": "replace", "path": "", "value": 5 }]));
        assert!(matches!(whole, Err(PatchError::NotAKubelet)));
        let kind = patched(json!([{ "op": "replace", "path": "/kind", "value": "Pod" }]));
        assert!(matches!(kind, Err(PatchError::NotAKubelet)));
    }

    #[test]
    fn the_cgroup_driver_is_systemd_unless_said_otherwise() {
        assert_eq!(
            configuration(&settings()).unwrap()["cgroupDriver"],
            "systemd"
        );
        let mut settings = settings();
        settings.kubelet.cgroup_driver = Some(CgroupDriver::Cgroupfs);
        assert_eq!(
            configuration(&settings).unwrap()["cgroupDriver"],
            "cgroupfs"
        );
    }
}
