//! The tables of `tests/cases`: what they look like, and how an answer is compared with one.

use std::{fs, path::Path};

use serde::Deserialize;
use serde_json::Value;

/// All cases of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// A minimal valid object.
    pub(crate) base: Value,
    #[serde(default)]
    pub(crate) valid: Vec<Case>,
    #[serde(default)]
    pub(crate) invalid: Vec<RefusedCase>,
    #[serde(default)]
    pub(crate) updates: Vec<Update>,
    #[serde(default)]
    pub(crate) documents: Vec<Document>,
    #[serde(default)]
    pub(crate) defaults: Vec<Defaulted>,
}

/// The base with a merge patch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) with: Value,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RefusedCase {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) with: Value,
    #[serde(flatten)]
    pub(crate) refusal: Refusal,
}

/// What the message of a refusal must hold.
#[derive(Debug, Deserialize)]
pub(crate) struct Refusal {
    field: String,
    says: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Update {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) with: Value,
    pub(crate) change: Value,
    /// Without one the change must be accepted.
    #[serde(flatten)]
    pub(crate) refusal: Option<Refusal>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) object: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Defaulted {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) with: Value,
    pub(crate) expect: Value,
}

impl Table {
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a table can be read");
        serde_saphyr::from_str(&text)
            .unwrap_or_else(|error| panic!("{} is not a table: {error}", path.display()))
    }

    /// Objects that must be accepted.
    pub(crate) fn accepted(&self) -> usize {
        let updates = self
            .updates
            .iter()
            .filter(|case| case.refusal.is_none())
            .count();
        self.valid.len() + self.documents.len() + self.defaults.len() + updates
    }

    /// Objects that must be refused.
    pub(crate) fn refused(&self) -> usize {
        let updates = self
            .updates
            .iter()
            .filter(|case| case.refusal.is_some())
            .count();
        self.invalid.len() + updates
    }
}

impl Refusal {
    /// What the answer lacks, if anything.
    pub(crate) fn misses(&self, code: u16, message: &str) -> Option<String> {
        if code != 422 {
            return Some(format!(
                "was answered with {code} instead of 422: {message}"
            ));
        }
        [&self.field, &self.says]
            .into_iter()
            .find(|text| !message.contains(text.as_str()))
            .map(|text| format!("the message lacks {text:?}: {message}"))
    }
}

/// `base` with a JSON merge patch (RFC 7386).
pub(crate) fn merged(base: &Value, patch: &Value) -> Value {
    let mut result = base.clone();
    if !patch.is_null() {
        json_patch::merge(&mut result, patch);
    }
    result
}

/// Whether everything of `part` stands in `whole`.
pub(crate) fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|held| contains(held, value))),
        (whole, part) => whole == part,
    }
}
