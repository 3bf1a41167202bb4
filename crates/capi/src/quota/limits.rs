//! The limits of a team, of its environments and of providers, from the objects that say them.

use std::collections::BTreeMap;

use butler_api::{
    butler::{
        butler_config::{ButlerConfigSpec, DefaultTeamLimits},
        provider_config::ProviderConfig,
        team::{ResourceLimits, Team},
    },
    common::InfrastructureProvider,
    types::{KubeVersion, Quantity},
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Everything that limits the clusters of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of their team.
    pub team: TeamLimits,
    /// Of the team's environments, by name.
    pub environments: BTreeMap<String, EnvironmentLimits>,
    /// Of providers, by namespace and name.
    pub providers: BTreeMap<String, ProviderLimits>,
}

/// What a team may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TeamLimits {
    /// Who set them, for messages, such as `Team rockets`.
    pub set_by: String,
    /// Whether they are the platform's for teams without limits of their own.
    pub is_default: bool,
    /// Clusters.
    pub clusters: Option<u32>,
    /// Workers of one cluster.
    pub nodes_of_one: Option<u32>,
    /// Workers of all clusters.
    pub nodes: Option<u32>,
    /// CPUs of all workers.
    pub cpu: Option<Quantity>,
    /// Memory of all workers.
    pub memory: Option<Quantity>,
    /// Disks of all workers.
    pub disk: Option<Quantity>,
    /// Releases, such as `v1.35` or `v1.35.4`; empty: all.
    pub versions: Vec<String>,
    /// Providers; empty: all.
    pub providers: Vec<InfrastructureProvider>,
}

/// What an environment of a team may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentLimits {
    /// Clusters.
    pub clusters: Option<u32>,
    /// Clusters of one member.
    pub clusters_of_one: Option<u32>,
}

/// What each team may have of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderLimits {
    /// Clusters.
    pub clusters: Option<u32>,
    /// Workers.
    pub nodes: Option<u32>,
}

impl Limits {
    /// The limits of a team's clusters, or of those of a namespace without a team. Only the team's providers matter.
    pub fn of<'a>(
        team: Option<&Team>,
        platform: &ButlerConfigSpec,
        providers: impl Iterator<Item = (String, &'a ProviderConfig)>,
    ) -> Self {
        let environments = team.map_or(&[][..], |team| team.spec.environments.as_slice());
        let environments = environments.iter().filter_map(|environment| {
            let limits = environment.limits.as_ref()?;
            // Zero means no limit here.
            let limits = EnvironmentLimits {
                clusters: number(limits.max_clusters).filter(|most| *most > 0),
                clusters_of_one: number(limits.max_clusters_per_member).filter(|most| *most > 0),
            };
            Some((environment.name.clone(), limits))
        });
        let providers = providers.filter_map(|(name, config)| {
            let limits = config.spec.limits.as_ref()?;
            let limits = ProviderLimits {
                clusters: number(limits.max_clusters_per_team),
                nodes: number(limits.max_nodes_per_team),
            };
            Some((name, limits))
        });
        Self {
            team: team.map_or_else(TeamLimits::default, |team| of_team(team, platform)),
            environments: environments
                .filter(|(_, limits)| *limits != EnvironmentLimits::default())
                .collect(),
            providers: providers
                .filter(|(_, limits)| *limits != ProviderLimits::default())
                .collect(),
        }
    }

    /// Whether anything is limited at all.
    pub fn is_empty(&self) -> bool {
        let unlimited = TeamLimits {
            set_by: self.team.set_by.clone(),
            is_default: self.team.is_default,
            ..TeamLimits::default()
        };
        self.environments.is_empty() && self.providers.is_empty() && self.team == unlimited
    }
}

impl TeamLimits {
    /// Whether a release may be used: it or its minor is on the list.
    pub(super) fn allows(&self, version: KubeVersion) -> bool {
        let version = version.to_string();
        let mut listed = self.versions.iter().map(|it| it.trim_start_matches('v'));
        let version = version.trim_start_matches('v');
        self.versions.is_empty()
            || listed.any(|listed| {
                let rest = version.strip_prefix(listed);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
    }
}

fn of_team(team: &Team, platform: &ButlerConfigSpec) -> TeamLimits {
    let name = team.metadata.name.as_deref().unwrap_or_default();
    match (&team.spec.resource_limits, &platform.default_team_limits) {
        (Some(own), _) => of_own(name, own),
        (None, Some(default)) => of_default(default),
        (None, None) => TeamLimits::default(),
    }
}

fn of_own(name: &str, own: &ResourceLimits) -> TeamLimits {
    let ResourceLimits {
        max_clusters,
        max_workers_per_cluster,
        max_nodes_per_cluster,
        max_total_nodes,
        max_total_cpu,
        max_cpu_cores,
        max_total_memory,
        max_memory,
        max_total_storage,
        max_storage,
        allowed_kubernetes_versions,
        allowed_providers,
        // What clusters are like that say nothing, and addons, are no matter of size.
        default_node_count: _,
        default_cpu_per_node: _,
        default_memory_per_node: _,
        allowed_addons: _,
        denied_addons: _,
    } = own;
    TeamLimits {
        set_by: format!("Team {name}"),
        is_default: false,
        clusters: number(*max_clusters),
        nodes_of_one: number(max_workers_per_cluster.or(*max_nodes_per_cluster)),
        nodes: number(*max_total_nodes),
        cpu: amount(max_total_cpu.as_ref().or(max_cpu_cores.as_ref())),
        memory: amount(max_total_memory.as_ref().or(max_memory.as_ref())),
        disk: amount(max_total_storage.as_ref().or(max_storage.as_ref())),
        versions: allowed_kubernetes_versions.clone(),
        providers: allowed_providers.clone(),
    }
}

fn of_default(default: &DefaultTeamLimits) -> TeamLimits {
    let DefaultTeamLimits {
        max_clusters,
        max_workers_per_cluster,
        max_total_cpu,
        max_total_memory,
        max_total_storage,
    } = default;
    TeamLimits {
        set_by: "ButlerConfig butler".to_owned(),
        is_default: true,
        clusters: number(*max_clusters),
        nodes_of_one: number(*max_workers_per_cluster),
        cpu: amount(max_total_cpu.as_ref()),
        memory: amount(max_total_memory.as_ref()),
        disk: amount(max_total_storage.as_ref()),
        ..TeamLimits::default()
    }
}

fn number(raw: Option<i32>) -> Option<u32> {
    raw.and_then(|raw| u32::try_from(raw).ok())
}

/// An amount that cannot be read limits nothing; the schema refuses it.
fn amount(raw: Option<&IntOrString>) -> Option<Quantity> {
    raw.and_then(|raw| raw.try_into().ok())
}
