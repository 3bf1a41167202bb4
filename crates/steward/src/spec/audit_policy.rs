//! Whether text is an audit policy that an API server starts with: one that it refuses would keep new pods from ever
//! becoming ready.

use serde::Deserialize;
use serde_json::Value;

const LEVELS: [&str; 4] = ["None", "Metadata", "Request", "RequestResponse"];
const STAGES: [&str; 4] = [
    "RequestReceived",
    "ResponseStarted",
    "ResponseComplete",
    "Panic",
];

/// The fields of a Policy. Others are left alone: a release may know more of them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Policy {
    api_version: String,
    kind: String,
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: Vec<String>,
    #[serde(default, rename = "omitManagedFields")]
    _omit_managed_fields: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    level: String,
    #[serde(default, rename = "users")]
    _users: Vec<String>,
    #[serde(default, rename = "userGroups")]
    _user_groups: Vec<String>,
    #[serde(default, rename = "verbs")]
    _verbs: Vec<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    resources: Vec<Resources>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<String>,
    #[serde(default, rename = "omitManagedFields")]
    _omit_managed_fields: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resources {
    #[serde(default)]
    group: String,
    #[serde(default, rename = "resources")]
    plurals: Vec<String>,
    #[serde(default, rename = "resourceNames")]
    names: Vec<String>,
}

/// Checks the text of a policy; what is wrong with it, in words.
pub fn check_text(text: &str) -> Result<(), String> {
    let value = serde_saphyr::from_str::<Value>(text)
        .map_err(|error| format!("it is not YAML: {}", first_line(&error.to_string())))?;
    check(&value)
}

/// Checks a policy; what is wrong with it, in words.
pub fn check(policy: &Value) -> Result<(), String> {
    let policy: Policy = serde_json::from_value(policy.clone())
        .map_err(|error| format!("it is not an audit policy: {error}"))?;
    if (policy.api_version.as_str(), policy.kind.as_str()) != ("audit.k8s.io/v1", "Policy") {
        let Policy {
            api_version, kind, ..
        } = policy;
        return Err(format!(
            "it is a {kind} of {api_version}; write a Policy of audit.k8s.io/v1"
        ));
    }
    if policy.rules.is_empty() {
        return Err("it has no rules; add one, such as {level: Metadata}".to_owned());
    }
    stages(&policy.omit_stages)?;
    for (index, rule) in policy.rules.iter().enumerate() {
        check_rule(rule).map_err(|problem| format!("rules[{index}]: {problem}"))?;
    }
    Ok(())
}

fn check_rule(rule: &Rule) -> Result<(), String> {
    if !LEVELS.contains(&rule.level.as_str()) {
        let known = LEVELS.join(", ");
        return Err(format!("level {:?} is not one of {known}", rule.level));
    }
    stages(&rule.omit_stages)?;
    let about_objects = !rule.resources.is_empty() || !rule.namespaces.is_empty();
    if about_objects && !rule.non_resource_urls.is_empty() {
        return Err(
            "nonResourceURLs do not go with resources or namespaces; use a rule for each"
                .to_owned(),
        );
    }
    for url in &rule.non_resource_urls {
        let inner = url.trim_end_matches('*');
        if url != "*" && (!url.starts_with('/') || inner.contains('*')) {
            return Err(format!(
                "nonResourceURLs: {url:?} must start with a slash and may have one * at its end"
            ));
        }
    }
    for one in &rule.resources {
        // The API server wants bare names of groups, and names of objects only beside names of resources.
        if one.group.contains('/') {
            let group = &one.group;
            return Err(format!("group {group:?} must be without its version"));
        }
        if !one.names.is_empty() && one.plurals.is_empty() {
            return Err("resourceNames need resources".to_owned());
        }
    }
    Ok(())
}

fn stages(given: &[String]) -> Result<(), String> {
    match given.iter().find(|stage| !STAGES.contains(&stage.as_str())) {
        None => Ok(()),
        Some(stage) => Err(format!(
            "omitStages: {stage:?} is not one of {}",
            STAGES.join(", ")
        )),
    }
}

/// Messages about YAML show where in the text they are, over several lines.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_api_server_would_refuse_is_named() {
        let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        let table = [
            ("", "not an audit policy"),
            ("]garbage[", "not YAML"),
            ("just a word", "not an audit policy"),
            (
                "apiVersion: v1\nkind: Policy\nrules: [{level: None}]",
                "Policy of audit.k8s.io/v1",
            ),
            ("kind: Policy\nrules: []", "apiVersion"),
            (&format!("{head}rules: []"), "no rules"),
            (
                &format!("{head}rules: [{{level: Everything}}]"),
                "rules[0]: level \"Everything\"",
            ),
            (
                &format!("{head}rules: [{{level: None, verbs: get}}]"),
                "not an audit policy",
            ),
            (
                &format!("{head}omitStages: [Later]\nrules: [{{level: None}}]"),
                "Later",
            ),
            (
                &format!("{head}rules: [{{level: None, nonResourceURLs: [healthz]}}]"),
                "must start with a slash",
            ),
            (
                &format!("{head}rules: [{{level: None, namespaces: [a], nonResourceURLs: [/x]}}]"),
                "do not go with",
            ),
            (
                &format!("{head}rules: [{{level: None, resources: [{{group: apps/v1}}]}}]"),
                "without its version",
            ),
        ];
        for (text, words) in table {
            let error = check_text(text).unwrap_err();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_policy_with_everything_is_accepted() {
        let text = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ['/healthz*', '/version']
- level: RequestResponse
  users: [alice]
  userGroups: ['system:authenticated']
  verbs: [create, update]
  namespaces: [kube-system]
  resources: [{group: '', resources: [secrets], resourceNames: [a]}]
  omitManagedFields: true
- level: Metadata
";
        assert_eq!(check_text(text), Ok(()));
    }
}
