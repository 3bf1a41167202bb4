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
use butler_runtime::{apply::Outcome as Applied, conditions::Verdict, error::chain};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::ResourceExt;

use super::{
    Controller, Reach,
    certificates::Certificates,
    error::Error,
    own_kubeconfig,
    owning::{Taken, is_ours},
    progress::Progress,
    report::Facts,
    settings::Prepared,
};
use crate::{
    data_store::Store,
    endpoint::Endpoint,
    names::Part,
    spec::{ControlPlane, Konnectivity},
    store,
    tenant::{
        self, TenantPlan, TenantSettings,
        nodes::node_versions,
        settings::{
            AddonImage, AgentMode, CgroupDriver, ControlPlaneEndpoint, KonnectivityAgents,
            KubeletSettings, RefusedWrites,
        },
    },
    workload::{
        self, Current, Hashes, Inputs, Objects, roll,
        state::{self, Progress as Rolled, Rollout},
        upgrade::{Decision, Node, Outcome},
    },
};

/// How long a tenant may take to list a page of its nodes.
const NODES: Duration = Duration::from_secs(5);

impl Controller {
    /// The pods run with the right settings; the release that serves, if one does.
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
        prepared: &Prepared,
        held: &[Secret],
        progress: &mut Progress,
        facts: &mut Facts,
    ) -> Result<Option<KubeVersion>, Error> {
        const STAGE: &str = "WorkloadReady";
        let live = self.deployment(spec);
        if live
            .as_deref()
            .is_some_and(|live| !is_ours(live, &spec.identity))
        {
            progress.taken(STAGE, "Deployment", &spec.identity.name);
            return Ok(None);
        }
        let before = rollout(live.as_deref());
        let nodes = self.nodes(raw, spec, certificates).await;
        let current = Current {
            installed: installed(raw),
            rollout: before.as_ref(),
            nodes: nodes.as_deref(),
        };
        let inputs = inputs(spec, store, identity, certificates, prepared);
        let (decision, objects) = roll(spec, endpoint, &inputs, &current);
        let applied = self
            .apply_objects(spec, &objects, live.as_deref(), held)
            .await?;
        let (settled, made) = match applied {
            Ok(applied) => applied,
            Err(Taken { kind, name }) => {
                progress.taken(STAGE, &kind, &name);
                return Ok(None);
            }
        };
        // What pods of before still mount must stay until they are gone.
        if settled && before.is_some_and(|before| before.progress == Rolled::Complete) {
            self.prune(spec, &objects, held).await?;
        }
        // What was just made is known before the watch tells of it, so that it is reported once.
        let live = made.map(Arc::new).or(live);

        let report = pods_report(raw, spec, live.as_deref());
        facts.state = Some(report.state);
        facts.installed = report.installed.map(|version| version.to_string());
        facts.deployment.clone_from(&live);
        let serving = serves(report.state);
        if serving {
            progress.passed(STAGE, "Serving", report.message);
        } else if report.state == State::Sleeping {
            progress.stopped(STAGE, "Sleeping", report.message);
        } else {
            progress.stopped(STAGE, "PodsNotReady", report.message);
        }
        progress.also(up_to_date(decision));
        Ok(report.installed.filter(|_| serving))
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
        let client = self.tenants.client(&spec.identity.uid, kubeconfig).await?;
        let versions = match node_versions(&client, NODES).await {
            Ok(versions) => versions,
            Err(error) => {
                tracing::warn!(error = chain(&error), "could not see the tenant's nodes");
                return None;
            }
        };
        let known = [versions.oldest, versions.newest].into_iter().flatten();
        let known = known.map(|node| Node {
            name: node.node,
            kubelet: Some(node.version),
        });
        let unknown = versions.unknown.into_iter().map(|name| Node {
            name,
            kubelet: None,
        });
        Some(known.chain(unknown).collect())
    }

    /// Settings first, then the pods that mount them; whether the pods stood so already, and the Deployment if it is
    /// new. It ends where an object of somebody else has a name.
    async fn apply_objects(
        &self,
        spec: &ControlPlane,
        objects: &Objects,
        live: Option<&Deployment>,
        held: &[Secret],
    ) -> Result<Result<(bool, Option<Deployment>), Taken>, Error> {
        // No `..`: a new kind must be given its place in the order here. The Service stands already.
        let Objects {
            config_maps,
            secrets,
            service: _,
            deployment,
            disruption_budget,
        } = objects;
        let namespace = Some(spec.identity.namespace.as_str());
        for wanted in config_maps {
            let live = self.feeds.config_maps.get(namespace, &wanted.name_any());
            if let Err(taken) = self.own(wanted, live.as_deref(), &spec.identity).await? {
                return Ok(Err(taken));
            }
        }
        for wanted in secrets {
            let seen = held
                .iter()
                .find(|held| held.name_any() == wanted.name_any());
            // The encryption configuration follows from what was read: an old view must lose.
            match seen {
                None => self.applier.create(wanted).await?,
                Some(seen) => {
                    self.applier.apply_over(wanted, seen).await?;
                }
            }
        }
        let (settled, made) = match live {
            None => match self.applier.apply_new(deployment).await? {
                Some(made) => (false, Some(made)),
                None => return Ok(Err(Taken::of(deployment))),
            },
            Some(live) => {
                let outcome = self.applier.apply(deployment, Some(live)).await?;
                (outcome == Applied::Unchanged, None)
            }
        };
        if let Some(wanted) = disruption_budget {
            let live = self.feeds.budgets.get(namespace, &wanted.name_any());
            if let Err(taken) = self.own(wanted, live.as_deref(), &spec.identity).await? {
                return Ok(Err(taken));
            }
        }
        Ok(Ok((settled, made)))
    }
}

fn inputs(
    spec: &ControlPlane,
    store: &Store,
    identity: &store::Identity,
    certificates: &Certificates,
    prepared: &Prepared,
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
            overrides: prepared.overrides.clone(),
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
            konnectivity_kubeconfig: spec
                .konnectivity
                .is_some()
                .then(|| hash(SecretKind::KonnectivityKubeconfig)),
        },
        audit: prepared.audit.clone(),
        encryption: prepared.encryption.clone(),
        failed_rollout: None,
    }
}

/// What the tenant cluster should hold, and the kubeconfig to bring it there with. Nodes follow the release that is
/// running: no kubelet and no kube-proxy may be newer than its API server.
pub(super) fn tenant_plan<'a>(
    spec: &ControlPlane,
    running: KubeVersion,
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
        version: running,
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
        konnectivity: spec
            .konnectivity
            .as_ref()
            .map(|tunnel| agents(tunnel, running, endpoint)),
        refused_writes: spec.is_write_limited().then_some(RefusedWrites {
            creation: spec.write_permissions.block_creation,
            update: spec.write_permissions.block_update,
            deletion: spec.write_permissions.block_deletion,
        }),
        registry: spec.images.registry.clone(),
    };
    let plan = tenant::plan(&settings).map_err(Error::Kubelet)?;
    Ok(Some((kubeconfig, plan)))
}

/// The ends of the tunnel in the tenant cluster: they dial the host that everybody does.
fn agents(tunnel: &Konnectivity, version: KubeVersion, endpoint: &Endpoint) -> KonnectivityAgents {
    let agent = &tunnel.agent;
    KonnectivityAgents {
        image: agent.image(version),
        mode: agent
            .replicas
            .map_or(AgentMode::DaemonSet, AgentMode::Deployment),
        server_host: endpoint.host.to_string(),
        server_port: endpoint.konnectivity_port.unwrap_or(tunnel.port),
        host_network: agent.host_network,
        tolerations: agent.tolerations.clone(),
        extra_args: agent.flags.clone(),
    }
}

/// Whether the release that is wanted is the one that runs. It keeps nobody waiting: what serves is ready.
fn up_to_date(decision: Decision) -> Verdict {
    let reason = decision.outcome.reason();
    match decision.outcome {
        Outcome::Settled => Verdict::yes("UpToDate", reason, decision.message),
        Outcome::Upgrading | Outcome::Refused | Outcome::RolledBack | Outcome::Waiting => {
            Verdict::no("UpToDate", reason, decision.message)
        }
    }
}

/// The release that was reported as installed.
pub(super) fn installed(raw: &TenantControlPlane) -> Option<KubeVersion> {
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
