//! Which provider a cluster's machines and addresses come from. Pure.

use std::sync::Arc;

use butler_api::{
    butler::{ProviderConfig, butler_config::ButlerConfigSpec, provider_config::ScopeType},
    common::{LocalRef, ObjectRef},
    names,
};

use crate::{Feeds, slim::ClusterSummary};

/// The provider of clusters that name none, where the platform names none either.
const DEFAULT: &str = "default";

/// Namespace and name of the provider that a cluster names, or else the platform's, or else the one called `default`.
pub(crate) fn chosen(asked: Option<&ObjectRef>, platform: &ButlerConfigSpec) -> (String, String) {
    let default = platform.default_provider_config_ref.as_ref();
    let name = asked.map(|asked| asked.name.as_str());
    let name = name.or_else(|| default.map(|default| default.name.as_str()));
    let namespace = asked.and_then(|asked| asked.namespace.as_deref());
    (
        namespace.unwrap_or(names::SYSTEM_NAMESPACE).to_owned(),
        name.unwrap_or(DEFAULT).to_owned(),
    )
}

/// The provider of a cluster, as long as its team may use it.
pub(crate) fn provider(feeds: &Feeds, cluster: &ClusterSummary) -> Option<Arc<ProviderConfig>> {
    let config = feeds.configs.get(None, names::BUTLER_CONFIG);
    let platform = config.map_or_else(ButlerConfigSpec::default, |config| config.spec.clone());
    let (namespace, name) = chosen(cluster.spec.provider_config_ref.as_ref(), &platform);
    let found = feeds.providers.get(Some(&namespace), &name);
    found.filter(|config| may_use(cluster.spec.team_ref.as_ref(), config))
}

/// Whether clusters of a team may use a provider.
pub(crate) fn may_use(team: Option<&LocalRef>, config: &ProviderConfig) -> bool {
    let scope = &config.spec.scope;
    match scope.scope_type {
        ScopeType::Platform => true,
        ScopeType::Team => scope.team_ref.is_some() && scope.team_ref.as_ref() == team,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_one_that_is_named_comes_first_then_the_platforms_then_the_one_called_default() {
        let platform = |spec: Value| serde_json::from_value::<ButlerConfigSpec>(spec).unwrap();
        let own = platform(json!({"defaultProviderConfigRef": {"name": "zeta"}}));
        let none = platform(json!({}));
        let asked = |asked: Value| serde_json::from_value::<ObjectRef>(asked).unwrap();
        let of = |asked: Option<ObjectRef>, platform| {
            let (namespace, name) = chosen(asked.as_ref(), platform);
            format!("{namespace}/{name}")
        };
        let named = asked(json!({"name": "alpha"}));
        assert_eq!(of(Some(named), &own), "butler-system/alpha");
        let elsewhere = asked(json!({"name": "own", "namespace": "rockets"}));
        assert_eq!(of(Some(elsewhere), &own), "rockets/own");
        assert_eq!(of(None, &own), "butler-system/zeta");
        assert_eq!(of(None, &none), "butler-system/default");
    }

    #[test]
    fn a_provider_of_one_team_serves_no_other() {
        let of = |scope: Value| {
            let spec = json!({"provider": "local", "scope": scope});
            ProviderConfig::new("own", serde_json::from_value(spec).unwrap())
        };
        let team = |name: &str| LocalRef { name: name.into() };
        let ours = of(json!({"type": "team", "teamRef": {"name": "rockets"}}));
        assert!(may_use(Some(&team("rockets")), &ours));
        assert!(!may_use(Some(&team("boats")), &ours));
        assert!(!may_use(None, &ours));
        assert!(may_use(None, &of(json!({"type": "platform"}))));
    }
}
