//! What a cluster is made from: its spec, the platform's defaults and a provider that it may use.

use std::sync::Arc;

use butler_api::{
    butler::{ProviderConfig, Team, TenantCluster, butler_config::ButlerConfigSpec},
    names,
};
use butler_capi::{Raw, TenantSpec, validate};
use kube::ResourceExt as _;

use crate::{
    Feeds,
    tenant_addresses::provider::{chosen, may_use},
};

/// A cluster that can be made.
pub(crate) struct Sources {
    pub(crate) spec: TenantSpec,
    pub(super) provider: Arc<ProviderConfig>,
    pub(super) platform: ButlerConfigSpec,
    pub(super) team: Option<Arc<Team>>,
}

/// A word and a sentence about what is wrong.
pub(crate) type Refusal = (&'static str, String);

impl Sources {
    pub(crate) fn of(feeds: &Feeds, raw: &TenantCluster) -> Result<Self, Refusal> {
        let config = feeds.configs.get(None, names::BUTLER_CONFIG);
        let platform = config.map_or_else(ButlerConfigSpec::default, |config| config.spec.clone());
        let team = team(feeds, raw)?;
        let provider = provider(feeds, raw, &platform)?;
        let raw = Raw {
            cluster: raw,
            provider: &provider,
            platform: &platform,
        };
        let spec = validate(&raw).map_err(|invalid| ("Invalid", invalid.to_string()))?;
        Ok(Self {
            spec,
            provider,
            platform,
            team,
        })
    }
}

/// The team whose namespace a cluster is in. Naming another would be a way around its limits, and into what belongs to
/// the other.
fn team(feeds: &Feeds, raw: &TenantCluster) -> Result<Option<Arc<Team>>, Refusal> {
    let namespace = raw.namespace().unwrap_or_default();
    let find = |name: &str| feeds.teams.get(None, name);
    let here = find(&namespace);
    let Some(asked) = raw.spec.team_ref.as_ref().map(|team| team.name.as_str()) else {
        return Ok(here);
    };
    if asked == namespace || (here.is_none() && find(asked).is_none()) {
        return Ok(here);
    }
    let message = format!(
        "clusters of team {asked} belong into its namespace {asked}, and this one is in {namespace}: make it there, or leave spec.teamRef out"
    );
    Err(("NamespaceMismatch", message))
}

fn provider(
    feeds: &Feeds,
    raw: &TenantCluster,
    platform: &ButlerConfigSpec,
) -> Result<Arc<ProviderConfig>, Refusal> {
    let (namespace, name) = provider_of(raw, platform);
    let found = feeds.providers.get(Some(&namespace), &name).ok_or_else(|| {
        let message = format!(
            "there is no ProviderConfig {namespace}/{name}; make it, or name another in spec.providerConfigRef"
        );
        ("ProviderNotFound", message)
    })?;
    if !may_use(raw.spec.team_ref.as_ref(), &found) {
        let message = format!(
            "ProviderConfig {namespace}/{name} is for another team; name one that is for all teams or for this one in spec.providerConfigRef"
        );
        return Err(("ProviderDenied", message));
    }
    Ok(found)
}

/// Namespace and name of the provider that a cluster's machines come from.
pub(super) fn provider_of(raw: &TenantCluster, platform: &ButlerConfigSpec) -> (String, String) {
    chosen(raw.spec.provider_config_ref.as_ref(), platform)
}

/// A provider that needs nothing.
#[cfg(test)]
pub(super) fn no_provider() -> ProviderConfig {
    let spec = serde_json::from_value(serde_json::json!({"provider": "local"}));
    ProviderConfig::new("none", spec.expect("a provider needs nothing but its kind"))
}
