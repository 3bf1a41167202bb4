//! What of its limits a team has used, for people who are about to ask for more.

use std::fmt;

use serde::Serialize;

use super::{
    Claim, Limits, Sizes,
    decide::{Used, member},
};

/// One limit, and how much of it is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// What is limited, such as `clusters of the team`.
    pub what: String,
    /// How much is used.
    pub used: String,
    /// How much there may be.
    pub limit: String,
}

impl fmt::Display for Usage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, used, limit } = self;
        write!(out, "{used} of {limit} {what}")
    }
}

/// Every limit that the cluster with this UID counts against, once it has what it asks for.
pub fn usage(limits: &Limits, claims: &[Claim], uid: &str) -> Vec<Usage> {
    let Some(own) = claims.iter().find(|claim| claim.uid == uid) else {
        return Vec::new();
    };
    let mut used = Used::default();
    for claim in claims {
        let first = if claim.uid == uid {
            &claim.asks
        } else {
            &claim.held
        };
        if let Some(sizes) = first.as_ref().or(claim.held.as_ref()) {
            used.change(claim, None, &sizes.total());
        }
    }
    let after = own.asks.as_ref().or(own.held.as_ref());
    let of_one = after.map(Sizes::total).unwrap_or_default().nodes;
    let mut all = Vec::new();
    let mut add = |what: String, used: String, limit: Option<String>| {
        all.extend(limit.map(|limit| Usage { what, used, limit }));
    };
    let text = |limit: Option<u32>| limit.map(|limit| limit.to_string());
    let team = &limits.team;
    let total = &used.total;
    add(
        "clusters of the team".to_owned(),
        used.clusters.to_string(),
        text(team.clusters),
    );
    add(
        "workers of the cluster".to_owned(),
        of_one.to_string(),
        text(team.nodes_of_one),
    );
    add(
        "workers of the team".to_owned(),
        total.nodes.to_string(),
        text(team.nodes),
    );
    for (what, used, limit) in [
        ("CPUs of the team", total.cpu, team.cpu),
        ("memory of the team", total.memory, team.memory),
        ("storage of the team", total.disk, team.disk),
    ] {
        add(
            what.to_owned(),
            used.to_string(),
            limit.map(|limit| limit.to_string()),
        );
    }
    if let Some(name) = &own.environment
        && let Some(environment) = limits.environments.get(name)
    {
        let count = used.environments.get(name).copied().unwrap_or(0);
        add(
            format!("clusters of environment {name}"),
            count.to_string(),
            text(environment.clusters),
        );
        if let Some(owner) = member(own) {
            let what = format!("clusters of {owner} in environment {name}");
            let place = (name.clone(), owner);
            let count = used.members.get(&place).copied().unwrap_or(0);
            add(what, count.to_string(), text(environment.clusters_of_one));
        }
    }
    if let Some(provider) = limits.providers.get(&own.provider) {
        let (clusters, nodes) = used
            .providers
            .get(&own.provider)
            .copied()
            .unwrap_or_default();
        let on = format!("of the team on ProviderConfig {}", own.provider);
        add(
            format!("clusters {on}"),
            clusters.to_string(),
            text(provider.clusters),
        );
        add(
            format!("workers {on}"),
            nodes.to_string(),
            text(provider.nodes),
        );
    }
    all
}
