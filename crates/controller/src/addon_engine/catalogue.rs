//! What an entry of the catalogue says about an installation of it.

use butler_addons::{
    compatibility::Range,
    health::{Rule, Wants},
    request::ChartRef,
};
use butler_api::butler::{
    AddonDefinition,
    addon_definition::{AddonCategory, AddonChart, AddonHealthRule, is_same_version},
};
use kube::ResourceExt;

use super::Trouble;
use crate::Feeds;

/// What the addon of this name is for.
pub(crate) fn category(feeds: &Feeds, name: &str) -> Option<AddonCategory> {
    let definition = feeds.definitions.get(None, name)?;
    Some(definition.spec.category)
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
    let version = asked.unwrap_or_else(|| chart.default_version.clone());
    let mut digests = chart.digests.iter();
    let digest = digests.find(|(known, _)| is_same_version(known, &version));
    Ok(ChartRef {
        repository: chart.repository.clone(),
        name: chart.name.clone(),
        digest: digest.map(|(_, digest)| digest.clone()),
        version,
    })
}

/// Whether users may choose a version.
pub(crate) fn offers(definition: &AddonDefinition, version: &str) -> Result<(), Trouble> {
    let chart = chart(definition)?;
    let further = &chart.available_versions;
    let mut all = std::iter::once(&chart.default_version).chain(further);
    if further.is_empty() || all.any(|offered| is_same_version(offered, version)) {
        return Ok(());
    }
    let message = format!(
        "the catalogue offers {} in versions {}, {}, not in {version}: choose one of them, or add it to \
         spec.chart.availableVersions of the AddonDefinition",
        definition.name_any(),
        chart.default_version,
        further.join(", ")
    );
    Err(Trouble::new("VersionNotOffered", message))
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

/// Whether this version of the addon runs on this version of Kubernetes.
pub(crate) fn compatible(
    definition: Option<&AddonDefinition>,
    version: &str,
    kubernetes: &str,
) -> Result<(), Trouble> {
    let wanted = definition.and_then(|definition| definition.spec.runs_on(version));
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
    fn a_version_that_the_catalogue_does_not_offer_is_refused_where_it_says_which_it_does() {
        let chart = |more: &Value| {
            let mut chart =
                json!({"repository": "oci://r", "name": "db", "defaultVersion": "2.0.0"});
            butler_addons::values::lay_over(&mut chart, more);
            definition(&json!({ "chart": chart }))
        };
        assert_eq!(offers(&chart(&json!({})), "7.0.0"), Ok(()));
        let some = chart(&json!({"availableVersions": ["v1.9.0"]}));
        for offered in ["2.0.0", "1.9.0", "v2.0.0"] {
            assert_eq!(offers(&some, offered), Ok(()), "{offered}");
        }
        let trouble = offers(&some, "7.0.0").unwrap_err();
        assert_eq!(trouble.reason, "VersionNotOffered");
        assert!(trouble.message.contains("2.0.0, v1.9.0, not in 7.0.0"));
    }

    #[test]
    fn the_digest_of_a_version_is_that_of_the_catalogue() {
        let entry = definition(&json!({"chart": {
            "repository": "oci://r", "name": "db", "defaultVersion": "2.0.0",
            "digests": {"2.0.0": "sha256:2", "v1.9.0": "sha256:1"},
        }}));
        let digest = |asked: Option<&str>| {
            let chart = chart_ref(&entry, asked.map(str::to_owned)).unwrap();
            chart.digest
        };
        assert_eq!(digest(None).as_deref(), Some("sha256:2"));
        assert_eq!(digest(Some("1.9.0")).as_deref(), Some("sha256:1"));
        assert_eq!(digest(Some("3.0.0")), None);
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
        let definition = definition(&json!({"kubernetesVersions": ">=1.30 <1.36", "chart": {
            "repository": "https://charts.example.com", "name": "postgres", "defaultVersion": "1.0.0",
            "kubernetesVersions": {"2.0.0": ">=1.31"},
        }}));
        assert_eq!(compatible(Some(&definition), "1.0.0", "v1.35.4"), Ok(()));
        let trouble = compatible(Some(&definition), "1.0.0", "v1.36.0").unwrap_err();
        assert!(trouble.message.contains(">=1.30 <1.36") && trouble.message.contains("v1.36.0"));
        assert_eq!(compatible(Some(&definition), "v2.0.0", "v1.36.0"), Ok(()));
    }
}
