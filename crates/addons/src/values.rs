//! Helm values: layers of them laid over each other, and what is read out of Secrets.

use serde_json::{Map, Value};

/// Why values could not be put together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// A layer is no map.
    #[error("values from {source_name} are not a map of keys to values")]
    NotAMap {
        /// Where they come from.
        source_name: String,
    },
    /// A layer is no YAML. What it says is left out: it may be a password.
    #[error("values from {source_name} are not valid YAML")]
    NotYaml {
        /// Where they come from.
        source_name: String,
    },
}

/// Lays `over` on `base`: maps are merged, everything else is replaced. A null takes a key away, as Helm has it: it is
/// kept, so that it also takes away what the chart itself says.
pub fn lay_over(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                match base.get_mut(key) {
                    Some(held) => lay_over(held, value),
                    None => drop(base.insert(key.clone(), value.clone())),
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

/// All layers, lowest first, as one map. `Null` is an empty layer.
pub fn merge<'a>(
    layers: impl IntoIterator<Item = (&'a str, &'a Value)>,
) -> Result<Value, ValuesError> {
    let mut whole = Value::Object(Map::new());
    for (source_name, layer) in layers {
        match layer {
            Value::Null => {}
            Value::Object(_) => lay_over(&mut whole, layer),
            _ => {
                return Err(ValuesError::NotAMap {
                    source_name: source_name.to_owned(),
                });
            }
        }
    }
    Ok(whole)
}

/// The content of one key of a Secret or `ConfigMap`: YAML, or plain text for one place such as `auth.password`.
pub fn parse(source_name: &str, text: &str, target: Option<&str>) -> Result<Value, ValuesError> {
    let Some(target) = target else {
        return serde_saphyr::from_str(text).map_err(|_| ValuesError::NotYaml {
            source_name: source_name.to_owned(),
        });
    };
    let text = Value::String(text.to_owned());
    let keys = target.rsplit('.');
    Ok(keys.fold(text, |below, key| {
        Value::Object(Map::from_iter([(key.to_owned(), below)]))
    }))
}

/// Every text and number in values, longest first: what must not be seen in the output of a command.
pub fn texts(values: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(values, &mut found);
    found.sort_by_key(|text| std::cmp::Reverse(text.len()));
    found.dedup();
    found
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, found)),
        Value::Number(number) => found.push(number.to_string()),
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_merge_lists_are_replaced_and_the_last_layer_wins() {
        let catalogue = json!({"a": {"x": 1, "y": [1, 2]}, "keep": true});
        let own = json!({"a": {"y": [3]}, "b": null});
        let secret = json!({"a": {"x": 9}});
        let layers = [
            ("catalogue", &catalogue),
            ("spec", &own),
            ("secret", &secret),
            ("none", &Value::Null),
        ];
        let expected = json!({"a": {"x": 9, "y": [3]}, "b": null, "keep": true});
        assert_eq!(merge(layers), Ok(expected));
    }

    #[test]
    fn a_layer_that_is_no_map_is_named() {
        let error = merge([("Secret a, key b", &json!([1]))]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "values from Secret a, key b are not a map of keys to values"
        );
    }

    #[test]
    fn a_key_is_yaml_or_one_text_at_a_place() {
        let yaml = parse("s", "a: {b: 1}", None);
        assert_eq!(yaml, Ok(json!({"a": {"b": 1}})));
        let text = parse("s", "p@ss: word", Some("auth.password"));
        assert_eq!(text, Ok(json!({"auth": {"password": "p@ss: word"}})));
    }

    #[test]
    fn what_is_wrong_with_secret_yaml_is_said_without_quoting_it() {
        let error = parse("Secret a, key b", "hunter2: [", None).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
