//! Which provider a cluster draws its addresses from. Pure.

use std::sync::Arc;

use butler_api::{
    butler::{ButlerConfig, ProviderConfig, provider_config::ScopeType},
    common::LocalRef,
    names,
};
use kube::ResourceExt;

use crate::slim::ClusterSummary;

/// The provider that a cluster names, or else the platform's, or else the one called `default`, or else the first by
/// name; as long as its team may use it.
pub(crate) fn provider(
    cluster: &ClusterSummary,
    platform: Option<&ButlerConfig>,
    mut all: Vec<Arc<ProviderConfig>>,
) -> Option<Arc<ProviderConfig>> {
    all.sort_by_key(|config| (config.namespace(), config.name_any()));
    let find = |namespace: &str, name: &str| {
        all.iter().find(|config| {
            config.namespace().as_deref() == Some(namespace) && config.name_any() == name
        })
    };
    let platform = platform.and_then(|config| config.spec.default_provider_config_ref.as_ref());
    let system = names::SYSTEM_NAMESPACE;
    let found = match (&cluster.spec.provider_config_ref, platform) {
        (Some(named), _) => find(named.namespace.as_deref().unwrap_or(system), &named.name),
        (None, Some(platform)) => find(system, &platform.name),
        (None, None) => find(system, "default").or_else(|| {
            all.iter()
                .find(|config| config.namespace().as_deref() == Some(system))
        }),
    };
    let team = cluster.spec.team_ref.as_ref();
    found.filter(|config| may_use(team, config)).cloned()
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

    fn cluster(spec: &Value) -> ClusterSummary {
        serde_json::from_value(json!({"metadata": {"name": "shop"}, "spec": spec})).unwrap()
    }

    fn config(namespace: &str, name: &str, scope: &Value) -> Arc<ProviderConfig> {
        let object = json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "ProviderConfig",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"provider": "local", "scope": scope},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn all() -> Vec<Arc<ProviderConfig>> {
        let platform = || json!({"type": "platform"});
        let ours = json!({"type": "team", "teamRef": {"name": "rockets"}});
        vec![
            config("rockets", "own", &ours),
            config("butler-system", "zeta", &platform()),
            config("butler-system", "alpha", &platform()),
        ]
    }

    fn name(spec: &Value, platform: Option<&ButlerConfig>) -> Option<String> {
        provider(&cluster(spec), platform, all()).map(|config| config.name_any())
    }

    #[test]
    fn the_one_that_is_named_comes_first_then_the_platforms_then_the_first_there_is() {
        let platform: ButlerConfig = serde_json::from_value(json!({
            "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "ButlerConfig",
            "metadata": {"name": "butler"}, "spec": {"defaultProviderConfigRef": {"name": "zeta"}},
        }))
        .unwrap();
        let named = || json!({"providerConfigRef": {"name": "alpha"}});
        assert_eq!(name(&named(), Some(&platform)).as_deref(), Some("alpha"));
        assert_eq!(name(&json!({}), Some(&platform)).as_deref(), Some("zeta"));
        assert_eq!(name(&json!({}), None).as_deref(), Some("alpha"));
        assert_eq!(
            name(&json!({"providerConfigRef": {"name": "gone"}}), None),
            None
        );
    }

    #[test]
    fn a_provider_of_one_team_serves_no_other() {
        let own = json!({"name": "own", "namespace": "rockets"});
        let theirs = json!({"providerConfigRef": own, "teamRef": {"name": "boats"}});
        assert_eq!(name(&theirs, None), None);
        let ours = json!({"providerConfigRef": own, "teamRef": {"name": "rockets"}});
        assert_eq!(name(&ours, None).as_deref(), Some("own"));
    }
}
