//! The end of an addon: its release goes first, unless the cluster is gone and took it along.

use butler_addons::{
    plan::{self, Step, World},
    request::{self, ReleaseId},
};
use butler_api::{
    butler::{TenantAddon, TenantCluster, tenant_cluster::ManagementMode},
    names::{ADDON_FINALIZER, FORCE_DELETE},
};
use butler_helm::{look, namespace, release};
use butler_runtime::{
    controller::Wake,
    error::{ApiError, chain},
    finalizers,
};
use butler_steward::tenant::client::connect;
use kube::{Api, Client, ResourceExt};

use super::{
    Controller, PassError, dependencies,
    keep::{Fate, withheld},
    key, resolve, say,
};
use crate::{
    slim::{ClusterSummary, ClusterSummaryStatus},
    tenant_addresses::services::early_kubeconfig,
};

impl Controller {
    pub(super) async fn end(&self, addon: &TenantAddon) -> Result<Wake, PassError> {
        if !finalizers::has(addon, ADDON_FINALIZER) {
            return Ok(Wake::OnChange);
        }
        if addon
            .annotations()
            .get(FORCE_DELETE)
            .is_some_and(|said| said == "true")
        {
            return self.let_go(addon).await;
        }
        // Live: a watch that is behind would leave a release on a cluster that is there.
        let clusters: Api<TenantCluster> = Api::namespaced(
            self.applier.client().clone(),
            &addon.namespace().unwrap_or_default(),
        );
        let name = &addon.spec.cluster_ref.name;
        let cluster = clusters.get_opt(name).await;
        let cluster = cluster.map_err(ApiError::of("get", "TenantCluster", name))?;
        let keeps = |cluster: &TenantCluster| is_past_addons(cluster) || leaves_releases(cluster);
        let Some(cluster) = cluster.filter(|cluster| !keeps(cluster)) else {
            return self.let_go(addon).await;
        };
        let kept = match self.fate(addon, &cluster) {
            Fate::Goes => None,
            Fate::Renewed => return self.hand_on(addon, &cluster).await,
            Fate::Withheld(why) => Some(why),
        };
        if let Some(other) = dependencies::goes_before(addon, &self.siblings(addon)) {
            let report = say::leaving(
                format!("waits for TenantAddon {other} to go"),
                Wake::After(say::ASK),
            );
            return self.report(addon, report).await;
        }
        match self.remove(addon, &summary(&cluster), kept.is_some()).await {
            Ok(Some(Step::Refuse)) => {
                let why = kept.unwrap_or_default();
                self.report(addon, withheld(&why)).await
            }
            Ok(Some(step)) => {
                let (message, wake) = match step {
                    Step::Retry(failure) => (failure.message, Wake::After(say::ASK)),
                    _ => ("its release is being removed".to_owned(), Wake::OnChange),
                };
                self.report(addon, say::leaving(message, wake)).await
            }
            Ok(None) => self.let_go(addon).await,
            Err(error) => {
                let message = format!(
                    "the release cannot be removed: {}; annotate with {FORCE_DELETE}=true to leave it there",
                    chain(&error)
                );
                self.report(addon, say::leaving(message, Wake::After(say::ASK)))
                    .await
            }
        }
    }

    /// Takes the next step; nothing when the release is gone. One that is kept is not touched while it stands.
    async fn remove(
        &self,
        addon: &TenantAddon,
        cluster: &ClusterSummary,
        kept: bool,
    ) -> Result<Option<Step>, RemoveError> {
        let found = early_kubeconfig(self.applier.client(), self.reach, cluster).await?;
        let Some((_, kubeconfig)) = found else {
            let installed = addon
                .status
                .as_ref()
                .is_some_and(|status| status.helm_release.is_some());
            return if installed {
                Err(RemoveError::NotReady)
            } else {
                Ok(None)
            };
        };
        let client = connect(&kubeconfig).await?;
        let definition = self.definition(addon);
        let target = resolve::release(addon, definition.as_deref());
        if kept && self.has_release(addon, &client, &target).await? {
            return Ok(Some(Step::Refuse));
        }
        Ok(self
            .remove_release(addon, &client, kubeconfig, target)
            .await?)
    }

    /// Takes the next step towards a release that is gone; nothing when it is. `target` is the one that an addon would have
    /// which never said which it has.
    pub(crate) async fn remove_release(
        &self,
        addon: &TenantAddon,
        client: &Client,
        kubeconfig: Vec<u8>,
        target: ReleaseId,
    ) -> Result<Option<Step>, look::LookError> {
        let target = known_release(addon).unwrap_or(target);
        let records = look::records(client, &target).await?;
        let world = World {
            revisions: records.revisions,
            latest: records.latest,
            job: self.engine.pool.job(&key(addon)),
            owner: addon.uid().unwrap_or_default(),
            ..World::default()
        };
        let step = plan::removal(&world, self.clock.now());
        if step == Step::Gone {
            namespace::remove(client, &target.namespace).await?;
            return Ok(None);
        }
        if step == Step::Uninstall {
            let (helm, owner) = (self.engine.helm.clone(), world.owner);
            let timeout = addon.spec.timeout.as_deref().and_then(request::duration);
            let timeout = timeout.unwrap_or(std::time::Duration::from_mins(10));
            self.engine.pool.submit(key(addon), None, async move {
                let cluster = release::Target {
                    kubeconfig: &kubeconfig,
                    owner: &owner,
                };
                release::uninstall(&helm, &cluster, &target, timeout).await
            });
        }
        Ok(Some(step))
    }

    pub(super) async fn let_go(&self, addon: &TenantAddon) -> Result<Wake, PassError> {
        self.engine.pool.forget(&key(addon));
        let api: Api<TenantAddon> = self.applier.beside(addon);
        finalizers::remove(&api, addon, ADDON_FINALIZER).await?;
        Ok(Wake::OnChange)
    }
}

/// The release that an addon said it has: its definition may be gone or say something else by now.
pub(super) fn known_release(addon: &TenantAddon) -> Option<ReleaseId> {
    let status = addon.status.as_ref()?;
    let known = status.helm_release.clone()?;
    let (namespace, name) = known.namespace.zip(known.name)?;
    Some(ReleaseId { namespace, name })
}

/// Whether the deletion of a cluster has gone on without its addons: their releases go with it.
fn is_past_addons(cluster: &TenantCluster) -> bool {
    if cluster.metadata.deletion_timestamp.is_none() {
        return false;
    }
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let mut reasons = conditions.filter(|held| held.type_ == "Ready");
    let is_past = reasons.any(|held| {
        let steps = [
            "DeletingMachines",
            "DeletingControlPlane",
            "DeletingNamespace",
            "DeletionLate",
        ];
        steps.contains(&held.reason.as_str())
    });
    is_past || cluster.annotations().contains_key(FORCE_DELETE)
}

/// Whether releases are left to somebody else. At the end of a cluster they go all the same.
fn leaves_releases(cluster: &TenantCluster) -> bool {
    let mode = cluster.spec.management_policy.mode;
    mode != ManagementMode::Active && cluster.metadata.deletion_timestamp.is_none()
}

/// As much of a cluster as is needed to reach it.
fn summary(cluster: &TenantCluster) -> ClusterSummary {
    let status = cluster.status.clone().unwrap_or_default();
    ClusterSummary {
        metadata: cluster.metadata.clone(),
        status: ClusterSummaryStatus {
            tenant_namespace: status.tenant_namespace,
            kubeconfig_secret_ref: status.kubeconfig_secret_ref,
            ..ClusterSummaryStatus::default()
        },
        ..ClusterSummary::default()
    }
}

/// Why a release could not be removed.
#[derive(Debug, thiserror::Error)]
enum RemoveError {
    #[error("the cluster is not ready")]
    NotReady,
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Kubeconfig(#[from] butler_steward::tenant::client::ClientError),
    #[error(transparent)]
    Look(#[from] look::LookError),
}
