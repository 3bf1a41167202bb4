//! A cloud-config: which of its keys mean something here, and in which order they are carried out. Pure.

use serde_json::{Map, Value};

use super::{Error, Plan, Step, commands, files, users};

/// Keys that change nothing on a machine of this platform, with the reason.
const IGNORED: [(&str, &str); 12] = [
    ("ntp", "the machine has the clock of its host"),
    ("timezone", "the machine has the clock of its host"),
    ("disk_setup", "the machine's disk is a folder of its host"),
    ("fs_setup", "the machine's disk is a folder of its host"),
    ("mounts", "the machine's disk is a folder of its host"),
    ("growpart", "the machine's disk is a folder of its host"),
    ("swap", "the machine has the memory of its host"),
    ("hostname", "the platform chooses the host name"),
    ("fqdn", "the platform chooses the host name"),
    ("preserve_hostname", "the platform chooses the host name"),
    ("packages", "programs come with the platform"),
    ("package_update", "programs come with the platform"),
];

/// Reads the document; the order of steps is cloud-init's.
pub(super) fn read(text: &str) -> Result<Plan, Error> {
    // Like the parser of cloud-init: `0640` is an octal number.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let document = serde_saphyr::from_str_with_options(text, options);
    let document: Value = document.map_err(|error| Error::Yaml {
        // Its words would repeat the line.
        place: error.location().map_or_else(
            || "its structure".to_owned(),
            |place| format!("line {}, column {}", place.line(), place.column()),
        ),
    })?;
    let mut keys = match document {
        Value::Object(keys) => keys,
        Value::Null => Map::new(),
        Value::Array(_) | Value::String(_) | Value::Bool(_) | Value::Number(_) => {
            return Err(wrong("the top", "keys with values"));
        }
    };
    let mut plan = Plan::default();
    plan.steps.extend(commands::read(&mut keys, "bootcmd")?);
    let (early, late) = files::read(&mut keys)?;
    plan.steps.extend(early.into_iter().map(Step::File));
    let users = users::read(&mut keys, &mut plan.ignored)?;
    plan.steps.extend(users.into_iter().map(Step::User));
    plan.steps.extend(late.into_iter().map(Step::File));
    plan.steps.extend(commands::read(&mut keys, "runcmd")?);
    plan.ignored.extend(keys.keys().map(|key| note(key)));
    Ok(plan)
}

fn note(key: &str) -> String {
    let known = IGNORED.iter().find(|(known, _)| *known == key);
    known.map_or_else(
        || format!("{key}: not known to this platform"),
        |(_, reason)| format!("{key}: {reason}"),
    )
}

/// A mistake at a place.
pub(super) fn wrong(at: impl Into<String>, expected: &'static str) -> Error {
    Error::Field {
        at: at.into(),
        expected,
    }
}

/// The list under a key, taken out; nothing where the key is missing or empty.
pub(super) fn list(keys: &mut Map<String, Value>, key: &str) -> Result<Vec<Value>, Error> {
    match keys.remove(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(wrong(key, "a list")),
    }
}

/// The text under a key, taken out; numbers and truth values are text too.
pub(super) fn text(
    keys: &mut Map<String, Value>,
    at: &str,
    key: &str,
) -> Result<Option<String>, Error> {
    match keys.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match scalar(&value) {
            Some(text) => Ok(Some(text)),
            None => Err(wrong(format!("{at}.{key}"), "text")),
        },
    }
}

/// The truth value under a key, taken out; false where the key is missing.
pub(super) fn flag(keys: &mut Map<String, Value>, at: &str, key: &str) -> Result<bool, Error> {
    match keys.remove(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(_) => Err(wrong(format!("{at}.{key}"), "true or false")),
    }
}

/// What a word of a command or a text may be written as.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
