//! The field reference of the book: one page a kind, from the same schema that the API server enforces.

use std::{collections::BTreeMap, fmt::Write};

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// File names and texts: an index and one page for each kind.
pub(super) fn pages(crds: &[CustomResourceDefinition]) -> Result<BTreeMap<String, String>> {
    let mut pages = BTreeMap::new();
    let mut index = String::from(
        "# Field reference\n\nEvery kind, with every field and the rules that the API server enforces. \
         `kubectl explain` shows the same.\n\n| kind | group | scope | short |\n|---|---|---|---|\n",
    );
    for crd in crds {
        let names = &crd.spec.names;
        let short = names.short_names.clone().unwrap_or_default().join(", ");
        let file = format!("{}.md", names.kind.to_lowercase());
        writeln!(
            index,
            "| [{}]({file}) | {} | {} | {short} |",
            names.kind, crd.spec.group, crd.spec.scope
        )?;
        pages.insert(file, page(crd)?);
    }
    pages.insert("README.md".to_owned(), index);
    Ok(pages)
}

fn page(crd: &CustomResourceDefinition) -> Result<String> {
    let kind = &crd.spec.names.kind;
    let version = crd
        .spec
        .versions
        .first()
        .with_context(|| format!("{kind} has no version"))?;
    let schema = version
        .schema
        .as_ref()
        .and_then(|schema| schema.open_api_v3_schema.as_ref());
    let schema = schema.with_context(|| format!("{kind} has no schema"))?;
    let mut text = format!(
        "# {kind}\n\n`{}/{}`, {}.",
        crd.spec.group, version.name, crd.spec.scope
    );
    if let Some(description) = &schema.description {
        write!(text, " {}", one_line(description))?;
    }
    text.push('\n');
    rules(&mut text, schema)?;
    for part in ["spec", "status"] {
        let Some(schema) = schema
            .properties
            .as_ref()
            .and_then(|fields| fields.get(part))
        else {
            continue;
        };
        write!(
            text,
            "\n## {part}\n\n| field | type | meaning |\n|---|---|---|\n"
        )?;
        rows(&mut text, "", schema)?;
        let mut stated = String::new();
        rules_below(&mut stated, part, schema)?;
        if !stated.is_empty() {
            write!(text, "\nRules of {part}:\n\n{stated}")?;
        }
    }
    Ok(text)
}

/// Rules about the object as a whole.
fn rules(text: &mut String, schema: &JSONSchemaProps) -> Result<()> {
    for rule in schema.x_kubernetes_validations.iter().flatten() {
        write!(
            text,
            "\n- {}",
            rule.message.as_deref().unwrap_or(&rule.rule)
        )?;
    }
    if schema.x_kubernetes_validations.is_some() {
        text.push('\n');
    }
    Ok(())
}

fn rules_below(text: &mut String, path: &str, schema: &JSONSchemaProps) -> Result<()> {
    for rule in schema.x_kubernetes_validations.iter().flatten() {
        let at = rule.field_path.as_deref().unwrap_or_default();
        let message = rule.message.as_deref().unwrap_or(&rule.rule);
        writeln!(text, "- `{path}{at}`: {}", one_line(message))?;
    }
    for (name, field) in schema.properties.iter().flatten() {
        rules_below(text, &format!("{path}.{name}"), field)?;
    }
    match below(schema) {
        Some((mark, inner)) => rules_below(text, &format!("{path}{mark}"), inner),
        None => Ok(()),
    }
}

fn rows(text: &mut String, prefix: &str, schema: &JSONSchemaProps) -> Result<()> {
    let required = schema.required.clone().unwrap_or_default();
    for (name, field) in schema.properties.iter().flatten() {
        let star = if required.contains(name) { " *" } else { "" };
        let path = format!("{prefix}{name}");
        let meaning = meaning(field);
        writeln!(text, "| `{path}`{star} | {} | {meaning} |", type_of(field))?;
        match below(field) {
            // Conditions look the same everywhere.
            Some(_) if name == "conditions" => {}
            Some((mark, inner)) => rows(text, &format!("{path}{mark}."), inner)?,
            None => rows(text, &format!("{path}."), field)?,
        }
    }
    Ok(())
}

/// What stands below a list or a map, and the mark that says so in a path.
fn below(schema: &JSONSchemaProps) -> Option<(&'static str, &JSONSchemaProps)> {
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items {
        return Some(("[]", item));
    }
    match &schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(value)) => Some(("{}", value)),
        _ => None,
    }
}

fn type_of(schema: &JSONSchemaProps) -> String {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return "number or quantity".to_owned();
    }
    match below(schema) {
        Some(("[]", item)) => format!("list of {}", type_of(item)),
        Some((_, value)) => format!("map of {}", type_of(value)),
        None => match schema.format.as_deref() {
            Some("date-time") => "time".to_owned(),
            _ => schema.type_.clone().unwrap_or_else(|| "any".to_owned()),
        },
    }
}

fn meaning(schema: &JSONSchemaProps) -> String {
    let mut parts = vec![one_line(schema.description.as_deref().unwrap_or_default())];
    if let Some(values) = &schema.enum_ {
        let values: Vec<String> = values
            .iter()
            .map(|value| format!("`{}`", plain(&value.0)))
            .collect();
        parts.push(format!("One of {}.", values.join(", ")));
    }
    if let Some(default) = &schema.default {
        parts.push(format!("Default: `{}`.", plain(&default.0)));
    }
    parts.join(" ").trim().to_owned()
}

fn plain(value: &serde_json::Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Text that fits into a cell of a table.
fn one_line(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}
