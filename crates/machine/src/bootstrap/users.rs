//! `users`: who may sign in. Pure.

use serde_json::{Map, Value};

use super::{
    Error, User,
    document::{list, scalar, text, wrong},
};

/// The users to make; what is left out of them is noted.
pub(super) fn read(
    keys: &mut Map<String, Value>,
    ignored: &mut Vec<String>,
) -> Result<Vec<User>, Error> {
    let mut users = Vec::new();
    for (index, item) in list(keys, "users")?.into_iter().enumerate() {
        let at = format!("users[{index}]");
        match item {
            Value::String(name) if name == "default" => {
                ignored.push(format!("{at}: there is no default user"));
            }
            Value::String(name) => users.push(User {
                name: checked(name, &at)?,
                locked: true,
                ..User::default()
            }),
            Value::Object(mut item) => {
                users.push(user(&mut item, &at)?);
                let left = item.keys().map(|key| format!("{at}.{key}: not supported"));
                ignored.extend(left);
            }
            _ => return Err(wrong(at, "a user with a name")),
        }
    }
    Ok(users)
}

fn user(item: &mut Map<String, Value>, at: &str) -> Result<User, Error> {
    let name = text(item, at, "name")?.unwrap_or_default();
    Ok(User {
        name: checked(name, &format!("{at}.name"))?,
        gecos: text(item, at, "gecos")?,
        home: text(item, at, "homedir")?,
        shell: text(item, at, "shell")?,
        primary_group: text(item, at, "primary_group")?,
        groups: words(item, at, "groups", &[','])?,
        sudo: words(item, at, "sudo", &['\n'])?
            .into_iter()
            .filter(|line| line != "false")
            .collect(),
        locked: locked(item, at)?,
        password_hash: text(item, at, "passwd")?,
        authorized_keys: words(item, at, "ssh_authorized_keys", &['\n'])?,
    })
}

/// Locked unless said otherwise, as cloud-init does it.
fn locked(item: &mut Map<String, Value>, at: &str) -> Result<bool, Error> {
    match item.remove("lock_passwd") {
        None | Some(Value::Null) => Ok(true),
        Some(Value::Bool(locked)) => Ok(locked),
        Some(_) => Err(wrong(format!("{at}.lock_passwd"), "true or false")),
    }
}

/// A list, or one text that is cut at separators.
fn words(
    item: &mut Map<String, Value>,
    at: &str,
    key: &str,
    separators: &[char],
) -> Result<Vec<String>, Error> {
    let mistake = || wrong(format!("{at}.{key}"), "text or a list of texts");
    let texts = match item.remove(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .map(scalar)
            .collect::<Option<Vec<_>>>()
            .ok_or_else(mistake)?,
        Some(other) => vec![scalar(&other).ok_or_else(mistake)?],
    };
    let parts = texts.iter().flat_map(|text| text.split(separators));
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    Ok(parts.map(str::to_owned).collect())
}

/// What every Linux accepts as the name of a user; it becomes an argument of a program.
fn checked(name: String, at: &str) -> Result<String, Error> {
    let first = name.chars().next();
    let starts = first.is_some_and(|char| char.is_ascii_lowercase() || char == '_');
    let sane =
        |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "_-.".contains(char);
    if starts && name.chars().all(sane) && name.len() <= 32 {
        Ok(name)
    } else {
        Err(wrong(at, "a user name of small letters, digits, - and _"))
    }
}
