//! Who gets what, in order of age.

use std::{collections::BTreeMap, fmt::Display};

use butler_api::{
    common::InfrastructureProvider,
    types::{KubeVersion, Quantity},
};
use jiff::Timestamp;

use crate::reason::Reason;

use super::{
    Excess, Hold, Limits, Quota, Sizes,
    sizes::{Total, more},
};

/// One cluster of a team, as far as limits go.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Who it is.
    pub uid: String,
    /// Since when it is there.
    pub created: Option<Timestamp>,
    /// Its environment.
    pub environment: Option<String>,
    /// The member who owns it.
    pub owner: Option<String>,
    /// Namespace and name of its provider.
    pub provider: String,
    /// What its provider is.
    pub infrastructure: Option<InfrastructureProvider>,
    /// The release it asks for.
    pub version: Option<KubeVersion>,
    /// What was granted to it; nothing while nothing of it was made.
    pub held: Option<Sizes>,
    /// What it asks for; nothing when it goes, or cannot be made for another reason.
    pub asks: Option<Sizes>,
}

/// What the limits say about the cluster with this UID, which is one of the claims. Claims are those of one team.
pub fn decide(limits: &Limits, claims: &[Claim], uid: &str) -> Quota {
    let mut used = Used::default();
    for claim in claims {
        if let Some(held) = &claim.held {
            used.change(claim, None, &held.total());
        }
    }
    let mut order: Vec<&Claim> = claims.iter().collect();
    order.sort_by_key(|claim| (claim.created, &claim.uid));
    for claim in order {
        let Some(asks) = &claim.asks else { continue };
        let (before, after) = (claim.held.as_ref().map(Sizes::total), asks.total());
        let forbidden = forbids(limits, claim);
        let excess = used.excess(limits, claim, before.as_ref(), &after);
        let is_granted = excess.is_none() && (before.is_some() || forbidden.is_none());
        if is_granted {
            used.change(claim, before.as_ref(), &after);
        }
        if claim.uid == uid {
            return match &claim.held {
                None => Quota {
                    refused: forbidden.or(excess),
                    ..Quota::default()
                },
                Some(held) => Quota {
                    refused: None,
                    hold: excess.map(|excess| Hold {
                        sizes: held.clone(),
                        excess,
                    }),
                    version: forbidden,
                },
            };
        }
    }
    Quota::default()
}

/// What a team may not use at all. Where a cluster's machines come from cannot change, so that matters only once.
fn forbids(limits: &Limits, claim: &Claim) -> Option<Excess> {
    let team = &limits.team;
    let allowed = |what: &str, list: String, field: &str| {
        format!(
            "the team may not use {what}, only {list}: choose one of those, or have spec.resourceLimits.{field} of {} changed",
            team.set_by
        )
    };
    if let Some(version) = claim.version.filter(|version| !team.allows(*version)) {
        return Some(Excess {
            reason: Reason::VersionNotAllowed,
            message: allowed(
                &format!("Kubernetes {version}"),
                team.versions.join(", "),
                "allowedKubernetesVersions",
            ),
        });
    }
    let asked = claim.infrastructure.filter(|_| claim.held.is_none())?;
    if team.providers.is_empty() || team.providers.contains(&asked) {
        return None;
    }
    let names: Vec<String> = team.providers.iter().map(|it| word(*it)).collect();
    Some(Excess {
        reason: Reason::ProviderNotAllowed,
        message: allowed(
            &format!("{} ({})", claim.provider, word(asked)),
            names.join(", "),
            "allowedProviders",
        ),
    })
}

fn word(provider: InfrastructureProvider) -> String {
    format!("{provider:?}").to_lowercase()
}

/// What all claims together have.
#[derive(Default)]
pub(super) struct Used {
    pub(super) clusters: u32,
    pub(super) total: Total,
    /// Clusters.
    pub(super) environments: BTreeMap<String, u32>,
    /// Clusters, by environment and owner.
    pub(super) members: BTreeMap<(String, String), u32>,
    /// Clusters and workers.
    pub(super) providers: BTreeMap<String, (u32, u32)>,
}

impl Used {
    /// Gives a cluster what it has from now on, in place of what it had before.
    pub(super) fn change(&mut self, claim: &Claim, before: Option<&Total>, after: &Total) {
        let provider = self.providers.entry(claim.provider.clone()).or_default();
        let had = before.map_or(0, |before| before.nodes);
        provider.1 = provider.1.saturating_sub(had).saturating_add(after.nodes);
        self.total = swap(&self.total, before, after);
        if before.is_some() {
            return;
        }
        provider.0 += 1;
        self.clusters += 1;
        if let Some(environment) = &claim.environment {
            *self.environments.entry(environment.clone()).or_default() += 1;
            if let Some(owner) = member(claim) {
                let place = (environment.clone(), owner);
                *self.members.entry(place).or_default() += 1;
            }
        }
    }

    /// The first limit that is against more. What does not grow is never over a limit.
    fn excess(
        &self,
        limits: &Limits,
        claim: &Claim,
        before: Option<&Total>,
        after: &Total,
    ) -> Option<Excess> {
        let one_more = before.is_none();
        self.clusters_excess(limits, claim, one_more)
            .or_else(|| self.amounts_excess(limits, claim, before, after))
    }

    fn clusters_excess(&self, limits: &Limits, claim: &Claim, one_more: bool) -> Option<Excess> {
        let over = |used: u32, limit: Option<u32>| {
            let (next, limit) = (used.saturating_add(1), limit?);
            (one_more && next > limit).then_some((next, limit))
        };
        let team = &limits.team;
        if let Some((next, limit)) = over(self.clusters, team.clusters) {
            let raise = raise(team.is_default, &team.set_by, "maxClusters", "maxClusters");
            return Some(Excess {
                reason: Reason::QuotaExceeded,
                message: format!(
                    "the team would have {next} of {limit} clusters: delete one, or {raise}"
                ),
            });
        }
        if let Some(name) = &claim.environment
            && let Some(environment) = limits.environments.get(name)
        {
            let used = self.environments.get(name).copied().unwrap_or(0);
            if let Some((next, limit)) = over(used, environment.clusters) {
                return Some(Excess {
                    reason: Reason::EnvQuotaExceeded,
                    message: format!(
                        "environment {name} would have {next} of {limit} clusters: delete one, or have limits.maxClusters of the environment raised"
                    ),
                });
            }
            if let Some(owner) = member(claim) {
                let place = (name.clone(), owner);
                let used = self.members.get(&place).copied().unwrap_or(0);
                if let Some((next, limit)) = over(used, environment.clusters_of_one) {
                    return Some(Excess {
                        reason: Reason::PerMemberCapExceeded,
                        message: format!(
                            "{} would have {next} of {limit} clusters in environment {name}: delete one, or have limits.maxClustersPerMember of the environment raised",
                            place.1
                        ),
                    });
                }
            }
        }
        let provider = limits.providers.get(&claim.provider)?;
        let used = self.providers.get(&claim.provider).map_or(0, |used| used.0);
        let (next, limit) = over(used, provider.clusters)?;
        Some(Excess {
            reason: Reason::QuotaExceeded,
            message: format!(
                "the team would have {next} of {limit} clusters on ProviderConfig {0}: delete one, or have spec.limits.maxClustersPerTeam of {0} raised",
                claim.provider
            ),
        })
    }

    fn amounts_excess(
        &self,
        limits: &Limits,
        claim: &Claim,
        before: Option<&Total>,
        after: &Total,
    ) -> Option<Excess> {
        let team = &limits.team;
        let had = before.copied().unwrap_or_default();
        let next = swap(&self.total, before, after);
        let of_team = |next: &dyn Display, limit: &dyn Display, what: &str, own, default| Excess {
            reason: Reason::QuotaExceeded,
            message: format!(
                "the team would have {next} of {limit} {what}: ask for less, or {}",
                raise(team.is_default, &team.set_by, own, default)
            ),
        };
        if let Some(limit) = over(had.nodes, after.nodes, after.nodes, team.nodes_of_one) {
            let raise = raise(
                team.is_default,
                &team.set_by,
                "maxNodesPerCluster",
                "maxWorkersPerCluster",
            );
            return Some(Excess {
                reason: Reason::QuotaExceeded,
                message: format!(
                    "the cluster would have {} of {limit} workers: ask for less, or {raise}",
                    after.nodes
                ),
            });
        }
        if let Some(limit) = over(had.nodes, after.nodes, next.nodes, team.nodes) {
            let field = "maxTotalNodes";
            return Some(of_team(&next.nodes, &limit, "workers", field, field));
        }
        let amounts: [(_, _, _, Option<Quantity>, _, _, _); 3] = [
            (
                had.cpu,
                after.cpu,
                next.cpu,
                team.cpu,
                "CPUs",
                "maxCPUCores",
                "maxTotalCPU",
            ),
            (
                had.memory,
                after.memory,
                next.memory,
                team.memory,
                "memory",
                "maxMemory",
                "maxTotalMemory",
            ),
            (
                had.disk,
                after.disk,
                next.disk,
                team.disk,
                "storage",
                "maxStorage",
                "maxTotalStorage",
            ),
        ];
        for (had, after, next, limit, what, own, default) in amounts {
            if let Some(limit) = over(had, after, next, limit) {
                return Some(of_team(&next, &limit, what, own, default));
            }
        }
        let provider = limits.providers.get(&claim.provider)?;
        let used = self.providers.get(&claim.provider).map_or(0, |used| used.1);
        let next = used.saturating_sub(had.nodes).saturating_add(after.nodes);
        let limit = over(had.nodes, after.nodes, next, provider.nodes)?;
        Some(Excess {
            reason: Reason::QuotaExceeded,
            message: format!(
                "the team would have {next} of {limit} workers on ProviderConfig {0}: ask for less, or have spec.limits.maxNodesPerTeam of {0} raised",
                claim.provider
            ),
        })
    }
}

/// The limit, if it is what stops something that grows.
fn over<T: Copy + Ord>(had: T, after: T, next: T, limit: Option<T>) -> Option<T> {
    limit.filter(|limit| after > had && next > *limit)
}

/// The sum with one part of it replaced.
fn swap(sum: &Total, before: Option<&Total>, after: &Total) -> Total {
    let had = before.copied().unwrap_or_default();
    let swap = |sum: Quantity, had: Quantity, after: Quantity| {
        let negative = Quantity::from_milli(had.milli().saturating_neg());
        more(negative, more(sum, after))
    };
    Total {
        nodes: sum
            .nodes
            .saturating_sub(had.nodes)
            .saturating_add(after.nodes),
        cpu: swap(sum.cpu, had.cpu, after.cpu),
        memory: swap(sum.memory, had.memory, after.memory),
        disk: swap(sum.disk, had.disk, after.disk),
    }
}

/// Whoever owns a cluster, however the address is written.
pub(super) fn member(claim: &Claim) -> Option<String> {
    claim.owner.as_ref().map(|owner| owner.to_lowercase())
}

/// How a limit of a team is raised.
fn raise(is_default: bool, set_by: &str, own: &str, default: &str) -> String {
    if is_default {
        format!(
            "have spec.resourceLimits.{own} set for the team (the limit is spec.defaultTeamLimits.{default} of {set_by})"
        )
    } else {
        format!("have spec.resourceLimits.{own} of {set_by} raised")
    }
}
