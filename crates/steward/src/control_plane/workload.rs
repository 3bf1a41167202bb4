//! The pods of a control plane, and what its tenant cluster is told: from spec and findings to objects.

use std::{sync::Arc, time::Duration};

use butler_api::steward::{
    TenantControlPlane,
    tenant_control_plane::{
        addons::ImageOverride, kubernetes::CgroupDriver as ApiDriver, status::State,
    },
};
use butler_api::types::KubeVersion;
use butler_pki::SecretKind;
use butler_runtime::error::chain;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, ResourceExt, api::ListParams};

use super::{
    Controller, Reach, certificates::Certificates, error::Error, own_kubeconfig,
    progress::Progress, report::Facts,
};
use crate::{
    data_store::Store,
    endpoint::Endpoint,
    names::{self, Part},
    spec::ControlPlane,
    store,
    tenant::{
        self, TenantPlan, TenantSettings,
        nodes::node_versions,
        settings::{AddonImage, CgroupDriver, ControlPlaneEndpoint, KubeletSettings},
    },
    workload::{
        self, Current, Hashes, Inputs, Objects, encryption, roll,
        state::{self, Rollout},
        upgrade::{Node, Outcome},
    },
};

/// How long a tenant may take to list a page of its nodes.
const NODES: Duration = Duration::from_secs(5);

impl Controller {
    /// The pods run the right release with the right settings; `true` when they serve.
    #[expect(
        clippy::too_many_arguments,
        reason = "a stage takes what the earlier ones found"
    )]
    pub(super) async fn workload(
        &self,
        raw: &TenantControlPlane,
        spec: &ControlPlane,
        endpoint: &Endpoint,
        store: &Store,
        identity: &store::Identity,
        certificates: &Certificates,
        progress: &mut Progress,
        facts: &mut Facts,
    ) -> Result<bool, Error> {
        const STAGE: &str = "WorkloadReady";
        let live = self.deployment(spec);
        let before = rollout(live.as_deref());
        let nodes = self.nodes(raw, spec, certificates).await;
        let current = Current {
            installed: installed(raw),
            rollout: before.as_ref(),
            nodes: nodes.as_deref(),
        };
        let inputs = inputs(spec, store, identity, certificates);
        let (decision, objects) = roll(spec, endpoint, &inputs, &current);
        // What was just made is known before the watch tells of it, so that it is reported once.
        let made = self.apply_objects(spec, &objects, live.as_deref()).await?;
        let live = made.map(Arc::new).or(live);

        let report = pods_report(raw, spec, live.as_deref());
        facts.state = Some(report.state);
        facts.installed = report.installed.map(|version| version.to_string());
        facts.deployment = live.as_deref().cloned();
        let serving = serves(report.state);
        match decision.outcome {
            Outcome::Refused | Outcome::RolledBack | Outcome::Waiting => {
                progress.stopped(STAGE, decision.outcome.reason(), decision.message);
            }
            Outcome::Settled | Outcome::Upgrading if serving => {
                progress.passed(STAGE, decision.outcome.reason(), report.message);
            }
            Outcome::Settled | Outcome::Upgrading => {
                progress.stopped(STAGE, "PodsNotReady", report.message);
            }
        }
        Ok(serving)
    }

    /// The tenant's nodes, asked only when another release is wanted.
    async fn nodes(
        &self,
        raw: &TenantControlPlane,
        spec: &ControlPlane,
        certificates: &Certificates,
    ) -> Option<Vec<Node>> {
        if installed(raw).is_none_or(|installed| installed == spec.version) {
            return None;
        }
        let kubeconfig = own_kubeconfig(certificates, self.settings.reach)?;
        let client = self
            .tenants
            .client(&spec.identity.uid, kubeconfig, self.clock.now())
            .await?;
        let versions = match node_versions(&client, NODES).await {
            Ok(versions) => versions,
            Err(error) => {
                tracing::warn!(error = chain(&error), "could not see the tenant's nodes");
                return None;
            }
        };
        let nodes = [versions.oldest, versions.newest].into_iter().flatten();
        Some(
            nodes
                .map(|node| Node {
                    name: node.node,
                    kubelet: node.version,
                })
                .collect(),
        )
    }

    /// Settings first, then the pods that mount them, then what is no longer wanted; the Deployment if it is new.
    async fn apply_objects(
        &self,
        spec: &ControlPlane,
        objects: &Objects,
        live: Option<&Deployment>,
    ) -> Result<Option<Deployment>, Error> {
        // No `..`: a new kind must be given its place in the order here. The Service stands already.
        let Objects {
            config_maps,
            secrets,
            service: _,
            deployment,
            disruption_budget,
        } = objects;
        let held = self
            .held::<ConfigMap>(spec, !config_maps.is_empty())
            .await?;
        for wanted in config_maps {
            let live = held
                .iter()
                .find(|held| held.name_any() == wanted.name_any());
            self.applier.apply(wanted, live).await?;
        }
        for wanted in secrets {
            self.applier.apply::<Secret>(wanted, None).await?;
        }
        let made = match live {
            None => Some(self.applier.apply_new(deployment).await?),
            Some(live) => {
                self.applier.apply(deployment, Some(live)).await?;
                None
            }
        };
        if let Some(wanted) = disruption_budget {
            let held = self.held::<PodDisruptionBudget>(spec, true).await?;
            let live = held
                .iter()
                .find(|held| held.name_any() == wanted.name_any());
            self.applier.apply(wanted, live).await?;
        }
        Ok(made)
    }

    /// What there is of a kind that few control planes have: read when needed, not watched.
    async fn held<K>(&self, spec: &ControlPlane, needed: bool) -> Result<Vec<K>, Error>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        if !needed {
            return Ok(Vec::new());
        }
        let identity = &spec.identity;
        let ours = ListParams::default().labels(&format!("{}={}", names::NAME, identity.name));
        let api: Api<K> = Api::namespaced(self.applier.client().clone(), &identity.namespace);
        let list = api.list(&ours).await;
        let failed = butler_runtime::error::ApiError::of("list", &K::kind(&()), &identity.name);
        Ok(list.map_err(failed)?.items)
    }
}

fn inputs(
    spec: &ControlPlane,
    store: &Store,
    identity: &store::Identity,
    certificates: &Certificates,
) -> Inputs {
    let hash = |kind: SecretKind| {
        let content = certificates.contents.get(&kind);
        content
            .map(butler_pki::Content::checksum)
            .unwrap_or_default()
    };
    Inputs {
        version: spec.version,
        store: workload::Store {
            endpoints: store
                .endpoints
                .iter()
                .map(|host| format!("https://{host}"))
                .collect(),
            prefix: identity.etcd_prefix(),
            certificate_secret: Part::DataStoreCertificate.name(&spec.identity.name),
            overrides: Vec::new(),
        },
        hashes: Hashes {
            ca: hash(SecretKind::Ca),
            front_proxy_ca: hash(SecretKind::FrontProxyCa),
            service_account: hash(SecretKind::ServiceAccount),
            api_server: hash(SecretKind::ApiServer),
            kubelet_client: hash(SecretKind::KubeletClient),
            front_proxy_client: hash(SecretKind::FrontProxyClient),
            data_store: hash(SecretKind::DataStore),
            controller_manager_kubeconfig: hash(SecretKind::ControllerManagerKubeconfig),
            scheduler_kubeconfig: hash(SecretKind::SchedulerKubeconfig),
            konnectivity_kubeconfig: None,
            audit_policy: None,
            audit_webhook: None,
        },
        encryption: encryption::Facts::default(),
        failed_rollout: None,
    }
}

/// What the tenant cluster should hold, and the kubeconfig to bring it there with.
pub(super) fn tenant_plan<'a>(
    spec: &ControlPlane,
    endpoint: &Endpoint,
    certificates: &'a Certificates,
    reach: Reach,
) -> Result<Option<(&'a [u8], TenantPlan)>, Error> {
    let kubeconfig = own_kubeconfig(certificates, reach);
    let authority = certificates.file(SecretKind::Ca, "ca.crt");
    let (Some(kubeconfig), Some(authority)) = (kubeconfig, authority) else {
        return Ok(None);
    };
    let image = |addon: &ImageOverride| AddonImage {
        repository: addon.image_repository.clone(),
        tag: addon.image_tag.clone(),
    };
    let settings = TenantSettings {
        cluster_name: spec.identity.name.clone(),
        version: spec.version,
        cluster_domain: spec.network.cluster_domain.clone(),
        pod_cidr: spec.network.pod_cidr,
        service_cidr: spec.network.service_cidr,
        dns_service_ips: spec.network.dns_service_ips.clone(),
        endpoint: ControlPlaneEndpoint {
            host: endpoint.host.to_string(),
            port: endpoint.port,
        },
        // A certificate is text; anything else was refused when it was judged.
        ca_certificate: std::str::from_utf8(authority)
            .unwrap_or_default()
            .to_owned(),
        kubelet: KubeletSettings {
            cgroup_driver: spec.kubelet.cgroup_driver.map(|driver| match driver {
                ApiDriver::Systemd => CgroupDriver::Systemd,
                ApiDriver::Cgroupfs => CgroupDriver::Cgroupfs,
            }),
            patches: spec.kubelet.patches.clone(),
        },
        core_dns: spec.addons.core_dns.as_ref().map(image),
        kube_proxy: spec.addons.kube_proxy.as_ref().map(image),
        konnectivity: None,
        registry: spec.images.registry.clone(),
    };
    let plan = tenant::plan(&settings).map_err(Error::Kubelet)?;
    Ok(Some((kubeconfig, plan)))
}

/// The release that was reported as installed.
fn installed(raw: &TenantControlPlane) -> Option<KubeVersion> {
    let resources = raw.status.as_ref()?.kubernetes_resources.as_ref()?;
    resources.version.as_ref()?.version.as_ref()?.parse().ok()
}

/// Whether pods of the control plane serve.
fn serves(state: State) -> bool {
    match state {
        State::Ready | State::WriteLimited | State::Upgrading => true,
        State::Provisioning
        | State::CertificateAuthorityRotating
        | State::Migrating
        | State::NotReady
        | State::Sleeping
        | State::Unknown => false,
    }
}

/// What a Deployment says, where there is one.
fn rollout(deployment: Option<&Deployment>) -> Option<Rollout> {
    deployment.map(Rollout::of)
}

/// The report about the pods.
fn pods_report(
    raw: &TenantControlPlane,
    spec: &ControlPlane,
    deployment: Option<&Deployment>,
) -> state::Report {
    state::report(spec, rollout(deployment).as_ref(), installed(raw))
}
