//! The objects of a release, as Helm rendered them.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// What an object is known by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectId {
    /// `apps/v1`.
    pub api_version: String,
    /// `Deployment`.
    pub kind: String,
    /// As the manifest says; an object without one lives in the namespace of the release, or in none.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.kind, self.name)
    }
}

/// An object of a release. It may be a Secret, so only its identity is ever printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Planned {
    /// What it is known by.
    pub id: ObjectId,
    /// All of it.
    pub body: Value,
}

impl fmt::Debug for Planned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.id)
    }
}

/// The manifest of a release is not what Helm writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("object {0} of the manifest cannot be read")]
pub struct ManifestError(usize);

/// The objects in the order in which they stand. Lists are opened, and what has no name is left out: Helm makes it anew.
pub fn objects(manifest: &str) -> Result<Vec<Planned>, ManifestError> {
    let mut found = Vec::new();
    for (index, document) in documents(manifest).into_iter().enumerate() {
        let value: Value =
            serde_saphyr::from_str(&document).map_err(|_| ManifestError(index + 1))?;
        add(value, &mut found);
    }
    Ok(found)
}

/// An object as YAML.
pub fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).expect("a tree of plain values has a text")
}

fn documents(manifest: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in manifest.lines() {
        if line.trim_end() == "---" {
            all.push(String::new());
        } else if let Some(last) = all.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    let says_something = |text: &String| {
        let mut lines = text.lines().map(str::trim);
        lines.any(|line| !line.is_empty() && !line.starts_with('#'))
    };
    all.retain(says_something);
    all
}

fn add(value: Value, found: &mut Vec<Planned>) {
    let text = |path: &str| {
        value
            .pointer(path)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let (Some(api_version), Some(kind)) = (text("/apiVersion"), text("/kind")) else {
        return;
    };
    if kind.ends_with("List") && value.get("items").is_some_and(Value::is_array) {
        let items = value.get("items").and_then(Value::as_array).cloned();
        for item in items.unwrap_or_default() {
            add(item, found);
        }
        return;
    }
    let Some(name) = text("/metadata/name") else {
        return;
    };
    let id = ObjectId {
        api_version,
        kind,
        namespace: text("/metadata/namespace"),
        name,
    };
    found.push(Planned { id, body: value });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_is_found_and_comments_are_none() {
        let text = "---\n# Source: a\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  text: |\n    -----\n    x\n---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: s, namespace: n}}\n";
        let objects = objects(text).unwrap();
        let names: Vec<String> = objects.iter().map(|object| object.id.to_string()).collect();
        assert_eq!(names, ["ConfigMap a", "Secret s"]);
        assert_eq!(objects[0].body["data"]["text"], "-----\nx\n");
    }

    #[test]
    fn what_is_no_yaml_is_pointed_at_and_not_quoted() {
        let error = objects("a: b\n---\npassword: [").unwrap_err();
        assert_eq!(error.to_string(), "object 2 of the manifest cannot be read");
    }
}
