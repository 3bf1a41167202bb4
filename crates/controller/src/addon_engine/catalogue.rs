//! What an entry of the catalogue says about an installation of it.

use butler_addons::{
    compatibility::Range,
    health::{Rule, Wants},
    request::ChartRef,
};
use butler_api::butler::{
    AddonDefinition,
    addon_definition::{AddonChart, AddonHealthRule},
};
use kube::ResourceExt;

use super::Trouble;
use crate::Feeds;

/// Whether the addon of this name belongs to every cluster.
pub(crate) fn is_platform(feeds: &Feeds, name: &str) -> bool {
    let definition = feeds.definitions.get(None, name);
    definition.is_some_and(|definition| definition.spec.platform)
}

/// The chart of a definition; what machines bring along has none.
pub(crate) fn chart(definition: &AddonDefinition) -> Result<&AddonChart, Trouble> {
    definition.spec.chart.as_ref().ok_or_else(|| {
        let message = format!(
            "addon {} is built in: machines bring it along and there is nothing to install",
            definition.name_any()
        );
        Trouble::new("BuiltIn", message)
    })
}

/// The same with a version: the one asked for, or the catalogue's.
pub(crate) fn chart_ref(
    definition: &AddonDefinition,
    asked: Option<String>,
) -> Result<ChartRef, Trouble> {
    let chart = chart(definition)?;
    Ok(ChartRef {
        repository: chart.repository.clone(),
        name: chart.name.clone(),
        version: asked.unwrap_or_else(|| chart.default_version.clone()),
        digest: None,
    })
}

/// When objects of its own kinds are healthy.
pub(crate) fn health(definition: &AddonDefinition) -> Vec<Rule> {
    let rules = definition.spec.health.iter();
    rules.filter_map(rule).collect()
}

fn rule(rule: &AddonHealthRule) -> Option<Rule> {
    let wants = match (&rule.condition, &rule.field) {
        (Some(condition), _) => Wants::Condition(condition.clone()),
        (None, Some(field)) => Wants::Field {
            path: field.path.clone(),
            equals: field.equals.clone(),
        },
        // The API server refuses it.
        (None, None) => return None,
    };
    Some(Rule {
        group: rule.group.clone(),
        kind: rule.kind.clone(),
        wants,
    })
}

/// Whether the addon runs on this version of Kubernetes.
pub(crate) fn compatible(
    definition: Option<&AddonDefinition>,
    kubernetes: &str,
) -> Result<(), Trouble> {
    let wanted = definition.and_then(|definition| definition.spec.kubernetes_versions.as_deref());
    let range = wanted.and_then(Range::parse);
    match (range.and_then(|range| range.contains(kubernetes)), wanted) {
        (Some(false), Some(wanted)) => {
            let message = format!("it runs on Kubernetes {wanted}, the cluster is {kubernetes}");
            Err(Trouble::new("Incompatible", message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn definition(spec: &Value) -> AddonDefinition {
        let mut whole = json!({"metadata": {"name": "db"}, "spec": {
            "displayName": "DB", "description": "d", "category": "database",
        }});
        butler_addons::values::lay_over(&mut whole, &json!({ "spec": spec }));
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn what_machines_bring_along_is_not_installed() {
        let trouble = chart_ref(&definition(&json!({"builtIn": true})), None).unwrap_err();
        assert_eq!(trouble.reason, "BuiltIn");
    }

    #[test]
    fn rules_of_health_are_taken_over() {
        let field = json!({"path": "status.phase", "equals": "Ready"});
        let rules = health(&definition(&json!({"health": [
            {"group": "a.io", "kind": "A", "condition": "Available"},
            {"group": "b.io", "kind": "B", "field": field},
        ]})));
        assert_eq!(rules[0].wants, Wants::Condition("Available".to_owned()));
        assert!(matches!(&rules[1].wants, Wants::Field { path, .. } if path == "status.phase"));
    }

    #[test]
    fn a_cluster_that_is_too_new_is_refused_with_both_versions() {
        let definition = definition(&json!({"kubernetesVersions": ">=1.30 <1.36"}));
        assert_eq!(compatible(Some(&definition), "v1.35.4"), Ok(()));
        let trouble = compatible(Some(&definition), "v1.36.0").unwrap_err();
        assert!(trouble.message.contains(">=1.30 <1.36") && trouble.message.contains("v1.36.0"));
    }
}
