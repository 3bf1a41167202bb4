//! The objects that run a control plane in the management cluster. Pure: what is written here was decided
//! by [`crate::spec`], [`crate::endpoint`] and [`upgrade`], and is compared with the cluster elsewhere.
//!
//! # Start order and readiness
//!
//! All containers start at once. The controller manager and the scheduler wait for their API server in the
//! acquisition of their leases, for as long as it takes, and do not end; for that, leader election must be
//! on, and both authorities must be given as files, because otherwise they look them up in the API and end
//! when it does not answer. So no order of containers is needed, no back-off delays a start, and a store
//! that was away for an hour costs a restart each and no crash loop.
//!
//! A pod is ready when its API server answers `/readyz` and the other containers have started. Those two
//! have no readiness probe: a controller manager in trouble must not take the API away from clients.
//! Their start-up probes keep a process that ends at once, for example because of a wrong flag, from ever
//! counting as ready, so such a rollout stops before an old pod goes.
//!
//! The Service does not publish pods that are not ready: it would send clients to API servers that do not
//! listen yet, and to ones that are about to end.
//!
//! # No failed request
//!
//! New pods are ready before an old one is told to stop. That one fails `/readyz`, serves on for
//! [`api_server`]'s delay while the Service forgets it, answers what is in flight, tells connections that
//! are still open to go elsewhere, and ends. The template depends on neither the number of replicas nor
//! what is not mounted, so scaling and foreign Secrets replace no pod.
//! (With a tunnel it depends on the number of replicas, which its agents must know.)

use std::{collections::BTreeMap, fmt};

use butler_api::{steward::TenantControlPlane, types::KubeVersion};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{ConfigMap, Secret, Service},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference},
};
use kube::Resource as _;
use serde::Serialize;

pub mod admission;
mod api_server;
mod args;
pub(crate) mod configs;
mod content;
pub mod encryption;
pub mod encryption_keys;
pub(crate) mod files;
mod managers;
mod pod;
mod service;
pub mod state;
pub mod upgrade;

pub use service::service;
use state::{Progress, Rollout};
use upgrade::{Decision, Outcome};

use crate::{
    endpoint::Endpoint,
    names::{self, Part},
    spec::{ControlPlane, Metadata, Strategy},
};

/// Seconds without progress after which a rollout counts as failed: longer than a start may take.
pub const PROGRESS_DEADLINE: i32 = 300;

/// What the objects depend on besides spec and endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// The release to run; [`roll`] decides it.
    pub version: KubeVersion,
    /// Where the state is kept.
    pub store: Store,
    /// Hashes of what is mounted.
    pub hashes: Hashes,
    /// Files of users that the API server reads.
    pub audit: AuditFiles,
    /// What is known about encryption at rest.
    pub encryption: encryption::Facts,
    /// The pods that failed, to be kept on the Deployment; [`roll`] decides it.
    pub failed_rollout: Option<String>,
}

/// What users keep in objects of their own. Pods mount a copy: what somebody breaks reaches no API server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AuditFiles {
    /// What to record, where the spec refers to a `ConfigMap`.
    pub policy: Option<String>,
    /// Kubeconfig of the webhook that receives the records.
    pub webhook: Option<Vec<u8>>,
}

impl fmt::Debug for AuditFiles {
    /// A kubeconfig has credentials in it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AuditFiles")
            .field("policy", &self.policy)
            .field("webhook", &self.webhook.is_some())
            .finish()
    }
}

/// A tenant's part of an etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Addresses, such as `https://etcd-0.etcd:2379`.
    pub endpoints: Vec<String>,
    /// Prefix of all keys, with or without its terminator.
    pub prefix: String,
    /// Secret with `ca.crt`, `server.crt` and `server.key`.
    pub certificate_secret: String,
    /// Resources that go to another etcd, which trusts the same certificate and uses the same prefix: the
    /// API server knows one of each.
    pub overrides: Vec<StoreOverride>,
}

/// One resource in another etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOverride {
    /// As `group/resource`, such as `/events`.
    pub resource: String,
    /// Addresses.
    pub endpoints: Vec<String>,
}

/// Hashes of the contents of Secrets and `ConfigMap`s that pods mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    /// The cluster's authority.
    pub ca: String,
    /// The authority behind aggregated APIs.
    pub front_proxy_ca: String,
    /// Keys of service-account tokens.
    pub service_account: String,
    /// What the API server shows its clients.
    pub api_server: String,
    /// What the API server shows kubelets.
    pub kubelet_client: String,
    /// What the API server shows aggregated API servers.
    pub front_proxy_client: String,
    /// What the API server shows its store.
    pub data_store: String,
    /// Kubeconfig of the controller manager.
    pub controller_manager_kubeconfig: String,
    /// Kubeconfig of the scheduler.
    pub scheduler_kubeconfig: String,
    /// Kubeconfig of the tunnel.
    pub konnectivity_kubeconfig: Option<String>,
}

/// The objects of a control plane. Whatever else carries its labels is to be removed.
#[derive(Clone, PartialEq, Serialize)]
pub struct Objects {
    /// Settings of the API server.
    pub config_maps: Vec<ConfigMap>,
    /// Settings of the API server that are secret.
    pub secrets: Vec<Secret>,
    /// The Service.
    pub service: Service,
    /// The pods.
    pub deployment: Deployment,
    /// What keeps enough of them; none with one pod or none.
    pub disruption_budget: Option<PodDisruptionBudget>,
}

impl fmt::Debug for Objects {
    /// Names only: Secrets must not end up in logs.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            config_maps,
            secrets,
            service,
            deployment,
            disruption_budget,
        } = self;
        let names = |metas: Vec<&ObjectMeta>| {
            metas
                .into_iter()
                .filter_map(|meta| meta.name.clone())
                .collect::<Vec<_>>()
        };
        formatter
            .debug_struct("Objects")
            .field(
                "config_maps",
                &names(config_maps.iter().map(|o| &o.metadata).collect()),
            )
            .field(
                "secrets",
                &names(secrets.iter().map(|o| &o.metadata).collect()),
            )
            .field("service", &service.metadata.name)
            .field("deployment", &deployment.metadata.name)
            .field("disruption_budget", &disruption_budget.is_some())
            .finish()
    }
}

/// What runs now.
#[derive(Clone, Copy, Debug)]
pub struct Current<'a> {
    /// The release that was reported as installed.
    pub installed: Option<KubeVersion>,
    /// The pods; none before there are any.
    pub rollout: Option<&'a Rollout>,
    /// The tenant's nodes; none when the tenant could not be asked.
    pub nodes: Option<&'a [upgrade::Node]>,
}

/// Chooses the release to run and makes the objects for it.
///
/// `version` and `failed_rollout` of the inputs are decided here. A failed attempt is known by the pods it
/// would make, so it is tried again as soon as anything about them changes, and not when the number of
/// replicas does.
pub fn roll(
    spec: &ControlPlane,
    endpoint: &Endpoint,
    inputs: &Inputs,
    current: &Current<'_>,
) -> (Decision, Objects) {
    let at = |version, failed_rollout| {
        let inputs = Inputs {
            version,
            failed_rollout,
            ..inputs.clone()
        };
        objects(spec, endpoint, &inputs)
    };
    let wanted = at(spec.version, None);
    let attempt = fingerprint(&wanted.deployment);
    let rollout = current.rollout;
    let decision = upgrade::decide(
        spec.version,
        &upgrade::Facts {
            installed: rollout.map_or(current.installed, |rollout| {
                rollout.installed(current.installed)
            }),
            deployed: rollout.and_then(|rollout| rollout.version),
            progress: rollout.map_or(Progress::Underway, |rollout| rollout.progress),
            nodes: current.nodes,
            failed: rollout.is_some_and(|rollout| rollout.failed.as_ref() == Some(&attempt)),
            asleep: spec.is_asleep(),
        },
    );
    let failed = (decision.outcome == Outcome::RolledBack).then_some(attempt);
    if decision.version == spec.version && failed.is_none() {
        return (decision, wanted);
    }
    let objects = at(decision.version, failed);
    (decision, objects)
}

/// The objects of a control plane.
pub fn objects(spec: &ControlPlane, endpoint: &Endpoint, inputs: &Inputs) -> Objects {
    let config_maps = configs::all(spec, inputs).into_iter();
    let config_map = |(part, file, content): (Part, &str, String)| ConfigMap {
        metadata: object(spec, part.name(&spec.identity.name), part.suffix(), None),
        data: Some(BTreeMap::from([(file.to_owned(), content)])),
        ..ConfigMap::default()
    };
    let webhook = configs::audit_webhook(spec, inputs);
    let webhook =
        webhook.map(|file| secret(spec, Part::AuditWebhook, configs::AUDIT_WEBHOOK, file));
    let encryption = encryption_config(spec, &inputs.encryption);
    Objects {
        config_maps: config_maps.map(config_map).collect(),
        secrets: encryption.into_iter().chain(webhook).collect(),
        service: service(spec),
        deployment: deployment(spec, endpoint, inputs),
        disruption_budget: service::disruption_budget(spec),
    }
}

/// The Secret with the next encryption configuration.
fn encryption_config(spec: &ControlPlane, facts: &encryption::Facts) -> Option<Secret> {
    let plan = encryption::plan(spec, facts);
    let file = plan.config?.to_string().into_bytes();
    Some(marked_encryption_config(spec, file, plan.rewritten))
}

/// The Secret with an encryption configuration and the mark of what was last written once more under it.
pub fn marked_encryption_config(
    spec: &ControlPlane,
    file: Vec<u8>,
    rewritten: Option<String>,
) -> Secret {
    let mut secret = secret(spec, Part::EncryptionConfig, encryption::FILE, file);
    secret.metadata.annotations =
        rewritten.map(|mark| BTreeMap::from([(names::ENCRYPTION_REWRITTEN.to_owned(), mark)]));
    secret
}

/// Whether all pods run with this content of something that they mount.
pub fn is_rolled_out(deployment: Option<&Deployment>, part: Part, content: Option<&[u8]>) -> bool {
    let (Some(deployment), Some(content)) = (deployment, content) else {
        return false;
    };
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let metadata = template.and_then(|template| template.metadata.as_ref());
    let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
    let key = format!("{}{}", names::CONTENT, part.suffix());
    let mounted = annotations.and_then(|annotations| annotations.get(&key));
    mounted == Some(&content::of(content)) && Rollout::of(deployment).progress == Progress::Complete
}

/// A Secret with one file.
fn secret(spec: &ControlPlane, part: Part, file: &str, content: Vec<u8>) -> Secret {
    Secret {
        metadata: object(spec, part.name(&spec.identity.name), part.suffix(), None),
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from([(file.to_owned(), ByteString(content))])),
        ..Secret::default()
    }
}

fn deployment(spec: &ControlPlane, endpoint: &Endpoint, inputs: &Inputs) -> Deployment {
    let name = &spec.identity.name;
    let mut metadata = object(
        spec,
        name.clone(),
        "deployment",
        Some(&spec.pods.deployment_metadata),
    );
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(
        names::DEPLOYED_VERSION.to_owned(),
        inputs.version.to_string(),
    );
    let failed = inputs.failed_rollout.clone();
    annotations.extend(failed.map(|failed| (names::FAILED_ROLLOUT.to_owned(), failed)));
    let (type_, rolling_update) = match &spec.pods.strategy {
        Strategy::Recreate => ("Recreate", None),
        Strategy::Rolling {
            max_surge,
            max_unavailable,
        } => (
            "RollingUpdate",
            Some(RollingUpdateDeployment {
                max_surge: Some(max_surge.clone()),
                max_unavailable: Some(max_unavailable.clone()),
            }),
        ),
    };
    Deployment {
        metadata,
        spec: Some(DeploymentSpec {
            progress_deadline_seconds: Some(PROGRESS_DEADLINE),
            replicas: Some(spec.replicas.into()),
            // Nobody goes back by hand: what runs follows the spec.
            revision_history_limit: Some(1),
            selector: LabelSelector {
                match_labels: Some(names::selector(name)),
                ..LabelSelector::default()
            },
            strategy: Some(DeploymentStrategy {
                rolling_update,
                type_: Some(type_.to_owned()),
            }),
            template: pod::template(spec, endpoint, inputs),
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// What stands for the pods of a Deployment: equal for equal templates, whatever the number of replicas.
pub fn fingerprint(deployment: &Deployment) -> String {
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let value =
        serde_json::to_value(template).expect("objects of Kubernetes can be written as JSON");
    content::of_value(&value)
}

/// Metadata of an object of a control plane, which ends with it.
fn object(
    spec: &ControlPlane,
    name: String,
    component: &str,
    extra: Option<&Metadata>,
) -> ObjectMeta {
    let identity = &spec.identity;
    let extra = extra.cloned().unwrap_or_default();
    let mut labels = extra.labels;
    labels.extend(names::labels(&identity.name, component));
    ObjectMeta {
        name: Some(name),
        namespace: Some(identity.namespace.clone()),
        labels: Some(labels),
        annotations: Some(extra.annotations).filter(|annotations| !annotations.is_empty()),
        owner_references: Some(vec![OwnerReference {
            api_version: TenantControlPlane::api_version(&()).into_owned(),
            kind: TenantControlPlane::kind(&()).into_owned(),
            name: identity.name.clone(),
            uid: identity.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
pub(crate) mod tests;
