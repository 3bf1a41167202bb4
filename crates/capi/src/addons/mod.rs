//! The addons that come with a tenant cluster: which ones it wants, the `TenantAddon` of each, and how far they are.
//!
//! What an addon installs and where it comes from is said by the catalogue. Here is decided which entries of it a cluster
//! has, in which version, with which values that only the cluster knows, and what waits for what.

mod build;
mod catalogue;
mod removal;
mod repository;
mod state;
mod version;
mod wanted;

use std::collections::BTreeSet;

use butler_api::butler::{
    addon_options::ValuesSource,
    tenant_cluster::{AddonManager, GitopsProvider, ManagementMode},
};
use serde_json::Value;

pub(crate) use build::{needs_kube_proxy, objects};
pub use catalogue::Entry;
pub(crate) use removal::Removal;
pub use removal::{Deletion, agreed};
pub use state::{Facts, State, state};
pub use version::{Unsuited, Version};
pub(crate) use version::{late, unsuited};
pub use wanted::{default_cni, default_load_balancer};

use crate::{names::Identity, spec::Raw};

/// What an addon is for. The order is that in which they are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Pod network.
    Cni,
    /// Addresses for Services.
    LoadBalancer,
    /// Certificates.
    CertManager,
    /// What makes the volumes' provider, where it is not its own chart that does.
    StorageOperator,
    /// Volumes.
    Storage,
    /// Ingress controller.
    Ingress,
    /// Metrics and alerts.
    Monitoring,
    /// What follows a repository.
    Gitops,
    /// The repository that it follows.
    Repository,
}

impl Role {
    /// As it is written on an addon.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cni => "cni",
            Self::LoadBalancer => "load-balancer",
            Self::CertManager => "cert-manager",
            Self::StorageOperator => "storage-operator",
            Self::Storage => "storage",
            Self::Ingress => "ingress",
            Self::Monitoring => "monitoring",
            Self::Gitops => "gitops",
            Self::Repository => "gitops-repository",
        }
    }

    /// What has to work before. Everything needs a network; the rest is what would otherwise wait inside the cluster.
    fn needs(self) -> &'static [Self] {
        match self {
            Self::Cni => &[],
            Self::LoadBalancer | Self::CertManager | Self::StorageOperator | Self::Gitops => {
                &[Self::Cni]
            }
            Self::Storage => &[Self::Cni, Self::StorageOperator],
            Self::Ingress => &[Self::Cni, Self::LoadBalancer],
            Self::Monitoring => &[Self::Cni, Self::Storage],
            Self::Repository => &[Self::Gitops],
        }
    }
}

/// An addon that a cluster wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// What it is for.
    pub role: Role,
    /// Its name in the catalogue.
    pub addon: &'static str,
    /// Its version, and who says so.
    pub version: Version,
    /// The values of the cluster's user.
    pub values: Value,
    /// Secrets of the cluster's user that hold further values.
    pub values_from: Vec<ValuesSource>,
}

/// The addons of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct AddonSet {
    /// Those that it wants, in the order they are installed.
    pub wanted: Vec<Wanted>,
    /// Roles about which something was said: an addon of these that is not wanted may be removed.
    decided: Vec<Role>,
    /// Whether the pod network that is asked for does the work of kube-proxy.
    replaces_kube_proxy: bool,
    /// How far they are ours to change.
    mode: ManagementMode,
    /// Who looks after what is not ours to change.
    others: AddonManager,
    /// The repository that a tool in the cluster is to follow, and is not told of by us.
    repository: Option<String>,
    /// Names of those that its user agreed to remove.
    agreed: BTreeSet<String>,
}

impl AddonSet {
    /// What a cluster asks for, with what its provider and the platform say where it is silent.
    pub(crate) fn resolve(raw: &Raw<'_>) -> Self {
        let (mut wanted, mut decided) = wanted::resolve(raw);
        let cni = wanted.iter().find(|addon| addon.role == Role::Cni);
        let replaces_kube_proxy = cni.is_some_and(build::replaces_kube_proxy);
        let mode = raw.cluster.spec.management_policy.mode;
        if mode == ManagementMode::Observe {
            // Nothing is installed, and nothing is taken away.
            wanted.clear();
            decided.clear();
        }
        Self {
            wanted,
            decided,
            replaces_kube_proxy,
            mode,
            others: others(raw),
            repository: repository::by_hand(raw),
            agreed: removal::agreed(raw.cluster),
        }
    }

    /// Who installs and upgrades an addon. What another tool takes over is ours until it was installed once.
    pub fn manager(&self, is_installed: bool) -> AddonManager {
        match self.mode {
            ManagementMode::Active => AddonManager::Butler,
            ManagementMode::GitOps if !is_installed => AddonManager::Butler,
            ManagementMode::GitOps | ManagementMode::Observe => self.others,
        }
    }

    /// What people have to do themselves.
    pub(crate) fn by_hand(&self) -> Option<String> {
        self.repository.as_ref().map(|url| {
            format!("the GitOps tool is installed and not told to follow {url}: make its source object in the cluster")
        })
    }
}

/// The tool that the cluster names, or else somebody by hand.
fn others(raw: &Raw<'_>) -> AddonManager {
    let addons = raw.cluster.spec.addons.as_ref();
    let gitops = addons.and_then(|addons| addons.gitops.as_ref());
    match gitops.filter(|gitops| gitops.enabled) {
        None => AddonManager::Manual,
        Some(gitops) => match gitops.provider.unwrap_or(GitopsProvider::Fluxcd) {
            GitopsProvider::Fluxcd => AddonManager::Flux,
            GitopsProvider::Argocd => AddonManager::Argocd,
        },
    }
}

impl Identity {
    /// Name of the `TenantAddon` of one of the cluster's own addons.
    pub fn addon(&self, addon: &str) -> String {
        let whole = format!("{}-{addon}", self.name);
        let most = butler_api::types::names::LABEL_MAX;
        if whole.len() <= most {
            return whole;
        }
        // Two clusters whose long names begin alike must not meet.
        let digest: String = crate::object::digest(&Value::from(self.name.as_str()))
            .chars()
            .take(6)
            .collect();
        let room = most.saturating_sub(addon.len() + digest.len() + 2);
        let begin: String = self.name.as_str().chars().take(room).collect();
        format!("{}-{digest}-{addon}", begin.trim_end_matches('-'))
    }
}
