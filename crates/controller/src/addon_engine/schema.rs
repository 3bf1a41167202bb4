//! Values against the schema that the catalogue gives for them. What is wrong is said by its place, never by its value:
//! that may be a password.

use butler_api::butler::AddonDefinition;
use jsonschema::{ValidationError, error::ValidationErrorKind};
use kube::ResourceExt;
use serde_json::Value;

use super::Trouble;

/// How many mistakes are told at once.
const MOST: usize = 3;

/// Whether a definition accepts these values.
pub(crate) fn check(definition: &AddonDefinition, values: &Value) -> Result<(), Trouble> {
    let Some(schema) = &definition.spec.values_schema else {
        return Ok(());
    };
    let name = definition.name_any();
    let validator = jsonschema::validator_for(schema).map_err(|error| {
        let message = format!(
            "AddonDefinition {name}: valuesSchema is no JSON Schema, at {}: {}",
            place(error.instance_path().as_str()),
            error.masked()
        );
        Trouble::new("InvalidSchema", message)
    })?;
    let given = without_nulls(values);
    let mut mistakes: Vec<String> = validator.iter_errors(&given).map(|e| told(&e)).collect();
    if mistakes.is_empty() {
        return Ok(());
    }
    let more = mistakes.len().saturating_sub(MOST);
    mistakes.truncate(MOST);
    if more > 0 {
        mistakes.push(format!("and {more} more"));
    }
    let message = format!(
        "values do not fit valuesSchema of AddonDefinition {name}: {}",
        mistakes.join("; ")
    );
    Err(Trouble::new("InvalidValues", message))
}

fn told(error: &ValidationError<'_>) -> String {
    let at = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let missing = property.as_str().unwrap_or_default();
            format!("{at}/{missing} is missing")
        }
        _ => format!("{}: {}", place(at), error.masked()),
    }
}

fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}

/// A null takes a key away before Helm checks values, and so it does here.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, field)| !field.is_null());
            Value::Object(
                kept.map(|(key, field)| (key.clone(), without_nulls(field)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(schema: &Value) -> AddonDefinition {
        serde_json::from_value(json!({"metadata": {"name": "db"}, "spec": {
            "displayName": "DB", "description": "d", "category": "database", "valuesSchema": schema,
            "chart": {"repository": "https://charts.example.com", "name": "db", "defaultVersion": "1.0.0"},
        }}))
        .unwrap()
    }

    fn schema() -> Value {
        json!({
            "type": "object", "required": ["auth"],
            "properties": {
                "auth": {
                    "type": "object", "required": ["user"],
                    "properties": {"password": {"type": "string", "minLength": 12}},
                },
                "replicas": {"type": "integer", "minimum": 1},
            },
        })
    }

    #[test]
    fn the_place_of_every_mistake_is_named_and_no_value_is() {
        let values = json!({"replicas": 0, "auth": {"password": "hunter2"}});
        let trouble = check(&definition(&schema()), &values).unwrap_err();
        assert_eq!(trouble.reason, "InvalidValues");
        for place in ["/auth/user is missing", "/auth/password:", "/replicas:"] {
            assert!(trouble.message.contains(place), "{}", trouble.message);
        }
        assert!(!trouble.message.contains("hunter2"), "{}", trouble.message);
    }

    #[test]
    fn values_that_fit_are_accepted_and_a_null_counts_as_left_out() {
        let values = json!({"auth": {"user": "ada", "password": null}, "other": [1]});
        assert_eq!(check(&definition(&schema()), &values), Ok(()));
    }

    #[test]
    fn a_schema_that_is_none_is_the_fault_of_the_catalogue() {
        let wrong = definition(&json!({"type": "objekt"}));
        let trouble = check(&wrong, &json!({})).unwrap_err();
        assert_eq!(trouble.reason, "InvalidSchema");
        assert!(
            trouble.message.contains("AddonDefinition db"),
            "{}",
            trouble.message
        );
    }

    #[test]
    fn a_schema_elsewhere_is_not_fetched() {
        let remote = definition(&json!({"$ref": "http://127.0.0.1:1/schema.json"}));
        let trouble = check(&remote, &json!({})).unwrap_err();
        assert_eq!(trouble.reason, "InvalidSchema");
    }
}
