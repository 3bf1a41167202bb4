//! What has to stand in a tenant cluster, and what must not. Pure.
//!
//! One file per concern builds its objects as JSON; [`plan`] puts them in order. Each is what `kubeadm init` of the same
//! release leaves behind, so that stock `kubeadm join` and Cluster API's bootstrap provider find what they look for.
//! Nothing here knows how objects get into the tenant.

mod bootstrap;
mod coredns;
mod key;
mod konnectivity;
mod kube_proxy;
mod kubeadm_config;
mod kubelet_config;
mod rbac;
mod write_permissions;

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

pub use key::{Kind, ObjectKey};
pub use kubelet_config::PatchError;

use super::settings::{AddonImage, AgentMode, KonnectivityAgents, RefusedWrites, TenantSettings};

/// The label that everything of ours carries in a tenant cluster.
pub const PROJECT_LABEL: &str = "steward.butlerlabs.dev/project";
/// The value of [`PROJECT_LABEL`].
pub const PROJECT: &str = "steward";

/// Where the control plane's own objects live.
pub(super) const SYSTEM: &str = "kube-system";
/// What everybody may read, even without a name.
pub(super) const PUBLIC: &str = "kube-public";

/// One object that has to stand in the tenant cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TenantObject {
    /// Which one.
    #[serde(skip)]
    pub key: ObjectKey,
    /// The fields that we own.
    #[serde(flatten)]
    pub body: Map<String, Value>,
    /// JSON pointers to fields that are only a first value: what the tenant has there stays.
    #[serde(skip)]
    pub kept: &'static [&'static str],
}

/// What has to stand in a tenant cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantPlan {
    /// What has to stand, in the order it is sent.
    pub objects: Vec<TenantObject>,
    /// Objects of addons that are off. They are removed where they carry our label, and nothing else ever is.
    pub retired: Vec<ObjectKey>,
}

impl TenantPlan {
    /// The same for a tenant that was found to be so before: what is removed is looked for only where something stands
    /// anyway, since nobody but us would have brought it back.
    #[must_use]
    pub fn quiet(mut self) -> Self {
        let places: BTreeSet<_> = self
            .objects
            .iter()
            .map(|object| (object.key.kind, object.key.namespace.clone()))
            .collect();
        self.retired
            .retain(|key| places.contains(&(key.kind, key.namespace.clone())));
        self
    }
}

/// Plans a tenant cluster.
///
/// # Errors
/// When the patches of the kubelet's configuration do not fit it.
pub fn plan(settings: &TenantSettings) -> Result<TenantPlan, PatchError> {
    let mut objects = kubeadm_config::objects(settings);
    objects.extend(kubelet_config::objects(settings)?);
    objects.extend(bootstrap::objects(settings));
    objects.extend(addons(settings));
    objects.extend(
        settings
            .refused_writes
            .into_iter()
            .flat_map(write_permissions::objects),
    );
    let planned: BTreeSet<_> = objects.iter().map(|object| &object.key).collect();
    let retired = every_addon(settings)
        .into_iter()
        .filter(|key| !planned.contains(key))
        .collect();
    Ok(TenantPlan { objects, retired })
}

fn addons(settings: &TenantSettings) -> Vec<TenantObject> {
    let core_dns = settings
        .core_dns
        .iter()
        .flat_map(|image| coredns::objects(settings, image));
    let kube_proxy = settings
        .kube_proxy
        .iter()
        .flat_map(|image| kube_proxy::objects(settings, image));
    let konnectivity = settings.konnectivity.iter().flat_map(konnectivity::objects);
    core_dns.chain(kube_proxy).chain(konnectivity).collect()
}

/// Every object that some choice of addons or settings would make.
fn every_addon(settings: &TenantSettings) -> BTreeSet<ObjectKey> {
    let agents = |mode| KonnectivityAgents {
        image: String::new(),
        mode,
        server_host: String::new(),
        server_port: 0,
        host_network: false,
        tolerations: Vec::new(),
        extra_args: Vec::new(),
    };
    let on = |mode| TenantSettings {
        core_dns: Some(AddonImage::default()),
        kube_proxy: Some(AddonImage::default()),
        konnectivity: Some(agents(mode)),
        ..settings.clone()
    };
    [AgentMode::DaemonSet, AgentMode::Deployment(1)]
        .into_iter()
        .flat_map(|mode| addons(&on(mode)))
        .chain(write_permissions::objects(RefusedWrites::default()))
        .map(|object| object.key)
        .collect()
}

impl TenantObject {
    fn new(kind: Kind, namespace: Option<&str>, name: &str) -> Self {
        let mut metadata = json!({ "name": name, "labels": { PROJECT_LABEL: PROJECT } });
        if let Some(namespace) = namespace {
            set(&mut metadata, "namespace", namespace.into());
        }
        let resource = kind.resource();
        let body = Map::from_iter([
            ("apiVersion".to_owned(), resource.api_version.into()),
            ("kind".to_owned(), resource.kind.into()),
            ("metadata".to_owned(), metadata),
        ]);
        Self {
            key: ObjectKey::new(kind, namespace, name),
            body,
            kept: &[],
        }
    }

    fn system(kind: Kind, name: &str) -> Self {
        Self::new(kind, Some(SYSTEM), name)
    }

    fn with(mut self, field: &str, value: Value) -> Self {
        self.body.insert(field.to_owned(), value);
        self
    }

    fn label(self, label: &str, value: &str) -> Self {
        self.metadata("labels", label, value)
    }

    fn annotation(self, annotation: &str, value: &str) -> Self {
        self.metadata("annotations", annotation, value)
    }

    fn keeping(mut self, kept: &'static [&'static str]) -> Self {
        self.kept = kept;
        self
    }

    fn metadata(mut self, map: &str, key: &str, value: &str) -> Self {
        if let Some(Value::Object(metadata)) = self.body.get_mut("metadata") {
            let map = metadata.entry(map).or_insert_with(|| json!({}));
            set(map, key, value.into());
        }
        self
    }
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(fields) = object {
        fields.insert(key.to_owned(), value);
    }
}

/// A document as the tools of Kubernetes write it: YAML with sorted keys.
fn yaml(document: &Value) -> String {
    serde_saphyr::to_string(document).expect("plain JSON can always be written as YAML")
}

#[cfg(test)]
pub(super) mod tests {
    use butler_api::types::KubeVersion;

    use super::{
        super::settings::{ControlPlaneEndpoint, KubeletSettings},
        *,
    };

    pub(in super::super) fn settings() -> TenantSettings {
        TenantSettings {
            cluster_name: "ta".into(),
            version: KubeVersion::new(1, 35, 4),
            cluster_domain: "cluster.local".into(),
            pod_cidr: "10.43.0.0/16".parse().unwrap(),
            service_cidr: "10.96.0.0/16".parse().unwrap(),
            dns_service_ips: Vec::new(),
            endpoint: ControlPlaneEndpoint {
                host: "10.40.0.201".into(),
                port: 6443,
            },
            ca_certificate: "-----BEGIN CERTIFICATE-----\n".into(),
            kubelet: KubeletSettings::default(),
            core_dns: Some(AddonImage::default()),
            kube_proxy: Some(AddonImage::default()),
            konnectivity: None,
            refused_writes: None,
            registry: "registry.k8s.io".into(),
        }
    }

    fn names(keys: &[ObjectKey]) -> Vec<String> {
        keys.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn everything_carries_our_label_and_no_object_is_planned_twice() {
        let plan = plan(&settings()).unwrap();
        let mut seen = BTreeSet::new();
        for object in &plan.objects {
            assert_eq!(
                object.body["metadata"]["labels"][PROJECT_LABEL], PROJECT,
                "{}",
                object.key
            );
            assert!(seen.insert(&object.key), "{} is planned twice", object.key);
        }
    }

    #[test]
    fn an_addon_that_is_off_is_retired_whole_and_nothing_else_is() {
        let on = plan(&settings()).unwrap();
        let off = plan(&TenantSettings {
            kube_proxy: None,
            ..settings()
        })
        .unwrap();
        let gone: Vec<_> = on
            .objects
            .iter()
            .map(|object| object.key.clone())
            .filter(|key| off.objects.iter().all(|object| object.key != *key))
            .collect();
        assert_eq!(gone.len(), 6, "{:?}", names(&gone));
        assert!(gone.iter().all(|key| off.retired.contains(key)));
        assert!(gone.iter().all(|key| !on.retired.contains(key)));
    }

    #[test]
    fn agents_that_change_their_mode_leave_the_other_kind() {
        let agents = |mode| KonnectivityAgents {
            image: "agent:v1".into(),
            mode,
            server_host: "10.40.0.201".into(),
            server_port: 8132,
            host_network: false,
            tolerations: Vec::new(),
            extra_args: Vec::new(),
        };
        let plan = |mode| {
            plan(&TenantSettings {
                konnectivity: Some(agents(mode)),
                ..settings()
            })
            .unwrap()
        };
        let retired = |mode| names(&plan(mode).retired);
        let (daemons, deployment) = (
            "DaemonSet kube-system/konnectivity-agent".to_owned(),
            "Deployment kube-system/konnectivity-agent".to_owned(),
        );
        assert!(retired(AgentMode::DaemonSet).contains(&deployment));
        assert!(!retired(AgentMode::DaemonSet).contains(&daemons));
        assert!(retired(AgentMode::Deployment(2)).contains(&daemons));
        assert!(!retired(AgentMode::Deployment(2)).contains(&deployment));
    }
}
